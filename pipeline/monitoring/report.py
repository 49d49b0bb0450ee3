"""What a monitoring pass returns."""

from dataclasses import dataclass
from typing import Any

from foundation.jsonable import to_jsonable
from lucid_models.drift import Drift
from pipeline.monitoring.data import DataHealth, MonitoredWindow
from pipeline.monitoring.errors import DurationHealth, PackingHealth, SeriesHealth
from pipeline.monitoring.inference import LoadHealth
from pipeline.monitoring.limits import LimitSavings
from pipeline.monitoring.live import LiveHealth
from pipeline.monitoring.nodes import NodeHealth
from pipeline.monitoring.rules import Finding, MonitorSettings, Urgency
from pipeline.monitoring.waits import WaitHealth


@dataclass(frozen=True)
class MonitorReport:
    """One pass; `to_jsonable(report)` is report.json."""

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
    nodes: NodeHealth | None = None
    inference: LoadHealth | None = None
    limits: tuple[LimitSavings, ...] = ()
    waits: WaitHealth | None = None

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the decision is what it is, in words; empty when all is well."""
        return tuple(finding.sentence for finding in self.findings if finding.level is self.decision)

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON can say it."""
        document: dict[str, Any] = to_jsonable(self)
        return {**document, "reasons": list(self.reasons)}
