"""PCS: weighted fair queuing over size classes, so that completion times can be predicted (OSDI '24)."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NamedTuple

from parts.elastic.allocation import AllocationRule
from parts.elastic.configurations import FIELDS, configuration_to_json, load_configuration, numbers
from parts.elastic.elastic_policy import ElasticPolicy, ElasticSettings
from parts.elastic.fair_starts import FairStarts
from parts.elastic.rules.wfq import WeightedFairQueuing, WfqConfig
from simulator.actions import Action
from simulator.job_view import JobView
from simulator.policy import start_from_front
from simulator.snapshot import NodePool, Snapshot


@dataclass(frozen=True)
class PcsSettings(ElasticSettings):
    """Settings of PCS: a configuration, and what is to differ from it.

    `configuration` names a published one or a JSON file (`parts.elastic.configurations`). What else is
    given replaces that part of it: `thresholds_s` (run time on one GPU; ascending, the last `inf`) and
    `weights` (shares of the pool), also as text `1176,44690,inf`, `efficiency_min` (zeta) and
    `efficiency_step` (delta).
    """

    configuration: str = "fig7-jct"
    thresholds_s: Sequence[float] | str | None = None
    weights: Sequence[float] | str | None = None
    efficiency_min: float | None = None
    efficiency_step: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.config()

    def config(self) -> WfqConfig:
        """Return the configuration that this amounts to; raises BadInputError for one that cannot be."""
        config = load_configuration(self.configuration)

        def chosen(name: str) -> tuple[float, ...]:
            given = getattr(self, name)
            return numbers(getattr(config, name) if given is None else given, name)

        return WfqConfig(
            chosen("thresholds_s"),
            chosen("weights"),
            chosen("efficiency_min")[0],
            chosen("efficiency_step")[0],
        )


class Turn(NamedTuple):
    """When a job's turn comes, lowest first: once its class holds less of its share than the others do.

    `ahead_gpus` are what the jobs of its class hold and those before it ask for; `load` is that divided by
    the class' share of the cluster. Classes that hold nothing go by the earliest submission.
    """

    load: float
    submitted: int  # in the order of submission
    size_class: int
    ahead_gpus: int


class Pcs(ElasticPolicy):
    """Each size class has its share of the cluster; first come first served within a class."""

    Settings = PcsSettings

    @property
    def rule(self) -> AllocationRule:
        """Weighted fair queuing as the settings say."""
        return WeightedFairQueuing(self.settings.config())

    def pinned_settings(self) -> dict[str, Any]:
        """Return what the settings amount to, whatever the configuration's name was."""
        settings = asdict(self.settings)
        del settings["configuration"]
        document = configuration_to_json(self.settings.config())
        return settings | {name: document[name] for name in FIELDS}

    def begin_anew(self) -> None:
        """Forget the jobs, their classes and their sizes."""
        super().begin_anew()
        config = self.settings.config()
        self._starts = FairStarts(config.weights, partial(bisect_left, config.thresholds_s), self._size_of)

    def decide(self, snapshot: Snapshot) -> list[Action]:
        """Ask the rule; where no job is stopped or resized, the answer is found more quickly."""
        if self.settings.resizes:
            return super().decide(snapshot)
        return [action for pool in snapshot.changed for action in self._starts_in(pool, snapshot.now_s)]

    def _starts_in(self, pool: NodePool, now_s: float) -> Sequence[Action]:
        first = pool.queue.head()
        if first is None:
            return ()
        return self._starts.decide(pool, now_s) if first.job.gpus else start_from_front(pool)

    def history(self) -> Any:
        """Return what no snapshot shows: where no job is stopped or resized the jobs' classes and sizes."""
        return super().history() if self.settings.resizes else dict(self._starts.known)

    def resume(self, pools: Mapping[str, NodePool], history: Any) -> None:
        """Take note of jobs that run and wait already."""
        if self.settings.resizes:
            super().resume(pools, history)
            return
        self.begin_anew()
        self._starts.known.update(history or {})

    def service_order(self, pool: NodePool) -> Mapping[JobView, Turn] | None:
        """Serve the class next that holds least of its share, and within a class the earliest submission."""
        if self.settings.resizes or not pool.queue:
            return None
        weights = self.settings.config().weights
        ahead = [0] * len(weights)
        for view in pool.running:
            ahead[self._starts.known[view][0]] += view.gpus
        turns = {}
        for claim in self._starts.waiting(pool):
            at = claim.size_class
            turns[claim.view] = Turn(ahead[at] / weights[at], claim.index, at, ahead[at])
            ahead[at] += claim.min_gpus
        return turns
