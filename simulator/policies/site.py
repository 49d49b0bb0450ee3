"""A site's own order: Slurm's main and backfill schedulers, by what the site declares (site.toml).

The partitions of the declaration are the virtual clusters of the replay. The main scheduler starts jobs in
the order of priority, and leaves a partition at the first that does not fit; the backfill scheduler plans
around reservations for all that wait. `simulator/slurm/` has the rules, `docs/site_policy.md` how near it
comes to a real slurmctld.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import floor
from typing import Any

from cluster_logs.site.rules import SiteRules
from cluster_logs.site.site_file import site_from
from simulator.actions import Action, Preempt, Start
from simulator.cluster.placement import Placement
from simulator.cluster.spec import ClusterSpec
from simulator.job_view import JobView, RunState
from simulator.policy import Policy
from simulator.slurm.backfill import ENDLESS_S, BackfillCycle, LimitedRun
from simulator.slurm.cycles import Cycles
from simulator.slurm.limits import LimitBook
from simulator.slurm.preempting import Preemption
from simulator.slurm.ranking import QueueStanding, Ranking
from simulator.slurm.room import NodeRoom, mask_of
from simulator.snapshot import NodePool, Snapshot

# Where cycles are known to the millisecond: how long a node is not free yet that a job is leaving.
REQUEUING_S, COMPLETING_S = 0.3, 0.012


@dataclass(frozen=True)
class SiteSettings:
    """Settings of a site's own order.

    `site`: what the site declares, as a site.toml has it; empty: Slurm as it is by default. `anchor_s`: when
    slurmctld was started, on the clock of the replay; its cycles are counted from there, and the calculations
    of priorities too unless `calculated_s` says when one was due. `main_s` and `backfill_s`: when either
    scheduler ran, where a slurmctld's log tells it; for comparisons with that slurmctld.
    """

    site: Mapping[str, Any] = field(default_factory=dict)
    anchor_s: float = 0.0
    calculated_s: float | None = None
    main_s: tuple[float, ...] = ()
    backfill_s: tuple[float, ...] = ()

    def rules(self) -> SiteRules:
        """Return the declaration. Raises BadInputError."""
        return site_from(self.site, "The setting site")


class SitePolicy(Policy):
    """Slurm's main and backfill schedulers, by the priorities, limits and preemption that a site declares."""

    unequal_nodes = True
    reads_profiles = False
    Settings = SiteSettings

    def __init__(self, settings: SiteSettings | None = None) -> None:
        self.settings = settings or SiteSettings()
        self.site = self.settings.rules()
        self._partitions = {each.name: each for each in self.site.partitions}
        self._begin(nodes=1, gpus=1)

    def _begin(self, nodes: int, gpus: int) -> None:
        anchor_s = self.settings.anchor_s
        self._cycles = Cycles(
            self.site.scheduler,
            anchor_s,
            known_main_s=tuple(self.settings.main_s),
            known_backfill_s=tuple(self.settings.backfill_s),
        )
        calculated_s = self.settings.calculated_s
        first_s = anchor_s if calculated_s is None else calculated_s
        self._ranking = Ranking(self.site, first_s, nodes, gpus)
        self._limits = LimitBook(self.site)
        self._preemption = Preemption(self.site)
        self._waiting: dict[str, dict[JobView, QueueStanding]] = {}
        self._running: dict[str, dict[JobView, QueueStanding]] = {}
        self._gains: dict[str, int] = {}
        # What was decided last, to be taken back if it is not done.
        self._decided_s = 0.0
        self._actions: list[Start | Preempt] = []
        self._standings: dict[JobView, QueueStanding] = {}
        self._before = self._cycles
        self._clearing: list[tuple[float, str, Placement]] = []

    def prepare(self, cluster: ClusterSpec, largest_job: Mapping[str, int]) -> ClusterSpec:
        """Begin anew on this cluster."""
        self._begin(cluster.nodes, cluster.total_gpus)
        return cluster

    def priority(self, job: JobView) -> float:
        """Order by submission; ranks are computed at each decision."""
        return job.submit_time_s

    def limit_s(self, job: JobView) -> float:
        """Return a job's time limit: its own, its partition's default, or the partition's longest."""
        partition = self._partitions.get(job.job.virtual_cluster)
        own_s = job.job.time_limit_s
        if partition is None:
            return ENDLESS_S if own_s is None else own_s
        longest_s = ENDLESS_S if partition.max_time_s is None else partition.max_time_s
        if own_s is None:
            own_s = longest_s if partition.default_time_s is None else partition.default_time_s
        return min(own_s, longest_s)

    # -- what happens ----------------------------------------------------------------------------------------

    def observe_end(self, job: JobView, now_s: float) -> None:
        """Count what a job used."""
        self._follow(now_s)
        standing = self._running.get(job.pool, {}).get(job)
        if standing is not None:
            self._stopped(standing, now_s)
            if self.settings.main_s:
                self._clearing.append((now_s + COMPLETING_S, job.pool, standing.placement))

    def _follow(self, now_s: float) -> None:
        self._ranking.follow(now_s, (each for waiting in self._waiting.values() for each in waiting.values()))

    def _stopped(self, standing: QueueStanding, now_s: float) -> None:
        job = standing.job
        del self._running[job.pool][job]
        self._ranking.end(standing, now_s)
        self._limits.count(standing, -1)

    def _see(self, pool: NodePool, now_s: float) -> bool:
        """Take note of what came, left and stopped in a partition; say whether anything did."""
        running = self._running.setdefault(pool.name, {})
        waiting = self._waiting.setdefault(pool.name, {})
        happened = self._gains.get(pool.name, 0) != pool.free.gains
        self._gains[pool.name] = pool.free.gains
        if len(running) != len(pool.running):
            for standing in list(running.values()):
                job = standing.job
                if job.state is not RunState.RUNNING or job not in pool.running:
                    self._stopped(standing, now_s)
                    happened = True
            for job in pool.running:
                if job not in running:
                    self._started(self._standing(job, pool, job.submit_time_s), job.start_time_s)
        for job in pool.queue.take_newcomers():
            if job.queue_entry is not None and job.pool == pool.name:
                waiting[job] = self._standing(job, pool, now_s)
                happened = True
                if job.first_start_time_s is not None:
                    self._cycles.requeued(now_s)
        if len(waiting) != len(pool.queue):
            for job in [job for job in waiting if job.queue_entry is None or job.pool != pool.name]:
                del waiting[job]
        return happened

    def _standing(self, job: JobView, pool: NodePool, now_s: float) -> QueueStanding:
        nodes = -(-job.gpus // max(1, pool.free.largest(job.nodes)))
        return self._ranking.standing(job, self.limit_s(job), nodes, now_s)

    def _started(self, standing: QueueStanding, at_s: float) -> None:
        self._running[standing.job.pool][standing.job] = standing
        self._ranking.begin(standing, at_s)
        self._limits.count(standing, 1)

    # -- decisions -------------------------------------------------------------------------------------------

    def decide(self, snapshot: Snapshot) -> Sequence[Action]:
        """Run whichever scheduler is due."""
        now_s = snapshot.now_s
        self._take_back(now_s)
        self._follow(now_s)
        self._cycles.catch_up(now_s)
        for pool in snapshot.changed:
            if self._see(pool, now_s):
                self._cycles.happened(now_s)
        backfills, main = self._cycles.backfill_is_due(now_s), self._cycles.main_is_due(now_s)
        self._before = replace(self._cycles)
        self._decided_s = now_s
        actions: list[Start | Preempt] = []
        for pool in snapshot.changed:
            waiting = self._waiting[pool.name]
            if (backfills or main) and waiting and self._some_may_start(pool):
                turn = _Turn(self, pool, now_s)
                ordered = sorted(
                    (each for each in waiting.values() if each.eligible_s <= now_s), key=lambda each: each.key
                )
                if main:
                    turn.main(ordered)
                if backfills:
                    turn.backfill(ordered)
                actions += turn.actions
        if main:
            self._cycles.ran(now_s)
        if backfills:
            self._cycles.backfilled(now_s)
        self._actions = actions
        return actions

    def _take_back(self, now_s: float) -> None:
        """Forget what was decided at this moment and not done: a withdrawn job was to start, and left."""
        refused = (RunState.PENDING, RunState.CANCELLED)
        starts = [action.job for action in self._actions if isinstance(action, Start)]
        if self._decided_s == now_s and any(job.state in refused for job in starts):
            self._cycles = self._before
            for action in self._actions:
                standing = self._standings[action.job]
                if isinstance(action, Start):
                    self._stopped(standing, now_s)
                    if action.job.queue_entry is not None:
                        self._waiting[action.job.pool][action.job] = standing
                else:
                    self._started(standing, now_s)
        self._actions = []
        self._standings = {}

    def next_change_s(self, pool: NodePool, now_s: float) -> float | None:
        """Return when the next cycle is due that may start something."""
        return self._cycles.next_s(now_s) if len(pool.queue) and self._some_may_start(pool) else None

    def _some_may_start(self, pool: NodePool) -> bool:
        """Whether a waiting job finds GPUs or may take others'; else none does until some are free."""
        if pool.name not in self._waiting:  # it has not been looked at yet
            return True
        seen: set[tuple[int, int | None]] = set()
        for standing in self._waiting.get(pool.name, {}).values():
            job = standing.job
            if (job.gpus, job.nodes) not in seen:
                seen.add((job.gpus, job.nodes))
                if pool.free.find(job.gpus, job.nodes) is not None:
                    return True
            if self._preemption.may(standing):
                return True
        return False

    def history(self) -> Any:
        """Return what was used, how jobs stand, and when cycles are due."""
        return self._cycles, self._ranking, self._limits, self._waiting, self._running, self._gains

    def resume(self, pools: Mapping[str, NodePool], history: Any) -> None:
        """Go on; without `history`, no user has used anything yet."""
        if history is not None:
            self._cycles, self._ranking, self._limits, self._waiting, self._running, self._gains = history


class _Turn:
    """What the schedulers decide in one partition at one moment."""

    def __init__(self, policy: SitePolicy, pool: NodePool, now_s: float) -> None:
        self._policy = policy
        self._now_s = float(floor(now_s))  # Slurm's clock has whole seconds
        self._waiting = policy._waiting[pool.name]
        self._running = policy._running[pool.name]
        self.room = NodeRoom(pool.free)
        policy._clearing = [each for each in policy._clearing if now_s < each[0]]
        self._clearing = 0
        for _, name, placement in policy._clearing:
            if name == pool.name:
                self._clearing |= mask_of(placement)
        self._clear_s = now_s + REQUEUING_S if policy.settings.main_s else now_s
        self.actions: list[Start | Preempt] = []

    def main(self, ordered: Iterable[QueueStanding]) -> None:
        """Start in order; leave a partition, and its nodes, at the first job that does not fit."""
        rules = self._policy.site.scheduler
        failed: set[str] = set()
        nodes = self.room.nodes & ~self._clearing
        for tested, standing in enumerate(ordered):
            if (rules.queue_depth and tested > rules.queue_depth) or not nodes:
                break
            if standing.partition in failed or standing.job not in self._waiting:
                continue
            among = nodes & self.nodes_of(standing)
            placement = None
            if self.may_start(standing):
                placement = self.room.find(standing.job.gpus, among, whole=standing.whole)
                if placement is None:
                    self.preempt(standing, among)
            elif not rules.assoc_limit_stop:
                continue
            if placement is None:
                failed.add(standing.partition)
                nodes &= ~self.nodes_of(standing)
                continue
            self.start(standing, placement)
            self.room.take(placement)

    def nodes_of(self, standing: QueueStanding) -> int:
        """Return the nodes of a job's partition."""
        return self.room.nodes if standing.job.nodes is None else self.room.nodes & standing.job.nodes

    def backfill(self, ordered: Iterable[QueueStanding]) -> None:
        """Run a cycle of the backfill scheduler on what is left."""
        runs = [
            LimitedRun(
                each,
                floor(each.job.start_time_s) + each.limit_s,
                each.job.placement,
                mask_of(each.job.placement),
            )
            for each in self._running.values()
            if each.job.placement is not None and each.job.state is RunState.RUNNING
        ]
        for action in self.actions:
            if isinstance(action, Start):
                standing = self._running[action.job]
                runs.append(
                    LimitedRun(
                        standing, self._now_s + standing.limit_s, action.placement, mask_of(action.placement)
                    )
                )
        cycle = BackfillCycle(self._policy.site.scheduler, self.room, runs, self._now_s, self._clearing)
        cycle.run((each for each in ordered if each.job in self._waiting), self)

    # What a cycle asks for (`simulator.slurm.backfill.Starter`).

    def may_start(self, standing: QueueStanding) -> bool:
        """Return whether no limit holds a job back."""
        return not self._policy._limits.blocks(standing)

    def start(self, standing: QueueStanding, placement: Placement) -> None:
        """Start a job."""
        standing.placement = placement
        self.actions.append(Start(standing.job, placement))
        self._policy._standings[standing.job] = standing
        del self._waiting[standing.job]
        self._policy._started(standing, self._now_s)

    def candidates(self, standing: QueueStanding) -> Sequence[QueueStanding]:
        """Return the running jobs that one may stop."""
        preemption = self._policy._preemption
        if not preemption.on:
            return ()
        running = [each for each in self._running.values() if each.job.state is RunState.RUNNING]
        return preemption.candidates(standing, running, self._now_s)

    def preempt(self, standing: QueueStanding, among: int) -> Sequence[QueueStanding]:
        """Stop others for a job that does not fit, unless it waits for some; it starts at a later cycle."""
        preemption = self._policy._preemption
        candidates = self.candidates(standing)
        if not candidates or preemption.waits(standing, self._now_s):
            return ()
        victims = preemption.victims(standing, self.room, among, candidates)
        if not victims:
            return ()
        standing.preempting_s = self._now_s
        for victim in victims:
            self.actions.append(Preempt(victim.job, keeps_progress=False))
            self._policy._standings[victim.job] = victim
            if victim.job.placement is not None:
                self._policy._clearing.append((self._clear_s, victim.job.pool, victim.job.placement))
            self._policy._stopped(victim, self._now_s)
        return victims
