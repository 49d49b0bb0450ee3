"""On which nodes GPUs are in use, and by which workload.

Pods say it. A workload that was admitted a moment ago has no pods yet, and pods of some frameworks name
no workload that Kueue knows: what such a workload holds is looked for first among such pods of its namespace,
then on free GPUs of its ClusterQueue's nodes, where its pods are about to be.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from live_scheduler.cluster_state import LiveJob, LiveNode
from parts.kueue.device_claims import DeviceClaims
from parts.kueue.quantities import entries, part, whole
from parts.kueue.workload import UNUSABLE, KueueWorkload, named, pod_request, said

Json = Mapping[str, Any]
_POD_WORKLOAD = "kueue.x-k8s.io/workload"


@dataclass
class GpuPlaces:
    """GPUs by workload and node, by node, and of pods without a workload by namespace and node."""

    held: dict[str, Counter[str]] = field(default_factory=dict)
    used: Counter[str] = field(default_factory=Counter)
    unclaimed: dict[str, Counter[str]] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)  # pods that cannot be understood, and why

    def of(self, job_id: str) -> tuple[tuple[str, int], ...]:
        """Return (node, GPUs) of a workload."""
        return tuple(sorted((+self.held.get(job_id, Counter())).items()))

    def find_missing(self, job: LiveJob, nodes: Iterable[LiveNode]) -> None:
        """Find places for the GPUs of a running workload that no pod of its own holds."""
        held = self.held.setdefault(job.job_id, Counter())
        missing = job.gpus - held.total()
        strays = self.unclaimed.get(job.job_id.partition("/")[0], Counter())
        for node in sorted(strays):
            taken = min(missing, strays[node])
            strays[node] -= taken
            held[node] += taken
            missing -= taken
        free = {node.name: node.gpus - self.used[node.name] for node in nodes}
        for name in sorted(free, key=lambda name: (-free[name], name)):
            taken = max(0, min(missing, free[name]))
            held[name] += taken
            self.used[name] += taken
            missing -= taken


def places_of_pods(
    pods: Sequence[Json], workloads: Iterable[KueueWorkload], resources: Collection[str], claims: DeviceClaims
) -> GpuPlaces:
    """Return what pods on nodes hold; those that are over hold nothing, and shared claims count once."""
    counted: set[tuple[str, str]] = set()
    places = GpuPlaces()
    by_owner: dict[str, str] = {}
    for workload in workloads:
        places.held[workload.key] = Counter()
        with suppress(*UNUSABLE):  # said where its facts are read
            by_owner.update(dict.fromkeys(workload.owner_uids, workload.key))
    for pod in pods:
        try:
            gpus = _gpus(pod, resources, claims, counted)
            if gpus:
                _count(pod, gpus, places, by_owner)
        except UNUSABLE as error:
            places.unread[f"pod {named(pod)}"] = said(error)
    return places


def _gpus(pod: Json, resources: Collection[str], claims: DeviceClaims, counted: set[tuple[str, str]]) -> int:
    if not part(pod, "spec").get("nodeName") or part(pod, "status").get("phase") in ("Succeeded", "Failed"):
        return 0
    return sum(whole(pod_request(pod["spec"], name)) for name in resources) + claims.held_by(pod, counted)


def _count(pod: Json, gpus: int, places: GpuPlaces, by_owner: Mapping[str, str]) -> None:
    node = pod["spec"]["nodeName"]
    key, namespace = _workload_of(pod, by_owner), str(pod["metadata"]["namespace"])
    places.used[node] += gpus
    if key in places.held:
        places.held[key][node] += gpus
    else:
        places.unclaimed.setdefault(namespace, Counter())[node] += gpus


def _workload_of(pod: Json, by_owner: Mapping[str, str]) -> str:
    """Return the workload of a pod: as it says itself, by its owner, or by an owner's id in a label."""
    metadata = pod["metadata"]
    labels, notes = part(metadata, "labels"), part(metadata, "annotations")
    named = notes.get(_POD_WORKLOAD) or labels.get(_POD_WORKLOAD)
    if named:
        return f"{metadata['namespace']}/{named}"
    uids = [metadata.get("uid"), *(owner.get("uid") for owner in entries(metadata, "ownerReferences"))]
    return next((by_owner[uid] for uid in (*uids, *labels.values()) if uid in by_owner), "")
