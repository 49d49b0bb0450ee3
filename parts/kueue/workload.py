"""A Workload of Kueue, as its API server describes it: one object, read with care.

Both served forms are read (`kueue.x-k8s.io/v1beta1` names the priority class by `priorityClassName`, v1beta2
by `priorityClassRef`); what a decision needs besides is the same in both.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from functools import cached_property
from math import ceil
from typing import Any, NamedTuple

from cluster_logs.job_states import JobState
from foundation.errors import BadInputError
from parts.kueue.device_claims import ClaimedGpus, DeviceClaims
from parts.kueue.quantities import entries, parse_quantity, part, whole

# What this product writes on a workload: what it was given, what it had before, what its user is told.
DEFAULT_PRIORITY = "lucid-mlops.live/default-priority"
GIVEN_PRIORITY = "lucid-mlops.live/given-priority"
ADVICE = "lucid-mlops.live/expected"

# What reading an object that is not as it should be raises.
UNUSABLE = (BadInputError, KeyError, TypeError, ValueError, AttributeError)

_JOB_UID = "kueue.x-k8s.io/job-uid"
_GATED = "kueue.x-k8s.io/admission-gated-by"
_REMOTE = "kueue.x-k8s.io/multikueue-origin"
# Labels of nodes that say which GPUs they have: NVIDIA's feature discovery, and Google's.
_GPU_TYPE_LABELS = ("nvidia.com/gpu.product", "cloud.google.com/gke-accelerator")
_NO_CLAIMS = DeviceClaims()
_ENDS = {"Succeeded": JobState.COMPLETED, "Failed": JobState.FAILED}


class PriorityClass(NamedTuple):
    """The class that a workload names; `kind` is WorkloadPriorityClass or PriorityClass."""

    kind: str
    name: str


@dataclass(frozen=True)
class KueueWorkload:
    """One object; every property raises BadInputError (or KeyError, ...) where it is not as it should be."""

    raw: Mapping[str, Any]

    @cached_property
    def key(self) -> str:
        """`NAMESPACE/NAME`, which is its job id."""
        return f"{self.namespace}/{self.raw['metadata']['name']}"

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return str(self.raw["metadata"]["namespace"])

    @property
    def version(self) -> str:
        """The version of the object: a change names the one that it was decided on."""
        return str(self.raw["metadata"]["resourceVersion"])

    @property
    def name(self) -> str:
        """The name of the Job (or other owner) that it stands for; its own without one."""
        owners = entries(self.raw["metadata"], "ownerReferences")
        leading = [owner for owner in owners if owner.get("controller")] or owners
        return str(leading[0]["name"] if leading else self.raw["metadata"]["name"])

    @property
    def owner_uids(self) -> set[str]:
        """The ids of the objects that it stands for, by which pods are known as its own."""
        owners = {str(owner["uid"]) for owner in entries(self.raw["metadata"], "ownerReferences")}
        job = self.labels.get(_JOB_UID)
        return owners | ({job} if job else set())

    @property
    def labels(self) -> Mapping[str, str]:
        """Its labels."""
        return part(self.raw["metadata"], "labels")

    @property
    def annotations(self) -> Mapping[str, str]:
        """Its annotations."""
        return part(self.raw["metadata"], "annotations")

    @property
    def queue(self) -> str:
        """The LocalQueue that it is in; empty: none."""
        return str(self.raw["spec"].get("queueName") or "")

    @property
    def active(self) -> bool:
        """False: a person (or Kueue, after too many failures) took it out of its queue."""
        return self.raw["spec"].get("active") is not False

    @property
    def submit_time_s(self) -> float:
        """When it was made."""
        return instant(self.raw["metadata"]["creationTimestamp"])

    @property
    def time_limit_s(self) -> float | None:
        """The run time after which Kueue stops it, if any."""
        limit = self.raw["spec"].get("maximumExecutionTimeSeconds")
        return None if limit is None else float(limit)

    # Priority

    @property
    def priority(self) -> int:
        """Its priority now; Kueue takes none for 0."""
        return int(self.raw["spec"].get("priority") or 0)

    @property
    def priority_class(self) -> PriorityClass | None:
        """The class that gave it its priority."""
        spec = self.raw["spec"]
        reference = spec.get("priorityClassRef")
        if reference:
            return PriorityClass(str(reference["kind"]), str(reference["name"]))
        name = spec.get("priorityClassName")
        if not name:
            return None
        of_kueue = spec.get("priorityClassSource") == "kueue.x-k8s.io/workloadpriorityclass"
        return PriorityClass("WorkloadPriorityClass" if of_kueue else "PriorityClass", str(name))

    def default_priority(self, classes: Mapping[PriorityClass, int], earlier: int | None = None) -> int:
        """Return what Kueue itself would give it: its class's value, 0 without a class.

        Of a class that is gone, `earlier` (what it had before it was touched), else what it has. The
        annotation that says so is for people: anyone who may annotate a workload may write any number there.
        """
        named = self.priority_class
        if named is None:
            return 0
        return classes.get(named, self.priority if earlier is None else earlier)

    def set_by_others(self, classes: Mapping[PriorityClass, int]) -> bool:
        """Whether its priority is neither Kueue's own nor the one that it was given last."""
        return self.priority not in (
            self.default_priority(classes),
            _number(self.annotations.get(GIVEN_PRIORITY)),
        )

    # Standing

    def condition(self, kind: str) -> Mapping[str, Any] | None:
        """Return a condition that holds, None when it does not."""
        for condition in entries(self.raw, "status", "conditions"):
            if condition["type"] == kind and condition["status"] == "True":
                return dict(condition)
        return None

    @property
    def finished(self) -> bool:
        """Whether it is over."""
        return self.condition("Finished") is not None

    @property
    def reserved(self) -> bool:
        """Whether it holds quota; its priority orders nothing any more."""
        return self.condition("QuotaReserved") is not None or self.condition("Admitted") is not None

    @property
    def start_time_s(self) -> float | None:
        """When it was admitted, the last time; None while it waits."""
        admitted = self.condition("Admitted")
        return None if admitted is None else instant(admitted["lastTransitionTime"])

    @property
    def end_time_s(self) -> float:
        """When it finished."""
        finished = self.condition("Finished")
        if finished is None:
            raise BadInputError(f"{self.key} has not finished.")
        return instant(finished["lastTransitionTime"])

    @property
    def end_state(self) -> JobState:
        """How it finished. Before Kueue 0.10 only the message told."""
        finished = self.condition("Finished") or {}
        reason, message = str(finished.get("reason")), str(finished.get("message")).lower()
        if reason == "JobFinished":
            return JobState.FAILED if "fail" in message else JobState.COMPLETED
        return _ENDS.get(reason, JobState.CANCELLED)

    @property
    def reason(self) -> str:
        """Why it waits, in Kueue's words."""
        for condition in entries(self.raw, "status", "conditions"):
            if condition["type"] == "QuotaReserved" and condition["status"] == "False":
                return str(condition.get("message") or condition.get("reason") or "")
        return ""

    @property
    def restarts(self) -> int:
        """How often it was evicted; 0 where Kueue does not count."""
        evictions = entries(self.raw, "status", "schedulingStats", "evictions")
        return sum(int(eviction.get("count") or 0) for eviction in evictions)

    def obstacles(self, at_s: float) -> Iterable[str]:
        """Yield what of its own keeps it from starting, besides quota and priority."""
        if self.annotations.get(_GATED):
            yield f"the admission gate {self.annotations[_GATED]}"
        if self.labels.get(_REMOTE):
            yield "the cluster that sent it (MultiKueue), which orders it"
        status = part(self.raw, "status")
        again = part(status, "requeueState").get("requeueAt")
        if again and instant(again) > at_s:
            yield f"{again}, when Kueue queues it again"
        if self.reserved and self.start_time_s is None:
            checks = [
                f"{check['name']} ({check['state']})"
                for check in entries(status, "admissionChecks")
                if check.get("state") != "Ready"
            ]
            yield f"admission checks: {', '.join(checks) or 'none is named'}"

    # What it asks for

    def gpus(self, resources: Sequence[str], claims: DeviceClaims = _NO_CLAIMS) -> int:
        """Return the GPUs that it was admitted with, or asks for; less those of pods that have succeeded."""
        admitted = self._admitted(resources)
        if admitted:
            return sum(admitted)
        asked = sum(whole(amount) for name in resources for amount in self._asked(name))
        shared: dict[str, int] = {}
        for pods, claimed in self._claimed(claims):
            asked += claimed.of_pod * pods
            shared |= claimed.shared if pods else {}
        return asked + sum(shared.values())

    def uncounted(self, resources: Sequence[str], claims: DeviceClaims) -> list[str]:
        """Return its resource claims that do not say how many GPUs they are, where its admission does not."""
        if self._admitted(resources):
            return []
        return sorted({name for _, claimed in self._claimed(claims) for name in claimed.unknown})

    def _claimed(self, claims: DeviceClaims) -> Iterable[tuple[int, ClaimedGpus]]:
        """Yield how many pods of each set there are, and what each of them claims."""
        for pods, spec in self._pods():
            yield pods, claims.asked_by(self.namespace, spec)

    def _admitted(self, resources: Sequence[str]) -> list[int]:
        return [
            ceil(self._left(assignment, whole(parse_quantity(usage[name]))))
            for assignment in entries(self.raw, "status", "admission", "podSetAssignments")
            for usage in (part(assignment, "resourceUsage"),)
            for name in resources
            if name in usage
        ]

    @cached_property
    def _reclaimed(self) -> Mapping[str, int]:
        """Pods that have succeeded by pod set: Kueue has their quota back, and needs none for them again.

        Of a workload that is over nothing is taken away: what it ran with is what is learnt.
        """
        if self.finished:
            return {}
        reclaimed = entries(self.raw, "status", "reclaimablePods")
        return {str(each["name"]): int(each["count"]) for each in reclaimed}

    def _left(self, assignment: Mapping[str, Any], amount: int) -> Fraction:
        """Return what is left of an amount that all pods of a set were admitted with."""
        count = int(assignment.get("count") or 1)
        return Fraction(amount * max(count - self._reclaimed.get(str(assignment.get("name")), 0), 0), count)

    @property
    def cpus(self) -> int | None:
        """The processors that it asks for, rounded up; None when it names none."""
        return ceil(sum(self._asked("cpu"))) or None

    @property
    def other_facts(self) -> dict[str, str | float]:
        """Its memory (MiB) and the type of GPU that its pods select nodes by, where it names them."""
        memory_mib = float(sum(self._asked("memory")) / 2**20)
        selected = (
            part(pod_set["template"]["spec"], "nodeSelector").get(label)
            for pod_set in self.raw["spec"]["podSets"]
            for label in _GPU_TYPE_LABELS
        )
        facts: dict[str, str | float] = {"requested_memory_mib": memory_mib} if memory_mib > 0 else {}
        types = "+".join(sorted({str(label) for label in selected if label}))
        return facts | ({"gpu_type": types} if types else {})

    def _asked(self, resource: str) -> Iterable[Fraction]:
        for pods, spec in self._pods():
            yield pod_request(spec, resource) * pods

    def _pods(self) -> Iterable[tuple[int, Mapping[str, Any]]]:
        """Yield how many pods of each set are still needed, and their spec."""
        for pod_set in self.raw["spec"]["podSets"]:
            count = int(pod_set.get("count", 1)) - self._reclaimed.get(str(pod_set.get("name")), 0)
            yield max(count, 0), pod_set["template"]["spec"]

    def user(self, keys: Sequence[str]) -> str:
        """Return its user: the first of these labels or annotations that it or its pods carry.

        Kueue copies labels of Jobs only when it is told to (`labelKeysToCopy`), those of pod templates
        always. Its namespace where none is there.
        """
        texts = [self.labels, self.annotations]
        for pod_set in self.raw["spec"]["podSets"]:
            metadata = part(pod_set["template"], "metadata")
            texts += [part(metadata, "labels"), part(metadata, "annotations")]
        for key in keys:
            for text in texts:
                if text.get(key):
                    return str(text[key])
        return self.namespace


def named(raw: object) -> str:
    """Return what an object is called, as far as it can be told."""
    metadata = raw.get("metadata") if isinstance(raw, Mapping) else None
    if not isinstance(metadata, Mapping):
        return "without a name"
    return "/".join(str(metadata[key]) for key in ("namespace", "name") if metadata.get(key))


def said(error: Exception) -> str:
    """Return what was wrong with an object."""
    return str(error) if isinstance(error, BadInputError) else repr(error)


def pod_request(spec: Mapping[str, Any], resource: str) -> Fraction:
    """Return what a pod asks for at once, as its scheduler counts it.

    Its containers together with those that initialise and go on (restartPolicy Always: native sidecars); or,
    if that is more, one that initialises beside the sidecars that are up by then, which stand before it. A
    container that states a limit only asks for that much. What the pod states as a whole counts instead, and
    its overhead on top. (Kubernetes, "Sidecar containers", resource sharing; "Pod overhead".)
    """
    sidecars = most = Fraction(0)
    for container in entries(spec, "initContainers"):
        amount = _stated(container, resource) or Fraction(0)
        if container.get("restartPolicy") == "Always":
            sidecars += amount
        else:
            most = max(most, sidecars + amount)
    together = sum((_stated(each, resource) or Fraction(0) for each in entries(spec, "containers")), sidecars)
    of_pod = _stated(spec, resource)
    overhead = parse_quantity(part(spec, "overhead").get(resource, 0))
    return (max(together, most) if of_pod is None else of_pod) + overhead


def _stated(owner: Mapping[str, Any], resource: str) -> Fraction | None:
    """Return what a container, or a pod as a whole, asks for; None: nothing is said."""
    amounts = part(owner, "resources")
    for kind in ("requests", "limits"):
        if resource in (amounts.get(kind) or {}):
            return parse_quantity(amounts[kind][resource])
    return None


def instant(text: str) -> float:
    """Return a time of Kubernetes (RFC 3339) in Unix seconds; raises BadInputError."""
    try:
        time = datetime.fromisoformat(text)
    except (TypeError, ValueError) as error:
        raise BadInputError(f"{text!r} is no time of Kubernetes.") from error
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def _number(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None
