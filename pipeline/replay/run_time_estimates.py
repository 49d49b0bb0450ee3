"""Where a replay's policies have their estimates of run times from, and what is made of the log for them."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from math import inf
from typing import Any

import numpy as np
import pandas as pd

from foundation.errors import BadInputError, check_names
from foundation.progress import Progress, silent
from simulator.workload.time_limits import with_limits_for_all, without_limits
from simulator.workload.user_history_estimates import user_history_estimates
from simulator.workload.workload import Workload

LIMIT, LOGGED, MODEL, TRUTH = "limit", "log", "model", "truth"
USER_HISTORY, QSSF, QSSF_ARTIFACT = "user-history", "qssf", "qssf-artifact"
SOURCES = (LIMIT, LOGGED, MODEL, TRUTH, USER_HISTORY, QSSF, QSSF_ARTIFACT)


@dataclass(frozen=True)
class EstimateSource:
    """`name` is one of SOURCES, or None for what a site would go by.

    - None: the log's own estimates (the user's history where it has none); backfilling goes by the jobs' time
      limits, where the log has them.
    - `limit`: time limits are all that any policy knows.
    - `log`: the log's own estimates, for backfilling too; limits are not looked at, here and in what follows.
    - `model`: the duration model, fitted on what had ended before the first job that is replayed.
    - `truth`: true run times.
    - `user-history` (Tsafrir), `qssf`, `qssf-artifact`: Helios' QSSF by its paper's rules or its artifact's.

    `settings` are of QSSF, by the names of the fields of QssfRules and TreeUpdates. Raises UnknownNameError
    for a source that there is not, BadInputError for settings without QSSF.
    """

    name: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.name is not None:
            check_names("source of estimates", [self.name], SOURCES)
        if self.settings and self.name not in (QSSF, QSSF_ARTIFACT):
            raise BadInputError(
                f"Estimates from {self.name or LOGGED!r} have no settings, but got "
                f"{', '.join(sorted(self.settings))}.",
                remedy=f"Choose {QSSF} or {QSSF_ARTIFACT}.",
            )

    @property
    def learns_from_jobs(self) -> bool:
        """Whether it looks at more of the jobs than a workload does."""
        return self.name in (MODEL, QSSF, QSSF_ARTIFACT)

    def used_for(self, workload: Workload) -> str:
        """Return which of SOURCES the estimates of these jobs are from; limits for backfilling are beside."""
        stated = not np.isnan(workload.columns.estimated_duration_s).any()
        return USER_HISTORY if self.name in (None, LOGGED) and not stated else self.name or LOGGED

    def limited(self, workload: Workload) -> tuple[Workload, tuple[str, ...]]:
        """Return the workload with the time limits that backfilling goes by, and remarks; no estimates."""
        return with_limits_for_all(workload) if self.name in (None, LIMIT) else (without_limits(workload), ())

    def estimated(
        self,
        workload: Workload,
        jobs: pd.DataFrame,
        earlier: pd.DataFrame,
        progress: Progress = silent,
        *,
        known_until: datetime | None = None,
    ) -> tuple[Workload, tuple[str, ...]]:
        """Return the workload of `jobs` with an estimate for every job, and remarks.

        `earlier` are the log's jobs that are not among them: history to learn from. A model knows what had
        ended by `known_until`, where the replay begins; None: the first submission. It is later than that
        where jobs that were there already fill the cluster.
        """
        limited, remarks = with_limits_for_all(workload)
        if self.name is None:
            estimated, of_estimates = self._of_log(limited, jobs)
            return estimated, (*remarks, *of_estimates)
        if self.name == LIMIT:
            return _by_limits(limited), (*remarks, "Policies know the jobs' time limits, and nothing else.")
        estimated, of_estimates = self._stated(limited, jobs, earlier, progress, known_until)
        return without_limits(estimated), of_estimates

    def _stated(
        self,
        workload: Workload,
        jobs: pd.DataFrame,
        earlier: pd.DataFrame,
        progress: Progress,
        known_until: datetime | None,
    ) -> tuple[Workload, tuple[str, ...]]:
        """As `estimated`, of a source that stands for time limits, too."""
        if self.name in (QSSF, QSSF_ARTIFACT):
            whose = "paper" if self.name == QSSF else "artifact"
            remark = (
                f"Policies use the estimates of Helios' QSSF, by the rules of its {whose}; {len(earlier):,} "
                "earlier jobs are history."
            )
            return workload.with_estimates(self._qssf_s(jobs, earlier, progress)[_rows(workload)]), (remark,)
        if self.name == MODEL:
            remark = f"Policies use a duration model, fitted on {len(earlier):,} earlier jobs of the log."
            of_model = _model_s(jobs, earlier, progress, known_until)
            return workload.with_estimates(of_model[_rows(workload)]), (remark,)
        if self.name == TRUTH:
            true_s = workload.columns.duration_s
            return without_limits(workload).with_estimates(true_s), ("Policies know true run times.",)
        if self.name == LOGGED:
            return self._of_log(workload, jobs)
        return self._of_history(workload, jobs, "Policies use")

    def _of_log(self, workload: Workload, jobs: pd.DataFrame) -> tuple[Workload, tuple[str, ...]]:
        stated = workload.columns.estimated_duration_s
        if not np.isnan(stated).any():
            return workload.with_estimates(stated), ()
        return self._of_history(workload, jobs, "The log states no estimates: policies use")

    def _of_history(
        self, workload: Workload, jobs: pd.DataFrame, why: str
    ) -> tuple[Workload, tuple[str, ...]]:
        of_history = user_history_estimates(workload, ends_s=logged_ends_s(workload, jobs))
        return workload.with_estimates(of_history), (f"{why} each user's last run times (Tsafrir).",)

    def _qssf_s(
        self, jobs: pd.DataFrame, earlier: pd.DataFrame, progress: Progress
    ) -> "np.ndarray[Any, np.dtype[np.float64]]":
        from lucid_models.qssf.estimates import qssf_estimates_s
        from lucid_models.qssf.rules import QssfRules, load_qssf_rules
        from lucid_models.qssf.trees import TreeUpdates

        of_rules, of_updates = asdict(load_qssf_rules(self.name or QSSF)), asdict(TreeUpdates())
        for name, value in self.settings.items():
            check_names("setting of QSSF's estimate", [name], sorted(of_rules | of_updates))
            _check_type(name, value, (of_rules | of_updates)[name])
        rules = QssfRules(**{name: self.settings.get(name, value) for name, value in of_rules.items()})
        updates = TreeUpdates(**{name: self.settings.get(name, value) for name, value in of_updates.items()})
        history = pd.concat([earlier, jobs], ignore_index=True) if len(earlier) else jobs
        estimates = qssf_estimates_s(history, rules, updates, progress=progress)
        return estimates[len(earlier) :]


def _by_limits(workload: Workload) -> Workload:
    """Time limits as estimates; raises BadInputError for a log without them."""
    if not len(workload) or np.isnan(workload.columns.time_limit_s[0]):
        raise BadInputError(
            "The log has no time limits, so no policy can know them.",
            remedy=f"Estimate run times by one of {', '.join(SOURCES[1:])}.",
        )
    return workload.with_estimates(np.full(len(workload), inf))


def _model_s(
    jobs: pd.DataFrame, earlier: pd.DataFrame, progress: Progress, known_until: datetime | None
) -> "np.ndarray[Any, np.dtype[np.float64]]":
    """What a duration model says of `jobs` that knew what had ended before the replay began."""
    from lucid_models.duration.model import WorkloadEstimateModel
    from lucid_models.training_data import as_known_at

    first = known_until or jobs["submit_time"].min().to_pydatetime()
    try:
        model = WorkloadEstimateModel().fit(as_known_at(earlier, first), known_until=first, progress=progress)
    except BadInputError as error:
        raise BadInputError(
            f"No duration model can be fitted on what the log has before {first}: {error}",
            remedy="Let the replay --start later in the log, or --cold, or estimate run times otherwise.",
        ) from error
    return model.predict_causal(jobs, earlier=earlier, progress=progress)


def logged_ends_s(workload: Workload, jobs: pd.DataFrame) -> "np.ndarray[Any, np.dtype[np.float64]]":
    """Return when each job ended in the log, in seconds from the workload's origin.

    A log without start and end times has jobs end when they would without waiting. NaN: it never ran.
    """
    ends = pd.to_datetime(jobs["end_time"], utc=True).to_numpy(dtype="datetime64[us]")[workload.rows]
    origin = (
        np.datetime64(workload.origin.tz_localize(None), "us") if workload.origin else np.datetime64("NaT")
    )
    seconds = (ends - origin) / np.timedelta64(1, "s")
    unwaited = workload.columns.submit_time_s + workload.columns.duration_s
    # A job that was withdrawn while it waited never ran: no run time is learnt from it.
    return np.where(workload.columns.withdrawn, np.nan, np.where(np.isnan(seconds), unwaited, seconds))


def _rows(workload: Workload) -> "np.ndarray[Any, np.dtype[np.intp]]":
    return np.arange(len(workload)) if workload.rows is None else workload.rows


def _check_type(name: str, value: object, default: object) -> None:
    """Refuse a setting's value that is no text, number, whole number, or true or false, as its default is."""
    if name == "refit_days" and value is None:
        return
    kind = {bool: "true or false", int: "a whole number", float: "a number"}.get(type(default), "a text")
    fits = isinstance(value, int | float) if isinstance(default, float) else isinstance(value, type(default))
    if not fits or isinstance(value, bool) != isinstance(default, bool):
        raise BadInputError(f"{name} is {value!r}.", remedy=f"Give {kind}.")
