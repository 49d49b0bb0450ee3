"""What is known of a job's needs at its submission, now that production jobs are measured while they run.

A job's own measurement is known when it has run, never at its submission. At its submission there are, in the
order in which they are believed:

1. the profile that its log states;
2. what an earlier job of the same template was measured to need: the newest figures that were known by then;
3. what was predicted for it from its computation graph.

Jobs of one template run the same program (as `simulator.workload.job_family` has it): of the same job
type, of one user under the same name, or of one user under names that differ in numbers only. The narrowest
template that has figures decides.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cluster_logs.metrics.job_metrics import PREDICTED, PROFILE, PROFILED, RUNNING, fold_days, last_known
from lucid_models.duration.name_buckets import KEY_SEPARATOR, name_family

LOG = "log"  # the origin of a profile that the log states
# A job that was seen for less says too little of those that follow it.
LEAST_OBSERVED_GPU_S = 60.0
_KEY = ["job_id", "submit_time"]
_TICK = pd.Timedelta(microseconds=1)


def profiles_known_at(jobs: pd.DataFrame, metrics: pd.DataFrame) -> pd.DataFrame:
    """What was known of each job's needs when it was submitted.

    `jobs`: JOB_SCHEMA (job_id, submit_time, and where known user, name, job_type and the profile columns);
    `metrics`: JOB_METRICS_SCHEMA, of any jobs and times. Returns gpu_util_pct, gpu_mem_util_pct, gpu_mem_mib
    (NaN: unknown) and origin ("log", "running", "profiled", "predicted" or None), in the rows of `jobs`. A
    value that the log states is never replaced; nothing that became known after a submission has a part.
    """
    figures = np.column_stack([_numbers(jobs, name) for name in PROFILE]).reshape(len(jobs), len(PROFILE))
    origin = np.full(len(jobs), None, dtype=object)
    origin[np.isfinite(figures).any(axis=1)] = LOG
    for rows, values, origins in _sources(jobs, metrics):
        gaps = ~np.isfinite(figures[rows]) & np.isfinite(values)
        figures[rows] = np.where(gaps, values, figures[rows])
        fresh = gaps.any(axis=1) & pd.isna(origin[rows])
        origin[rows[fresh]] = origins[fresh]
    frame = pd.DataFrame(figures, columns=list(PROFILE), index=jobs.index)
    return frame.assign(origin=pd.Series(origin, index=jobs.index, dtype=object))


def with_known_profiles(jobs: pd.DataFrame, metrics: pd.DataFrame) -> pd.DataFrame:
    """The jobs with what was known of their needs in the profile columns; without metrics, `jobs` itself."""
    if metrics.empty or jobs.empty:
        return jobs
    profiles = profiles_known_at(jobs, metrics)
    return jobs.assign(**{name: profiles[name] for name in PROFILE})


def with_own_metrics(jobs: pd.DataFrame, metrics: pd.DataFrame) -> pd.DataFrame:
    """The jobs with what they were measured to need: the truth of a replay, not known at their submission.

    A profile that the log states whole stays. Without metrics, `jobs` itself.
    """
    measured = metrics[metrics["origin"] == RUNNING]
    if measured.empty or jobs.empty:
        return jobs
    own = _own(jobs, last_known(measured))
    stated = np.column_stack([_numbers(jobs, name) for name in PROFILE])
    whole = np.isfinite(stated).all(axis=1, keepdims=True)
    values = np.where(~whole & np.isfinite(own), own, stated)
    return jobs.assign(**{name: values[:, at] for at, name in enumerate(PROFILE)})


def queue_with_known_profiles(
    queue: Sequence[Mapping[str, Any]], metrics: pd.DataFrame
) -> list[dict[str, Any]]:
    """Waiting jobs (as `live_scheduler.ranking` reads them) with what was known of their needs when they
    were submitted, where they do not say it themselves.
    """
    rows = [dict(job) for job in queue]
    if metrics.empty or not rows:
        return rows
    jobs = pd.DataFrame(rows)
    jobs["submit_time"] = pd.to_datetime(jobs["submit_time_s"], unit="s", utc=True)
    profiles = profiles_known_at(jobs.astype({"job_id": object}), metrics)
    for row, values in zip(rows, profiles[list(PROFILE)].to_numpy(dtype=np.float64).tolist(), strict=True):
        for name, value in zip(PROFILE, values, strict=True):
            if row.get(name) is None and np.isfinite(value):
                row[name] = value
    return rows


class LatestProfiles:
    """What is known now of each template's needs, to be looked up job by job: for a scheduler that decides.

    For a job that is submitted after all of `metrics` were known it says what `profiles_known_at` says of its
    template.
    """

    def __init__(self, metrics: pd.DataFrame) -> None:
        """`metrics`: JOB_METRICS_SCHEMA."""
        self._newest: tuple[dict[str, tuple[float, ...]], ...] = ({}, {}, {})
        if metrics.empty:
            return
        measured = _believed(metrics)
        figures = measured[list(PROFILE)].to_numpy(dtype=np.float64).tolist()
        for newest, templates in zip(self._newest, _templates(measured), strict=True):
            newest.update(
                (key, tuple(row)) for key, row in zip(templates, figures, strict=True) if key is not None
            )

    def of(self, job_type: str | None, user: str | None, name: str | None) -> dict[str, float]:
        """Return gpu_util_pct, gpu_mem_util_pct and gpu_mem_mib of a job, as far as they are known."""
        keys = (job_type or None, _joint_key(user, name), _joint_key(user, name and name_family(name)))
        profile: dict[str, float] = {}
        for key, newest in zip(keys, self._newest, strict=True):
            for column, value in zip(PROFILE, newest.get(key, ()) if key is not None else (), strict=False):
                if np.isfinite(value):
                    profile.setdefault(column, value)
        return profile


_Source = tuple[NDArray[np.intp], NDArray[np.float64], NDArray[np.object_]]


def _sources(jobs: pd.DataFrame, metrics: pd.DataFrame) -> Iterator[_Source]:
    """Rows of `jobs`, values and origins, the most believed first."""
    if metrics.empty or jobs.empty:
        return
    submit = pd.to_datetime(jobs["submit_time"], utc=True).astype("datetime64[us, UTC]").array
    predicted = metrics[metrics["origin"].isin([PROFILED, PREDICTED])]
    yield from _own_source(jobs, predicted[predicted["origin"] == PROFILED], submit)
    measured = _believed(metrics)
    for of_jobs, of_measured in zip(_templates(jobs), _templates(measured), strict=True):
        codes = pd.factorize(np.concatenate([of_jobs.to_numpy(), of_measured.to_numpy()]))[0]
        named, has_template = codes[: len(jobs)] >= 0, codes[len(jobs) :] >= 0
        if not named.any() or not has_template.any():
            continue
        submissions = pd.DataFrame({"template": codes[: len(jobs)][named], "at": submit[named]})
        submissions = submissions.assign(row=np.flatnonzero(named)).sort_values("at", kind="stable")
        right = measured[has_template].assign(template=codes[len(jobs) :][has_template])
        right = right[["template", "known", "origin", *PROFILE]]
        near = pd.merge_asof(submissions, right, left_on="at", right_on="known", by="template")
        near = near[near["origin"].notna()]
        values = near[list(PROFILE)].to_numpy(dtype=np.float64)
        yield near["row"].to_numpy(dtype=np.intp), values, near["origin"].to_numpy(dtype=object)
    yield from _own_source(jobs, predicted[predicted["origin"] == PREDICTED], submit)


def _believed(metrics: pd.DataFrame) -> pd.DataFrame:
    """Measurements that hold for the jobs that follow, in the order in which they were `known`."""
    measured = fold_days(metrics[metrics["origin"] != PREDICTED])
    enough = (measured["origin"] == PROFILED) | (
        measured["observed_gpu_s"].fillna(0.0) >= LEAST_OBSERVED_GPU_S
    )
    measured = measured[enough & measured[list(PROFILE)].notna().any(axis=1)]
    # Clocks that disagree make no job's own measurement known to itself.
    known_time = measured["known_time"].where(
        measured["origin"] == PROFILED, np.maximum(measured["known_time"], measured["submit_time"] + _TICK)
    )
    return measured.assign(known=known_time).sort_values(["known", "submit_time", "job_id"], kind="stable")


def _own_source(
    jobs: pd.DataFrame, rows: pd.DataFrame, submit: "pd.api.extensions.ExtensionArray"
) -> Iterator[_Source]:
    """What is said of the jobs themselves and was known at their submission."""
    rows = rows[rows["known_time"] <= rows["submit_time"]]
    if rows.empty:
        return
    values = _own(jobs, last_known(rows))
    yield np.arange(len(jobs)), values, np.full(len(jobs), str(rows["origin"].iloc[0]), dtype=object)


def _own(jobs: pd.DataFrame, rows: pd.DataFrame) -> NDArray[np.float64]:
    """The figures of `rows`, one a job, in the rows of `jobs`; NaN where there are none."""
    key = jobs[_KEY].astype({"job_id": object, "submit_time": "datetime64[us, UTC]"})
    merged = key.merge(rows[[*_KEY, *PROFILE]].astype({"job_id": object}), on=_KEY, how="left")
    return merged[list(PROFILE)].to_numpy(dtype=np.float64)


def _templates(jobs: pd.DataFrame) -> Iterator["pd.Series[str]"]:
    """The keys of templates, the narrowest first; None where a part is unknown."""
    job_type, user, name = (_texts(jobs, column) for column in ("job_type", "user", "name"))
    yield job_type
    yield _joined(user, name)
    families = {text: name_family(text) for text in name.dropna().unique()}
    yield _joined(user, name.map(families))


def _joined(user: "pd.Series[str]", name: "pd.Series[str]") -> "pd.Series[str]":
    keys = [
        None if pd.isna(job_name) else _joint_key(None if pd.isna(user_name) else user_name, job_name)
        for user_name, job_name in zip(user, name, strict=True)
    ]
    return pd.Series(keys, index=user.index, dtype=object)


def _joint_key(user: str | None, name: str | None) -> str | None:
    return f"{user or ''}{KEY_SEPARATOR}{name}" if name else None


def _texts(jobs: pd.DataFrame, column: str) -> "pd.Series[str]":
    if column not in jobs.columns:
        return pd.Series(None, index=jobs.index, dtype=object)
    texts = jobs[column].astype(object)
    return texts.where(texts.notna() & (texts != ""), None)


def _numbers(jobs: pd.DataFrame, column: str) -> NDArray[np.float64]:
    if column not in jobs.columns:
        return np.full(len(jobs), np.nan)
    numbers = pd.to_numeric(jobs[column], errors="coerce").astype("Float64")
    return np.asarray(numbers.to_numpy(dtype=np.float64, na_value=np.nan), dtype=np.float64)
