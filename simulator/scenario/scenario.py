"""Everything that a replay starts from, the policy aside."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import TypeVar

import numpy as np

from foundation.errors import BadInputError
from simulator.cluster.changes import ClusterChange
from simulator.cluster.spec import ClusterSpec
from simulator.policy import Policy
from simulator.scenario.companion import Companion
from simulator.scenario.initial_state import InitialState
from simulator.scenario.rules import DEFAULT, Rules
from simulator.snapshot import Lender
from simulator.workload.colocation import BelievedPairs, ColocationModel
from simulator.workload.forecast import ThroughputForecast
from simulator.workload.job import Job
from simulator.workload.workload import Workload

CompanionT = TypeVar("CompanionT", bound=Companion)


@dataclass(frozen=True)
class Scenario:
    """Jobs, the cluster that they run on, what happens to it, and what a policy may know beforehand.

    All times are seconds on one clock. Its second 0 is `workload.origin`, where the log says when that was.
    What jobs are believed to be (estimated run times, sharing scores, profiles) is part of `workload`.

    Jobs submitted before `counted_from_s` are warm-up: they fill the cluster, and are in no table and no
    figure of the result; what is measured over time is measured from then on. None: all jobs count.
    """

    workload: Workload
    cluster: ClusterSpec  # as it is at second 0
    _: KW_ONLY
    rules: Rules = DEFAULT
    colocation: ColocationModel | None = None  # how fast jobs run that share GPUs; None: by their utilisation
    changes: Sequence[ClusterChange] = ()  # what happens to the nodes, in any order
    forecast: ThroughputForecast | None = None  # the load to come, as a policy may know it
    believed_pairs: BelievedPairs | None = None  # how fast pairs run, as a policy may know it
    initial: InitialState | None = None  # jobs that wait and run at its start; they are not in `workload`
    companions: tuple[Companion, ...] = ()  # what acts on the cluster beside the policy, one of a kind
    counted_from_s: float | None = None

    @property
    def lender(self) -> Lender | None:
        """The servers beside the cluster's own that may be lent to it."""
        return next((each for each in self.companions if isinstance(each, Lender)), None)

    def companion(self, kind: type[CompanionT]) -> CompanionT | None:
        """Return the companion of this class, if there is one."""
        return next((each for each in self.companions if isinstance(each, kind)), None)

    def beside(self, *companions: Companion) -> "Scenario":
        """Return the same scenario with these companions, in the places of those of their keys."""
        of_key = {each.key: each for each in (*self.companions, *companions)}
        return replace(self, companions=tuple(of_key.values()))

    def without(self, companion: Companion) -> "Scenario":
        """Return the same scenario without a companion."""
        return replace(self, companions=tuple(each for each in self.companions if each is not companion))

    @property
    def counted_jobs(self) -> Sequence[Job]:
        """The jobs that are no warm-up, in the workload's order."""
        jobs = self.workload.jobs
        if self.counted_from_s is None:
            return jobs
        return jobs[int(np.searchsorted(self.workload.columns.submit_time_s, self.counted_from_s)) :]


def refuse_unequal_nodes(scenario: Scenario, policy: Policy, name: str) -> None:
    """Raise BadInputError for nodes that differ in size or are shared, where the policy knows neither."""
    cluster = scenario.cluster
    if cluster.has_equal_nodes:
        return
    if not policy.unequal_nodes:
        raise BadInputError(
            f"{name} knows equal nodes only, of one virtual cluster each; these differ or are shared.",
            remedy="Use another policy (EASY, fair share, Clarity, Lucid, those that serve in order or "
            "preempt), or treat all alike: virtual_cluster,nodes and --gpus-per-node.",
        )
    for companion in scenario.companions:
        raise BadInputError(
            f"{companion.noun} need equal nodes, of one virtual cluster each; these differ in size or are "
            "shared.",
            remedy="Leave them out, or treat all alike: virtual_cluster,nodes and --gpus-per-node.",
        )
