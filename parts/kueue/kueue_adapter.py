"""Kueue behind the adapter's seam: its Workloads are read and their priority is proposed, nothing else.

Tested against recorded API objects, not on a cluster (parts/kueue/README.md).

`spec.priority` is the one field that Kueue lets others change at any time ("Workload priority class",
mutability of priority fields); it orders a ClusterQueue. It is written to workloads that hold no quota, with
the version that the decision was made on, beside two annotations: what was given, and what Kueue itself had
given before. Kueue puts a class's value back when the class changes or Kueue restarts; the next pass sees it.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from urllib.parse import quote

from cluster_logs.job_states import JobState
from foundation.errors import ServiceUnavailableError
from live_scheduler.adapter import (
    Advise,
    Change,
    MoveTo,
    PriorityRange,
    Refusal,
    RestrictToNode,
    ReturnToDefault,
    SendHome,
    SetPriority,
    StartAfter,
    WriteBack,
)
from live_scheduler.cluster_state import ClusterState, EndedJob, LiveJob
from live_scheduler.write_lease import present_lease
from parts.kueue import device_claims
from parts.kueue.api_client import ApiClient, ApiRefusalError, Json
from parts.kueue.cluster_reading import (
    KueueObjects,
    KueueReading,
    ReadingRules,
    own_order,
    priority_range,
    read_cluster,
)
from parts.kueue.quantities import entries, part
from parts.kueue.workload import (
    ADVICE,
    DEFAULT_PRIORITY,
    GIVEN_PRIORITY,
    UNUSABLE,
    KueueWorkload,
    PriorityClass,
)

logger = logging.getLogger("lucid.live")

# The forms that are understood, the newest first.
VERSIONS = ("v1beta2", "v1beta1")
_ATTEMPTS = 5
_PODS_THAT_RUN = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
_CANNOT = {
    MoveTo: "Kueue does not move a workload to another queue.",
    SendHome: "Kueue has no profiling stage: it does not stop a workload to queue it again.",
    RestrictToNode: "Kueue does not choose nodes; Kubernetes' scheduler does.",
    StartAfter: "Kueue does not let a workload wait for a moment.",
}


class KueueAdapter:
    """One Kubernetes cluster with Kueue (see `ClusterAdapter`)."""

    def __init__(self, name: str, api: ApiClient, rules: ReadingRules | None = None) -> None:
        self.name = name
        self._api = api
        self._rules = rules or ReadingRules()
        # By the classes that there were at the last reading.
        self.priorities: PriorityRange = priority_range(self._rules, {})
        self._version: str | None = None
        self._classes: Mapping[PriorityClass, int] = {}
        self._reading: KueueReading | None = None
        self._workloads: dict[str, KueueWorkload] = {}  # as last seen, with the version to change
        self._gone: dict[str, EndedJob] = {}  # those that were deleted

    @property
    def unread(self) -> Mapping[str, str]:
        """What of the last reading could not be understood, and why."""
        return {} if self._reading is None else self._reading.unread

    @property
    def uncounted(self) -> Mapping[str, str]:
        """The workloads of the last reading with an unknown number of GPUs, and why."""
        return {} if self._reading is None else self._reading.uncounted

    def read(self) -> ClusterState:
        """Return the cluster as it is now."""
        before, reading = self._reading, self._read()
        there = {*reading.state.by_id, *reading.ended, *reading.unread}
        if before is not None:
            state, at_s = JobState.CANCELLED.name, reading.state.at_s
            deleted = (job for job in before.state.jobs if job.job_id not in there)
            self._gone |= {job.job_id: EndedJob.of_run(job, state, job.start_time_s, at_s) for job in deleted}
        self._gone = {job_id: end for job_id, end in self._gone.items() if job_id not in there}
        if reading.unread and (before is None or reading.unread != before.unread):
            first, why = next(iter(reading.unread.items()))
            logger.warning("%d objects are not understood, first %s: %s", len(reading.unread), first, why)
        if reading.uncounted and (before is None or reading.uncounted != before.uncounted):
            first, why = next(iter(reading.uncounted.items()))
            logger.warning(
                "GPUs of %d workloads are not counted, first %s: %s", len(reading.uncounted), first, why
            )
        self._reading, self._workloads = reading, dict(reading.workloads)
        return reading.state

    def ended(self, job_ids: Collection[str], since_s: float) -> list[EndedJob]:
        """Return what became of workloads, by the last reading; a deleted one counts as cancelled then."""
        if self._reading is None:
            self.read()
        ended_by_id = self._gone if self._reading is None else {**self._gone, **self._reading.ended}
        ended_jobs = [ended_by_id[job_id] for job_id in job_ids if job_id in ended_by_id]
        for job_id in job_ids:
            self._gone.pop(job_id, None)
        return [end for end in ended_jobs if end.end_time_s >= since_s]

    def ended_since(self, since_s: float) -> list[EndedJob]:
        """Return the finished workloads that Kubernetes still keeps, in the order of their ends."""
        late = [end for end in self._read().ended.values() if end.end_time_s >= since_s]
        return sorted(late, key=lambda end: (end.end_time_s, end.job.job_id))

    def apply(self, changes: Sequence[Change]) -> list[Refusal]:
        """Make the changes one by one; return those that were refused."""
        refused = []
        for change in changes:
            why = _CANNOT.get(type(change)) or self._make(change)
            if why:
                refused.append(Refusal(change, why))
        return refused

    def own_priorities(self, jobs: Sequence[LiveJob]) -> Mapping[str, bool]:
        """Return whether workloads have the priorities that Kueue gives them."""
        known = {job.job_id: self._workloads.get(job.job_id) for job in jobs}
        return {
            job_id: workload.priority == workload.default_priority(self._classes)
            for job_id, workload in known.items()
            if workload is not None
        }

    def write_backs(self) -> WriteBack | None:
        """Return None: Kueue keeps what is set, or puts its class's value back, which is its own."""
        return None

    # Reading

    def _read(self) -> KueueReading:
        try:
            version = self._version or self._served_version()
            self._version = version
            group = f"/apis/kueue.x-k8s.io/{version}"
            classes = self._priority_classes(group)
            pods = self._api.list_all("/api/v1/pods", fieldSelector=_PODS_THAT_RUN)
            workloads = self._api.list_all(f"{group}/workloads")
            claims, templates = self._device_claims() if _claim_devices(pods, workloads) else ([], [])
            objects = KueueObjects(
                cluster_queues=self._api.list_all(f"{group}/clusterqueues"),
                local_queues=self._api.list_all(f"{group}/localqueues"),
                flavors=self._api.list_all(f"{group}/resourceflavors"),
                nodes=self._api.list_all("/api/v1/nodes"),
                pods=pods,
                workloads=workloads,
                classes=classes,
                claims=claims,
                claim_templates=templates,
            )
        except ApiRefusalError as error:
            self._version = None  # an upgrade may serve another
            raise ServiceUnavailableError(
                f"The API server of {self.name} refused to be read ({error.status}): {error}",
                remedy="Apply parts/kueue/rbac.yaml." if error.status == 403 else None,
            ) from error
        self._classes, self.priorities = classes, priority_range(self._rules, classes)
        return read_cluster(objects, self._rules, self._api.now_s())

    def _served_version(self) -> str:
        served = {entry["version"] for entry in self._api.get("/apis/kueue.x-k8s.io").get("versions") or []}
        for version in VERSIONS:
            if version in served:
                return version
        raise ServiceUnavailableError(
            f"{self.name} serves Kueue's API as {', '.join(sorted(served)) or 'nothing'};"
            f" {' and '.join(VERSIONS)} are understood."
        )

    def _device_claims(self) -> tuple[list[Json], list[Json]]:
        """Return ResourceClaims and their templates; none where they may not be read or are not served.

        They are read only where a pod has one: claims that are missing are named beside their workloads.
        """
        group = "/apis/resource.k8s.io"
        try:
            served = {entry["version"] for entry in self._api.get(group).get("versions") or []}
            version = next(version for version in device_claims.VERSIONS if version in served)
            claims = self._api.list_all(f"{group}/{version}/resourceclaims")
            return claims, self._api.list_all(f"{group}/{version}/resourceclaimtemplates")
        except (ApiRefusalError, StopIteration) as error:
            logger.warning(
                "resource claims of %s cannot be read (rbac.yaml gives the right): %s", self.name, error
            )
            return [], []

    def _priority_classes(self, group: str) -> dict[PriorityClass, int]:
        own = self._api.list_all(f"{group}/workloadpriorityclasses")
        of_pods = self._api.list_all("/apis/scheduling.k8s.io/v1/priorityclasses")
        return {
            PriorityClass(kind, str(priority_class["metadata"]["name"])): int(priority_class["value"])
            for kind, classes in (("WorkloadPriorityClass", own), ("PriorityClass", of_pods))
            for priority_class in classes
        }

    # Changing

    def _make(self, change: Change) -> str | None:
        """Make a change; return why it was refused, if it was. A workload that changed is looked at anew."""
        key = change.job_id
        try:
            if isinstance(change, Advise):
                last_seen = self._workloads.get(key)
                if last_seen is not None and last_seen.annotations.get(ADVICE, "") == change.text:
                    return None
                note = {"metadata": {"annotations": {ADVICE: change.text or None}}}
                self._keep(self._patch(key, note))
                return None
            workload = self._workloads.get(key) or self._look(key)
            for _ in range(_ATTEMPTS):
                if why := self._untouchable(change, workload):
                    return why
                body = self._body(change, workload)
                if body is None:
                    return None
                try:
                    self._keep(self._patch(key, body))
                    return None
                except ApiRefusalError as error:
                    if error.status != 409:
                        raise
                workload = self._look(key)
            return f"it changed {_ATTEMPTS} times while its priority was to be set"
        except ApiRefusalError as error:
            return str(error)

    def _body(self, change: Change, workload: KueueWorkload) -> Json | None:
        """Return the fields to change; None when they are as they should be already."""
        own_priority = change.priority if isinstance(change, ReturnToDefault) else None
        default = workload.default_priority(self._classes, own_priority)
        if isinstance(change, ReturnToDefault):
            if not {DEFAULT_PRIORITY, GIVEN_PRIORITY, ADVICE} & workload.annotations.keys():
                return None
            # What a person set after us stays.
            priority = workload.priority if workload.set_by_others(self._classes) else default
            notes = dict.fromkeys((DEFAULT_PRIORITY, GIVEN_PRIORITY, ADVICE))
        else:
            assert isinstance(change, SetPriority)  # noqa: S101
            priority = change.priority
            notes = {DEFAULT_PRIORITY: str(default), GIVEN_PRIORITY: str(priority)}
            if priority == workload.priority and notes.items() <= workload.annotations.items():
                return None
        return {
            "metadata": {"resourceVersion": workload.version, "annotations": notes},
            "spec": {"priority": priority},
        }

    def _untouchable(self, change: Change, workload: KueueWorkload) -> str | None:
        """Return why the priority of a workload is not for us to set, None when it is."""
        if workload.finished:
            return "it has finished"
        if isinstance(change, ReturnToDefault):
            return None  # also one that runs: it may be evicted, and queue again
        if workload.reserved:
            return "it holds quota already"
        if not workload.active:
            return "it is held (spec.active is false)"
        for owner in own_order(workload, self._rules, self._classes):
            return f"it keeps {owner}"
        return None

    def _patch(self, key: str, body: Json) -> Json:
        lease = present_lease()
        if lease is not None:
            lease.check()
        return self._api.merge_patch(self._path(key), body)

    def _look(self, key: str) -> KueueWorkload:
        return self._keep(self._api.get(self._path(key)))

    def _keep(self, raw: Json) -> KueueWorkload:
        workload = KueueWorkload(raw)
        self._workloads[workload.key] = workload
        return workload

    def _path(self, key: str) -> str:
        namespace, _, name = key.partition("/")
        version = self._version or self._served_version()
        return (
            f"/apis/kueue.x-k8s.io/{version}/namespaces/{quote(namespace, safe='')}"
            f"/workloads/{quote(name, safe='')}"
        )


def _claim_devices(pods: Sequence[Json], workloads: Sequence[Json]) -> bool:
    """Return whether any pod, also of a workload, has a resource claim; odd objects are told of elsewhere."""
    specs = [part(pod, "spec") for pod in pods]
    for workload in workloads:
        with suppress(*UNUSABLE):
            specs += [part(each, "template", "spec") for each in entries(workload, "spec", "podSets")]
    return any("resourceClaims" in spec for spec in specs)
