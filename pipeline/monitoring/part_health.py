"""What a pass says of a part of a release: at the place `monitor_check` of a `Part`."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from foundation.site import Site
from lucid_models.drift import Drift
from pipeline.monitoring.data import MonitoredWindow
from pipeline.monitoring.rules import Finding, MonitorSettings


@dataclass(frozen=True)
class MonitoredRelease:
    """A release and where it is judged; `validation`: what its models scored there, metrics by kind."""

    models: Any
    validation: Mapping[str, Mapping[str, float]]
    site: Site
    window: MonitoredWindow
    settings: MonitorSettings


@dataclass(frozen=True)
class PageSection:
    """A section of the page: a sentence about it, facts by name or rows below a head, and a note."""

    title: str
    about: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    head: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    note: str = ""


class PartHealth(ABC):
    """How a part of a release did in the window; a dataclass; report.json holds its fields."""

    @abstractmethod
    def findings(self, settings: MonitorSettings) -> Iterable[Finding]:
        """Return what it asks for."""

    @abstractmethod
    def figures(self) -> Mapping[str, float | None]:
        """Return what is worth following over time, by the metrics' names; None: not measured."""

    @abstractmethod
    def section(self) -> PageSection:
        """Return what the page shows."""

    def drifts(self) -> tuple[Drift, ...]:
        """Return how what it forecasts differs from the training window."""
        return ()


@dataclass(frozen=True)
class MonitorCheck:
    """How a part is judged, and the field of report.json that says it; None of a release without it."""

    field: str
    measure: Callable[[MonitoredRelease], PartHealth | None]
