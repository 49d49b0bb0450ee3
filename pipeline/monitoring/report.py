"""What a monitoring pass returns."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from foundation.jsonable import to_jsonable
from lucid_models.drift import Drift
from pipeline.monitoring.data import DataHealth, MonitoredWindow
from pipeline.monitoring.errors import DurationHealth, PackingHealth, SeriesHealth
from pipeline.monitoring.limits import LimitSavings
from pipeline.monitoring.live import LiveHealth
from pipeline.monitoring.part_health import PartHealth
from pipeline.monitoring.rules import Finding, MonitorSettings, Urgency


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
