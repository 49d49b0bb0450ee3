"""Who is first: Slurm's order of waiting jobs, by preemption, partition tier, priority, submission.

Under priority/multifactor a priority is computed when a job is submitted, and again for all that wait at each
calculation (PriorityCalcPeriod); in between it stands. Under priority/basic it is the order of submission.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import floor

from cluster_logs.site.rules import Partition, Qos, SiteRules
from simulator.cluster.placement import NOWHERE, Placement
from simulator.job_view import JobView
from simulator.slurm.fair_tree import Association, ShareTree

# A requeued job is eligible again when its old credential has expired, 120 s, and a second later.
REQUEUE_DELAY_S = 121.0
DEFAULT_QOS = "normal"
GPU = "gres/gpu"  # the TRES


@dataclass(slots=True, eq=False)
class QueueStanding:
    """A waiting or running job as Slurm sees it."""

    job: JobView
    user: str
    account: str
    qos: str
    partition: str
    tier: int  # of its partition
    level: int  # of its QOS: those that it may preempt are lower
    nodes: int
    limit_s: float
    association: Association
    submit_s: float
    eligible_s: float
    priority: float = 0.0
    charged_s: float = 0.0  # usage is counted until then, while it runs
    preempting_s: float = -1e18  # when it last preempted others
    placement: Placement = NOWHERE  # where it runs, or ran last

    @property
    def whole(self) -> bool:
        """Whether it runs on one node."""
        return self.nodes == 1

    @property
    def key(self) -> tuple[float, ...]:
        """What to sort by, the first served first."""
        return (-self.level, -self.tier, -self.priority, self.submit_s, self.job.index)


class Ranking:
    """The priorities of jobs, and the usage that they depend on.

    `first_s`: when the first calculation is due, from when on others follow. `nodes` and `gpus`: those of the
    whole cluster.
    """

    def __init__(self, site: SiteRules, first_s: float, nodes: int, gpus: int) -> None:
        self.site = site
        self.rules = site.priority
        self.tree = ShareTree(site)
        self._multifactor = self.rules.type == "multifactor"
        self._nodes, self._gpus = nodes, gpus
        self._qos: Mapping[str, Qos] = {qos.name: qos for qos in site.qos}
        self._partitions: Mapping[str, Partition] = {each.name: each for each in site.partitions}
        self._default_qos = {(user.name, user.account): user.default_qos for user in site.users}
        self._levels = _levels(site)
        self._most_qos = max([qos.priority for qos in site.qos], default=0)
        self._most_partition = max([each.priority_job_factor for each in site.partitions], default=0)
        self.next_s = first_s
        self._last_s = first_s - self.rules.calc_period_s
        self._running: dict[JobView, QueueStanding] = {}

    def standing(self, job: JobView, limit_s: float, nodes: int, now_s: float) -> QueueStanding:
        """Return how a job stands that has just been submitted or requeued."""
        user, account = job.job.user or "", self.tree.account_of(job.job.user, job.job.account)
        qos = job.job.qos or self._default_qos.get((user, account)) or DEFAULT_QOS
        partition = self._partitions.get(job.job.virtual_cluster)
        again = job.first_start_time_s is not None
        submit_s = float(floor(now_s if again else job.submit_time_s))
        standing = QueueStanding(
            job,
            user,
            account,
            qos,
            job.job.virtual_cluster,
            partition.priority_tier if partition is not None else 1,
            self._levels.get(qos, 0),
            nodes,
            limit_s,
            self.tree.of(job.job.user, job.job.account),
            submit_s,
            submit_s + REQUEUE_DELAY_S if again else submit_s,
        )
        standing.priority = self._priority(standing, float(floor(now_s)))
        return standing

    def begin(self, standing: QueueStanding, at_s: float) -> None:
        """Take note that a job runs from `at_s` on."""
        standing.charged_s = float(floor(at_s))
        self._running[standing.job] = standing

    def end(self, standing: QueueStanding, at_s: float) -> None:
        """Take note that a job stopped."""
        if self._running.pop(standing.job, None) is not None:
            self._charge(standing, float(floor(at_s)))

    def _charge(self, standing: QueueStanding, until_s: float) -> None:
        qos = self._qos.get(standing.qos)
        billing = self._billing(standing) * (1.0 if qos is None else qos.usage_factor)
        self.tree.charge(standing.association, billing, max(0.0, until_s - standing.charged_s))
        standing.charged_s = until_s

    def _billing(self, standing: QueueStanding) -> float:
        partition = self._partitions.get(standing.partition)
        weights = partition.billing_weights if partition is not None else {}
        amounts = {GPU: standing.job.job.gpus, "node": standing.nodes}
        known = [
            weight * amounts[name.lower()] for name, weight in weights.items() if name.lower() in amounts
        ]
        if not sum(known):  # no weights for what is known: GPUs stand for the CPUs that come with them
            return float(standing.job.gpus)
        return max(known) if self.rules.max_tres else sum(known)

    def follow(self, now_s: float, waiting: Iterable[QueueStanding]) -> bool:
        """Make the calculations that were due until now; say whether there was one."""
        # Both schedulers go first where they are due at the same time.
        if not self._multifactor or now_s <= self.next_s:
            return False
        period_s = self.rules.calc_period_s
        while self.next_s < now_s:
            at_s = float(floor(self.next_s))
            self.tree.decay(at_s - self._last_s)
            for standing in self._running.values():
                self._charge(standing, at_s)
            self._last_s = at_s
            self.next_s += period_s
        self.tree.rank()
        for standing in waiting:
            standing.priority = self._priority(standing, self._last_s)
        return True

    def _priority(self, standing: QueueStanding, at_s: float) -> float:
        rules = self.rules
        if not self._multifactor:
            return 0.0
        total = 0.0
        if rules.weight_age:
            waited_s = max(0.0, at_s - standing.eligible_s)
            total += rules.weight_age * min(1.0, waited_s / rules.max_age_s)
        if rules.weight_fair_share:
            total += rules.weight_fair_share * standing.association.factor
        if rules.weight_job_size:
            total += rules.weight_job_size * self._size(standing)
        if rules.weight_qos and self._most_qos:
            qos = self._qos.get(standing.qos)
            total += rules.weight_qos * (qos.priority if qos is not None else 0) / self._most_qos
        if rules.weight_partition and self._most_partition:
            partition = self._partitions.get(standing.partition)
            factor = partition.priority_job_factor if partition is not None else 1
            total += rules.weight_partition * factor / self._most_partition
        gpu_weight = sum([weight for name, weight in rules.weight_tres.items() if name.lower() == GPU])
        total += gpu_weight * standing.job.gpus / self._gpus
        return float(max(1, int(total)))

    def _size(self, standing: QueueStanding) -> float:
        """The share of the cluster that a job asks for: its nodes', and its CPUs', one a node."""
        rules = self.rules
        nodes = standing.nodes / self._nodes
        cpus = standing.nodes / max(1, self._cpus())
        if rules.small_relative_to_time:
            relative = nodes / max(1.0, standing.limit_s / 60.0)
            return min(1.0, 1.0 - relative if rules.favor_small else relative)
        size = (nodes + cpus) / 2
        return 1.0 - size if rules.favor_small else size

    def _cpus(self) -> int:
        from cluster_logs.host_lists import expand_hosts

        return sum(
            each.cpus * sum(len(expand_hosts(names)) for names in each.names) for each in self.site.nodes
        )


def _levels(site: SiteRules) -> dict[str, int]:
    """Rank QOS by which they preempt: above all of these. Rings, which make no sense, end somewhere."""
    if site.preemption.type != "qos" or site.preemption.mode == "off":
        return {}
    preempts = {qos.name: qos.preempts for qos in site.qos}
    levels = dict.fromkeys(preempts, 0)
    for _ in preempts:
        for name, others in preempts.items():
            lower = [levels[other] for other in others if other in levels and other != name]
            levels[name] = min(len(preempts), max([level + 1 for level in lower], default=0))
    return levels
