"""Where a replay's policies have their estimates of run times from, and what is made of the log for them."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from foundation.errors import BadInputError, check_names
from foundation.progress import Progress, silent
from simulator.user_history_estimates import user_history_estimates
from simulator.workload import Workload

LOGGED, USER_HISTORY, QSSF, QSSF_ARTIFACT = "log", "user-history", "qssf", "qssf-artifact"
SOURCES = (LOGGED, USER_HISTORY, QSSF, QSSF_ARTIFACT)


@dataclass(frozen=True)
class EstimateSource:
    """`name` is one of SOURCES: the log's own estimates (the user's history where it has none), the user's
    history (Tsafrir), or Helios' QSSF by its paper's rules or its artifact's. `settings` are of QSSF, by the
    names of the fields of QssfRules and TreeUpdates.

    Raises UnknownNameError for a source that there is not, BadInputError for settings without QSSF.
    """

    name: str = LOGGED
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_names("source of estimates", [self.name], SOURCES)
        if self.settings and self.name not in (QSSF, QSSF_ARTIFACT):
            raise BadInputError(
                f"Estimates from {self.name!r} have no settings, but got {', '.join(sorted(self.settings))}.",
                remedy=f"Choose {QSSF} or {QSSF_ARTIFACT}.",
            )

    def estimated(
        self, workload: Workload, jobs: pd.DataFrame, earlier: pd.DataFrame, progress: Progress = silent
    ) -> tuple[Workload, tuple[str, ...]]:
        """Return the workload of `jobs` with an estimate for every job, and remarks.

        `earlier` are the log's jobs before the first of them: history to learn from.
        """
        if self.name in (QSSF, QSSF_ARTIFACT):
            whose = "paper" if self.name == QSSF else "artifact"
            remark = (
                f"Policies use the estimates of Helios' QSSF, by the rules of its {whose}; {len(earlier):,} "
                "earlier jobs are history."
            )
            return workload.with_estimates(self._qssf_s(jobs, earlier, progress)[_rows(workload)]), (remark,)
        stated = all(job.estimated_duration_s is not None for job in workload.jobs)
        if self.name == LOGGED and stated:
            return workload, ()
        of_history = user_history_estimates(workload, ends_s=logged_ends_s(workload, jobs))
        why = "Policies use" if self.name == USER_HISTORY else "The log states no estimates: policies use"
        return workload.with_estimates(of_history), (f"{why} each user's last run times (Tsafrir).",)

    def _qssf_s(
        self, jobs: pd.DataFrame, earlier: pd.DataFrame, progress: Progress
    ) -> "np.ndarray[Any, np.dtype[np.float64]]":
        from lucid_models.qssf.estimates import qssf_estimates_s
        from lucid_models.qssf.rules import QssfRules, load_qssf_rules
        from lucid_models.qssf.trees import TreeUpdates

        of_rules, of_updates = asdict(load_qssf_rules(self.name)), asdict(TreeUpdates())
        for name, value in self.settings.items():
            check_names("setting of QSSF's estimate", [name], sorted(of_rules | of_updates))
            _check_type(name, value, (of_rules | of_updates)[name])
        rules = QssfRules(**{name: self.settings.get(name, value) for name, value in of_rules.items()})
        updates = TreeUpdates(**{name: self.settings.get(name, value) for name, value in of_updates.items()})
        history = pd.concat([earlier, jobs], ignore_index=True) if len(earlier) else jobs
        estimates = qssf_estimates_s(history, rules, updates, progress=progress)
        return estimates[len(earlier) :]


def logged_ends_s(workload: Workload, jobs: pd.DataFrame) -> "np.ndarray[Any, np.dtype[np.float64]]":
    """Return when each job ended in the log, in seconds from the workload's origin.

    A log without start and end times has jobs end when they would without waiting. NaN: it never ran.
    """
    ends = pd.to_datetime(jobs["end_time"], utc=True).to_numpy(dtype="datetime64[us]")[workload.rows]
    origin = (
        np.datetime64(workload.origin.tz_localize(None), "us") if workload.origin else np.datetime64("NaT")
    )
    seconds = (ends - origin) / np.timedelta64(1, "s")
    unwaited = np.array([job.submit_time_s + job.duration_s for job in workload.jobs])
    withdrawn = np.array([job.cancel_time_s is not None for job in workload.jobs], dtype=bool)
    # A job that was withdrawn while it waited never ran: no run time is learnt from it.
    return np.where(withdrawn, np.nan, np.where(np.isnan(seconds), unwaited, seconds))


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
