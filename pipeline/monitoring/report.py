"""What a monitoring pass returns, and what shorter time limits would have saved."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from foundation.errors import BadInputError
from foundation.jsonable import to_jsonable
from lucid_models.drift import Drift
from lucid_models.evaluation.limits import advised_limits, measured_by_group
from lucid_models.limits.advisor import LimitSettings
from lucid_models.limits.limit_table import LimitTable
from pipeline.monitoring.data import DataHealth, MonitoredTables, MonitoredWindow
from pipeline.monitoring.errors import DurationHealth, PackingHealth, SeriesHealth
from pipeline.monitoring.live import LiveHealth
from pipeline.monitoring.part_health import PartHealth
from pipeline.monitoring.rules import Finding, MonitorSettings, Urgency


@dataclass(frozen=True)
class LimitSavings:
    """Of a group of jobs of the window that ended: the median of limit / run time as asked and as advised,
    and in percent the jobs that advice would have killed, those with a shorter limit, and the advised limits
    summed, of those asked for.
    """

    group: str
    jobs: int
    ratio_before: float
    ratio_after: float
    killed_pct: float
    lowered_pct: float
    limit_time_pct: float


@dataclass(frozen=True)
class MonitorReport:
    """One pass; `to_dict()` is report.json. `parts` are by their fields there; None: the release lacks it."""

    cluster: str
    release_version: int
    release_alias: str | None
    window: MonitoredWindow
    decision: Urgency
    findings: tuple[Finding, ...]
    data: DataHealth
    drift: tuple[Drift, ...]
    duration: DurationHealth
    throughput: tuple[SeriesHealth, ...]
    packing: PackingHealth
    settings: MonitorSettings
    live: LiveHealth | None = None
    limits: tuple[LimitSavings, ...] = ()
    parts: Mapping[str, PartHealth | None] = field(default_factory=dict)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the decision is what it is, in words; empty when all is well."""
        return tuple(finding.sentence for finding in self.findings if finding.level is self.decision)

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON can say it."""
        document: dict[str, Any] = to_jsonable(self)
        parts = document.pop("parts")
        return {**document, **parts, "reasons": list(self.reasons)}


def limit_savings(tables: MonitoredTables) -> tuple[LimitSavings, ...]:
    """What shorter limits would have saved, by advice of what had ended before each job: of all jobs and of
    those with GPUs; nothing of a log without time limits.
    """
    try:
        table = LimitTable.of_jobs(tables.later)
    except BadInputError:
        return ()
    judged = table.submit_s >= tables.window.start.timestamp()
    advised_s = advised_limits(table, "start", LimitSettings())
    return tuple(
        LimitSavings(**{name: row[name] for name in LimitSavings.__dataclass_fields__})
        for row in measured_by_group(table, advised_s, judged)
    )
