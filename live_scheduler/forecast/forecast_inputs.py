"""What a cluster is played forward from, as one value."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from live_scheduler.cluster_state import ClusterState
from live_scheduler.forecast.run_times import ALIKE, RunTime
from live_scheduler.live_settings import LiveSettings, Mode
from simulator.workload.colocation import BelievedPairs
from simulator.workload.job import JobProfile

SAMPLES = 64


@dataclass(frozen=True)
class ForecastInputs:
    """Everything that a forecast is made of.

    `run_times` are what the release believes of each job (one without is not played), `settings` those in
    force (with the policy), `profiles` what is known of jobs' needs, `believed_pairs` what the policy is told
    of pairs. `samples` at most; fewer for many jobs. `alike`: how much the errors of jobs that are alike have
    in common (`run_times.ALIKE`).
    """

    cluster: ClusterState
    run_times: Mapping[str, RunTime]
    settings: LiveSettings
    release: str
    profiles: Mapping[str, JobProfile] = field(default_factory=dict)
    believed_pairs: BelievedPairs | None = None
    seed: int = 0
    samples: int = SAMPLES
    alike: tuple[float, ...] = ALIKE

    @property
    def controls(self) -> bool:
        """Whether the live policy's order counts."""
        return self.settings.mode is Mode.CONTROL
