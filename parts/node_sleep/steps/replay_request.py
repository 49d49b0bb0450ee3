"""What is asked of a replay of sleeping nodes."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from cluster_logs.node_series import NodeSeries, read_node_series
from cluster_logs.readers.source import load_zone
from foundation.errors import BadInputError, check_names
from parts.node_sleep.replay.choice import SleepLimits
from parts.node_sleep.replay.series_replay import BootFailures
from parts.node_sleep.replay.settings import SleepSettings
from simulator.energy import EnergySettings

REPLAYED_CONTROLS = ("helios-artifact", "causal", "buffer", "oracle")

Rules = Literal["minutes", "bins"]
Gaps = Literal["hold", "zero"]


@dataclass(frozen=True)
class SeriesToReplay:
    """A file of node counts, and the part of it that counts; naive times are on the clock of `time_zone`.

    `gaps` are held, or count as nodes that run nothing ("zero"); None: as published for "helios-artifact",
    held for all else.
    """

    path: str
    start: datetime | None = None
    end: datetime | None = None
    gaps: Gaps | None = None
    time_zone: str = "UTC"
    virtual_cluster: str | None = None

    def read(self, gaps: Gaps) -> NodeSeries:
        """Read the whole series. Raises BadInputError for rows that cannot be used."""
        return read_node_series(
            self.path, gaps=gaps, virtual_cluster=self.virtual_cluster, time_zone=self.time_zone
        )

    def seconds(self, time: datetime | None) -> float | None:
        """Return a time of the part that counts in seconds since 1970."""
        if time is None:
            return None
        return (time if time.tzinfo else time.replace(tzinfo=load_zone(self.time_zone))).timestamp()


@dataclass(frozen=True)
class NodeReplaySettings:
    """How a series is replayed.

    `control`: one of REPLAYED_CONTROLS. `rules`: "minutes" with boots and finished bins, "bins" as published;
    None: "bins" for "helios-artifact", "minutes" for all else. `sleep`: settings as given; None: chosen on
    past weeks within `limits` for "causal", defaults for all else.
    """

    control: str = "causal"
    rules: Rules | None = None
    sleep: SleepSettings | None = None
    boot_s: float = 300.0
    failures: BootFailures = field(default_factory=BootFailures)
    limits: SleepLimits = field(default_factory=SleepLimits)
    energy: EnergySettings = field(default_factory=EnergySettings)

    def __post_init__(self) -> None:
        check_names("control of a replay", [self.control], REPLAYED_CONTROLS)
        if self.control == "helios-artifact" and self.rules == "minutes":
            raise BadInputError(
                "The control 'helios-artifact' has no rules for minutes.", remedy="Use --rules bins."
            )

    @property
    def used_rules(self) -> Rules:
        """Return the rules that hold."""
        return self.rules or ("bins" if self.control == "helios-artifact" else "minutes")
