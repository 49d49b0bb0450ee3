"""Kueue's objects as the state of a cluster.

A ClusterQueue is the partition and virtual cluster of its workloads: quota belongs to it as nodes belong to
a partition of Slurm. Its nodes are those that carry the labels of its flavors.

Only an order is proposed, so workloads with a priority that means more than their place are left alone, each
with the reason: where queues preempt (a priority also says what is stopped), where a class orders them
(unless `order_classes`), and where a person set the priority.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, NamedTuple

from live_scheduler.adapter import PriorityRange
from live_scheduler.cluster_state import ClusterState, EndedJob, LiveJob, LiveNode
from parts.kueue.device_claims import DeviceClaims
from parts.kueue.gpu_places import places_of_pods
from parts.kueue.quantities import entries, parse_quantity, part, whole
from parts.kueue.workload import ADVICE, UNUSABLE, KueueWorkload, PriorityClass, named, said

Json = Mapping[str, Any]
# Kueue keeps priorities as 32-bit numbers, Kubernetes reserves those from 1,000,000,000 on.
HIGHEST = 999_999_999


@dataclass(frozen=True)
class ReadingRules:
    """How objects are read.

    `gpu_resources` are the resources that count as GPUs, `gpu_device_classes` the classes of devices that do
    where pods ask by resource claims; `user_keys` labels or annotations that name a
    workload's user. `order_classes`: order workloads by the release whatever priority class they name;
    without it a class stands, and only workloads without one are ordered.
    """

    gpu_resources: tuple[str, ...] = ("nvidia.com/gpu",)
    user_keys: tuple[str, ...] = ()
    order_classes: bool = False
    gpu_device_classes: tuple[str, ...] = ("gpu.nvidia.com",)


@dataclass(frozen=True)
class KueueObjects:
    """All objects that a reading is made of."""

    workloads: Sequence[Json]
    local_queues: Sequence[Json]
    cluster_queues: Sequence[Json]
    flavors: Sequence[Json]
    nodes: Sequence[Json]
    pods: Sequence[Json]
    classes: Mapping[PriorityClass, int]
    claims: Sequence[Json] = ()
    claim_templates: Sequence[Json] = ()


@dataclass(frozen=True)
class KueueReading:
    """What the objects say. Every workload is a job of `state`, in `ended`, or named in `unread`.

    `unread` also names pods and nodes that cannot be understood; `uncounted` those jobs whose resource claims
    do not say how many GPUs they are: waiting ones are left alone, running ones have those of their pods.
    """

    state: ClusterState
    ended: Mapping[str, EndedJob]
    unread: Mapping[str, str]
    workloads: Mapping[str, KueueWorkload] = field(default_factory=dict)
    uncounted: Mapping[str, str] = field(default_factory=dict)


def priority_range(rules: ReadingRules, classes: Mapping[PriorityClass, int]) -> PriorityRange:
    """Return the priorities that may be given: above 0, which new workloads have, and below every class.

    No class gives one between; what a person gives there is left alone by the adapter, however it is asked.
    """
    above = [value for value in classes.values() if value > 0]
    if rules.order_classes or not above:
        return PriorityRange(1, HIGHEST, exclusive=not rules.order_classes)
    return PriorityRange(1, min(min(above) - 1, HIGHEST), exclusive=True)


def read_cluster(objects: KueueObjects, rules: ReadingRules, at_s: float) -> KueueReading:
    """Return the reading of the objects as they were at `at_s`."""
    queues = _Queues(objects, rules)
    claims = DeviceClaims.of(rules.gpu_device_classes, objects.claims, objects.claim_templates)
    unread: dict[str, str] = {}
    uncounted: dict[str, str] = {}
    workloads: dict[str, KueueWorkload] = {}
    for position, raw in enumerate(objects.workloads):
        workload = KueueWorkload(raw)
        try:
            workloads[workload.key] = workload
        except UNUSABLE as error:
            unread[f"workload {position}"] = f"it has no name: {said(error)}"
    jobs: list[LiveJob] = []
    ended: dict[str, EndedJob] = {}
    for key, workload in workloads.items():
        try:
            names = workload.uncounted(rules.gpu_resources, claims)
            job = _job(workload, queues, rules, objects.classes, claims, at_s)
            if names and not workload.finished:
                uncounted[key] = _claims_in_words(names)
            if workload.finished:
                ended[key] = ended_job(workload, job)
            else:
                jobs.append(job)
        except UNUSABLE as error:
            unread[key] = said(error)
    places = places_of_pods(objects.pods, workloads.values(), rules.gpu_resources, claims)
    unread |= places.unread
    nodes = []
    for raw in objects.nodes:
        try:
            nodes += _node(raw, queues, places.used, rules)
        except UNUSABLE as error:
            unread[f"node {named(raw)}"] = said(error)
    nodes.sort(key=lambda node: node.name)
    for job in sorted(jobs, key=lambda job: (job.start_time_s or 0.0, job.job_id)):
        if not job.waiting:
            at_home = (node for node in nodes if node.available and job.partition in node.partitions)
            places.find_missing(job, at_home)
    jobs = [replace(job, gpus_on=places.of(job.job_id)) for job in jobs]
    jobs = [
        replace(job, gpus=max(job.gpus, sum(gpus for _, gpus in job.gpus_on)))
        if job.job_id in uncounted
        else job
        for job in jobs
    ]
    state = ClusterState(
        at_s,
        tuple(_within(priority_range(rules, objects.classes), jobs)),
        tuple(replace(node, gpus_used=places.used[node.name]) for node in nodes),
        queues.closed,
        gpus_left=gpus_left(objects.cluster_queues, rules.gpu_resources),
    )
    return KueueReading(state, ended, unread, workloads, uncounted)


def _claims_in_words(names: Sequence[str]) -> str:
    return f"resource claims that do not say how many GPUs they are: {', '.join(names)}"


def ended_job(workload: KueueWorkload, job: LiveJob) -> EndedJob:
    """Return what became of a finished workload; its last run counts."""
    start_s = workload.start_time_s
    end_s = workload.end_time_s if start_s is None else max(workload.end_time_s, start_s)
    return EndedJob.of_run(job, workload.end_state.name, start_s, end_s)


def _job(
    workload: KueueWorkload,
    queues: "_Queues",
    rules: ReadingRules,
    classes: Mapping[PriorityClass, int],
    claims: DeviceClaims,
    at_s: float,
) -> LiveJob:
    partition, *obstacles = queues.place_of(workload)
    obstacles += workload.obstacles(at_s)
    if not workload.reserved:
        obstacles += own_order(workload, rules, classes)
        if names := workload.uncounted(rules.gpu_resources, claims):
            obstacles.append(_claims_in_words(names))
    return LiveJob(
        job_id=workload.key,
        partition=partition,
        virtual_cluster=partition,
        gpus=workload.gpus(rules.gpu_resources, claims),
        submit_time_s=workload.submit_time_s,
        user=workload.user(rules.user_keys),
        name=workload.name,
        cpus=workload.cpus,
        time_limit_s=workload.time_limit_s,
        priority=workload.priority,
        held=not workload.active,
        waits_for="; ".join(obstacles),
        reason=workload.reason,
        advice=workload.annotations.get(ADVICE, ""),
        restarts=workload.restarts,
        start_time_s=None if workload.finished else workload.start_time_s,
        other_facts=workload.other_facts,
    )


def own_order(
    workload: KueueWorkload, rules: ReadingRules, classes: Mapping[PriorityClass, int]
) -> Iterator[str]:
    """Yield the owner of a priority that is not ours to set."""
    named = workload.priority_class
    if named is not None and named not in classes:
        yield f"the {named.kind} {named.name}, which is not there"
    elif named is not None and not rules.order_classes:
        yield f"the place that its {named.kind} {named.name} gives it"
    if workload.set_by_others(classes):
        yield f"the place that a person gave it (priority {workload.priority})"


def _within(allowed: PriorityRange, jobs: Sequence[LiveJob]) -> list[LiveJob]:
    """Leave the jobs of a queue alone when there are fewer priorities than jobs."""
    room = allowed.most - allowed.least + 1
    waiting = Counter(job.partition for job in jobs if job.eligible)
    crowded = {partition for partition, count in waiting.items() if count > room}
    why = f"its turn: a priority class leaves only {max(room, 0)} priorities above 0"
    return [replace(job, waits_for=why) if job.partition in crowded and job.eligible else job for job in jobs]


class _Queues:
    """Which ClusterQueue serves a workload, and how."""

    def __init__(self, objects: KueueObjects, rules: ReadingRules) -> None:
        self._by_name = {str(queue["metadata"]["name"]): queue for queue in objects.cluster_queues}
        self._local = {
            (str(queue["metadata"]["namespace"]), str(queue["metadata"]["name"])): queue
            for queue in objects.local_queues
        }
        self._labels = {
            str(flavor["metadata"]["name"]): part(flavor, "spec", "nodeLabels") for flavor in objects.flavors
        }
        self._gpu_resources = frozenset(rules.gpu_resources)
        self._preempting = self._preempting_queues()
        self.closed = frozenset(name for name, queue in self._by_name.items() if _stopped(queue))

    def place_of(self, workload: KueueWorkload) -> list[str]:
        """Return the ClusterQueue, then what about the queues keeps a workload from being ordered."""
        local = self._local.get((workload.namespace, workload.queue))
        if local is None:
            return ["", f"a LocalQueue {workload.queue!r} in the namespace {workload.namespace}"]
        name = str(part(local, "spec").get("clusterQueue") or "")
        if name not in self._by_name:
            return [name, f"a ClusterQueue {name!r}"]
        reasons = []
        if _policy(local) != "None":
            reasons.append(f"its LocalQueue {workload.queue}, which is stopped")
        if name in self._preempting:
            reasons.append(f"the order of its ClusterQueue {name}, which preempts by priority")
        return [name, *reasons]

    def serving(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        """Return the ClusterQueues with GPU quota on nodes with these labels."""
        return tuple(
            sorted(
                name
                for name, queue in self._by_name.items()
                if any(wanted.items() <= labels.items() for wanted in self._flavors_of(queue))
            )
        )

    def _flavors_of(self, queue: Json) -> Iterator[Mapping[str, str]]:
        for group in entries(queue, "spec", "resourceGroups"):
            if self._gpu_resources & set(entries(group, "coveredResources")):
                for flavor in entries(group, "flavors"):
                    if flavor["name"] in self._labels:
                        yield self._labels[flavor["name"]]

    def _preempting_queues(self) -> set[str]:
        """ClusterQueues in which a priority decides more than an order: theirs, or one's in their cohort."""
        stopping = {name for name, queue in self._by_name.items() if _preempts(queue)}
        # Cohorts nest; a queue that shares any cohort may be reached.
        reached = any(cohort_of(self._by_name[name]) for name in stopping)
        return {
            name
            for name, queue in self._by_name.items()
            if name in stopping or (reached and cohort_of(queue))
        }


def _preempts(queue: Json) -> bool:
    rules = part(queue, "spec", "preemption")
    borrowing = part(rules, "borrowWithinCohort").get("policy")
    policies = (rules.get("withinClusterQueue"), rules.get("reclaimWithinCohort"), borrowing)
    return any(policy not in (None, "Never") for policy in policies)


def _policy(queue: Json) -> str:
    return str(part(queue, "spec").get("stopPolicy") or "None")


def _stopped(queue: Json) -> bool:
    conditions = entries(queue, "status", "conditions")
    return _policy(queue) != "None" or any(
        condition.get("type") == "Active" and condition.get("status") == "False" for condition in conditions
    )


def _node(node: Json, queues: _Queues, used: Mapping[str, int], rules: ReadingRules) -> list[LiveNode]:
    """Return a node with GPUs; a broken device plugin hides GPUs that are still in use."""
    name = str(node["metadata"]["name"])
    offered = part(node, "status", "allocatable")
    gpus = sum(whole(parse_quantity(offered[name])) for name in rules.gpu_resources if name in offered)
    busy = used.get(name, 0)
    if not gpus and not busy:
        return []
    return [
        LiveNode(
            name=name,
            gpus=max(gpus, busy),
            gpus_used=busy,
            available=gpus >= busy and not part(node, "spec").get("unschedulable") and _ready(node),
            partitions=queues.serving(part(node["metadata"], "labels")),
        )
    ]


def _ready(node: Json) -> bool:
    return any(
        condition.get("type") == "Ready" and condition.get("status") == "True"
        for condition in entries(node, "status", "conditions")
    )


class _Share(NamedTuple):
    queue: str
    cohort: str
    flavor: tuple[str, str]  # (flavor, resource)
    nominal: Fraction
    borrowable: Fraction | None  # None: without a limit
    used: Fraction


def gpus_left(queues: Sequence[Json], resources: Collection[str]) -> dict[str, int]:
    """Return the GPUs that each ClusterQueue with a quota for them may hand out now.

    Kueue, "Cluster queue": a queue may use its nominal quota and, up to its borrowing limit, what is unused
    in its cohort. Lending limits and quotas of nested cohorts are not read, so the answer may be too high
    there; it decides which jobs are said to start now, never which may.
    """
    shares = [share for queue in queues for share in _shares(queue, resources)]
    unused: dict[tuple[str, tuple[str, str]], Fraction] = {}
    for share in shares:
        key = (share.cohort or f"/{share.queue}", share.flavor)
        unused[key] = unused.get(key, Fraction(0)) + share.nominal - share.used
    left: dict[str, Fraction] = {}
    for share in shares:
        most = unused[share.cohort or f"/{share.queue}", share.flavor]
        if share.borrowable is not None:
            most = min(most, share.nominal + share.borrowable - share.used)
        left[share.queue] = left.get(share.queue, Fraction(0)) + max(most, Fraction(0))
    return {queue: int(amount) for queue, amount in left.items()}


def _shares(queue: Json, resources: Collection[str]) -> Iterator[_Share]:
    spec, name = part(queue, "spec"), str(queue["metadata"]["name"])
    used = {
        (flavor["name"], resource["name"]): parse_quantity(resource.get("total") or "0")
        for flavor in entries(queue, "status", "flavorsReservation")
        for resource in entries(flavor, "resources")
    }
    for group in entries(spec, "resourceGroups"):
        for flavor in entries(group, "flavors"):
            for resource in entries(flavor, "resources"):
                if resource["name"] not in resources:
                    continue
                key = (str(flavor["name"]), str(resource["name"]))
                limit = resource.get("borrowingLimit")
                yield _Share(
                    name,
                    cohort_of(queue),
                    key,
                    parse_quantity(resource["nominalQuota"]),
                    None if limit is None else parse_quantity(limit),
                    used.get(key, Fraction(0)),
                )


def cohort_of(queue: Json) -> str:
    """Return the cohort of a ClusterQueue; empty: none."""
    spec = part(queue, "spec")
    return str(spec.get("cohortName") or spec.get("cohort") or "")  # v1beta2, v1beta1
