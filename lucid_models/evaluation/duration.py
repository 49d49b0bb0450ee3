"""Measures the duration model beside naive methods: jobs after the training days, in the order of submission.

A run time is known only once its job ended (submission + wait + run). Naive methods read the same history;
rivals that must be trained come from whoever measures them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foundation.errors import BadInputError
from foundation.progress import Progress, silent
from lucid_models.duration import rival_estimates
from lucid_models.duration.model import DurationSettings, WorkloadEstimateModel, epoch_seconds
from lucid_models.duration.scorer import DurationScorer
from lucid_models.evaluation.measures import (
    Floats,
    Row,
    compared,
    cpu_timed,
    duration_metrics,
    log10_errors,
    predict_timed,
    r_squared,
)
from lucid_models.qssf.rolling import rolling_estimates_s
from lucid_models.series_windows import DAY_S

LEAST_JOBS = 10


@dataclass(frozen=True)
class DurationComparison:
    """What was measured.

    - `rows`: one a model; `ebm_unconstrained` is the model before its monotone constraints.
    - `by_group`: one a model and group of jobs (known and new users and names, virtual clusters): {model,
      split, group, jobs, mae_log10}.
    - `estimates`: one row a test job: submit_time, virtual_cluster, truth_s, p50_s, p90_s, mean_s of the
      model and one column a rival, in seconds.
    """

    rows: list[Row] = field(default_factory=list)
    by_group: list[Row] = field(default_factory=list)
    estimates: pd.DataFrame = field(default_factory=pd.DataFrame)
    train_jobs: int = 0


def evaluate_duration(
    jobs: pd.DataFrame,
    train_days: float,
    *,
    settings: DurationSettings | None = None,
    progress: Progress = silent,
) -> list[Row]:
    """The rows of `compare_durations` for the model and what needs no training."""
    return compare_durations(jobs, train_days, settings=settings, progress=progress).rows


def compare_durations(
    jobs: pd.DataFrame,
    train_days: float,
    *,
    rivals: "DurationRivals | None" = None,
    settings: DurationSettings | None = None,
    progress: Progress = silent,
) -> DurationComparison:
    """Every model on the jobs submitted after the first `train_days` days.

    Rows {model, kendall_tau, spearman, mae_log10, r2_mean_head, coverage_p50, coverage_p90, negative_share,
    fit_s, predict_ms, jobs, worse_by, ...}. Jobs that never ran (no run time, or zero) are left out. Ranks
    are of GPU time (GPUs x run time), errors of log10 run time, R2 of seconds; `negative_share` of what a
    model says below zero, which counts as a second in ranks and errors. `rivals` adds what must be
    trained. Times are CPU time; `fit_s` includes making the features, `predict_ms` is for all test jobs
    from ready features. `worse_by`: how much the error exceeds the model's (measures.compared,
    blocks of days).

    Raises BadInputError when the split leaves too few jobs on either side.
    """
    test = DurationTest(jobs, train_days)
    progress(0, None, "duration: the model")
    model, features = _add_model(test, settings, progress)
    _add_naive(test)
    if rivals is not None:
        rivals(test, model, features, progress)
    progress(1, 1, "durations evaluated")
    return test.result()


class DurationTest:
    """The split log and what each model said of its later part."""

    def __init__(self, jobs: pd.DataFrame, train_days: float) -> None:
        ran = jobs[pd.to_numeric(jobs["duration_s"], errors="coerce").astype("Float64").fillna(0) > 0]
        submit = epoch_seconds(ran, "submit_time")
        order = np.argsort(submit, kind="stable")
        self.train_days = train_days
        self.jobs = ran.iloc[order].reset_index(drop=True)
        self.early = submit[order] < (submit.min() if len(ran) else 0.0) + train_days * DAY_S
        self.train = self.jobs[self.early]
        self.test = self.jobs[~self.early].reset_index(drop=True)
        if len(self.test) < LEAST_JOBS or len(self.train) < LEAST_JOBS:
            raise BadInputError(
                f"{train_days:g} training days leave {len(self.train)} jobs to learn from and "
                f"{len(self.test)} to test.",
                remedy="Choose --train-days within the log.",
            )
        self.truth = self.test["duration_s"].to_numpy(dtype=np.float64)
        # A job without a GPU counts as one unit, so that CPU logs are ranked by run time x cores or run time.
        self.size = np.maximum(self.test["gpus"].to_numpy(dtype=np.float64), 1.0)
        self.estimates = pd.DataFrame(
            {
                "submit_time": self.test["submit_time"],
                "virtual_cluster": self.test.get("virtual_cluster"),
                "gpus": self.test["gpus"],
                "truth_s": self.truth,
            }
        )
        self._said: dict[str, tuple[Floats, Floats, Row]] = {}

    def add(self, name: str, seconds: Floats, mean: Floats, **measured: float | None) -> None:
        """Take note of a model: what it orders jobs by, its mean run times, what else was measured."""
        self._said[name] = (seconds, mean, measured)
        self.estimates["p50_s" if name == "ebm" else name] = seconds

    def has(self, name: str) -> bool:
        """Whether the model was measured."""
        return name in self._said

    def estimate_of(self, name: str) -> Floats:
        """What a model orders jobs by, in seconds."""
        return self._said[name][0]

    def costs_of(self, name: str) -> Row:
        """What a model costs: fit_s, predict_ms."""
        return {key: self._said[name][2].get(key) for key in ("fit_s", "predict_ms")}

    def later(self, of_all_jobs: Floats) -> Floats:
        """The test jobs' part of an estimate for all jobs."""
        return of_all_jobs[~self.early]

    def result(self) -> DurationComparison:
        """Return what was measured."""
        errors = {name: log10_errors(self.truth, said[0]) for name, said in self._said.items()}
        days = pd.to_datetime(self.test["submit_time"], utc=True).dt.floor("D")
        blocks = np.unique(days, return_inverse=True)[1].astype(np.intp)
        rows = [
            {
                "model": name,
                **duration_metrics(self.truth, seconds, self.size),
                "r2_mean_head": r_squared(self.truth, mean),
                "coverage_p50": measured.get("coverage_p50"),
                "coverage_p90": measured.get("coverage_p90"),
                "negative_share": float(((seconds < 0) | (mean < 0)).mean()),
                "fit_s": measured.get("fit_s", 0.0),
                "predict_ms": measured.get("predict_ms"),
                "jobs": len(self.truth),
                **compared(errors[name], errors["ebm"], blocks),
            }
            for name, (seconds, mean, measured) in self._said.items()
        ]
        return DurationComparison(rows, self._by_group(errors), self.estimates, len(self.train))

    def _by_group(self, errors: dict[str, Floats]) -> list[Row]:
        rows = []
        for split, group, inside in self._groups():
            for name, error in errors.items():
                rows.append(
                    {
                        "model": name,
                        "split": split,
                        "group": group,
                        "jobs": int(inside.sum()),
                        "mae_log10": float(error[inside].mean()),
                    }
                )
        return rows

    def _groups(self) -> list[tuple[str, str, NDArray[np.bool_]]]:
        """Jobs whose user or name the training days knew and those of new ones; virtual clusters."""
        groups: list[tuple[str, str, NDArray[np.bool_]]] = []
        for column in ("user", "name"):
            if column in self.train.columns and self.train[column].notna().any():
                has_value = self.test[column].notna().to_numpy()
                seen_in_training = self.test[column].isin(self.train[column].dropna().unique()).to_numpy()
                groups += [
                    (column, "known", has_value & seen_in_training),
                    (column, "new", has_value & ~seen_in_training),
                ]
        if "virtual_cluster" in self.test.columns and self.test["virtual_cluster"].nunique() > 1:
            clusters = self.test["virtual_cluster"].astype(object)
            groups += [
                ("virtual_cluster", str(name), (clusters == name).to_numpy())
                for name in sorted(clusters.dropna().unique())
            ]
        return [(split, group, inside) for split, group, inside in groups if inside.any()]


# Adds rivals to a test: the fitted model and its features of the test jobs are at hand.
DurationRivals = Callable[[DurationTest, WorkloadEstimateModel, pd.DataFrame, Progress], None]


def _add_model(
    test: DurationTest, settings: DurationSettings | None, progress: Progress
) -> tuple[WorkloadEstimateModel, pd.DataFrame]:
    model, fit_s = cpu_timed(lambda: WorkloadEstimateModel(settings).fit(test.train, progress=progress))
    features = model.features_causal(test.test, earlier=test.train, progress=progress)
    rows = features.to_numpy()
    scorers = {"ebm": model.scorer}
    if model.unconstrained is not None:
        scorers["ebm_unconstrained"] = model.unconstrained
    for name, scorer in scorers.items():
        _, took_ms = predict_timed(partial(_p50, scorer, rows))
        p50, p90, mean = scorer.estimate_rows(rows)
        test.add(
            name,
            p50,
            mean,
            coverage_p50=float((test.truth <= p50).mean()),
            coverage_p90=float((test.truth <= p90).mean()),
            fit_s=fit_s,
            predict_ms=took_ms,
        )
        if name == "ebm":
            test.estimates["p90_s"], test.estimates["mean_s"] = p90, mean
    return model, features


def _p50(scorer: DurationScorer, rows: Floats) -> Floats:
    return scorer.estimate_rows(rows)[0]


def _add_naive(test: DurationTest) -> None:
    """Methods without training; they learn from every job that ends."""
    methods = {
        "size_alone": rival_estimates.size_alone_s,
        "ewma": rival_estimates.user_name_s,
        "helios_rolling": rolling_estimates_s,
    }
    if "user" in test.jobs.columns and test.jobs["user"].notna().any():
        methods["tsafrir"] = rival_estimates.user_history_s
    for name, method in methods.items():
        seconds = test.later(method(test.jobs))
        test.add(name, seconds, seconds)
