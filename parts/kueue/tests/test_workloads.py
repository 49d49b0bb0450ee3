"""What Kueue's Workloads and their pods ask for, and that each of a list is accounted for."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parts.kueue.cluster_reading import KueueObjects, ReadingRules, read_cluster
from parts.kueue.device_claims import DeviceClaims
from parts.kueue.tests.kueue_server import WORKLOADS, recorded
from parts.kueue.workload import KueueWorkload, pod_request

GPU_CLASS = "gpu.nvidia.com"


def _of_eight_pods(**status: Any) -> KueueWorkload:
    """A workload of eight pods of a GPU and a core each, six of which have succeeded."""
    container = {"name": "c", "resources": {"requests": {"nvidia.com/gpu": "1", "cpu": "1"}}}
    pod_set = {"name": "main", "count": 8, "template": {"spec": {"containers": [container]}}}
    return KueueWorkload(
        {
            "metadata": {"name": "w", "namespace": "ml"},
            "spec": {"queueName": "q", "podSets": [pod_set]},
            "status": {"reclaimablePods": [{"name": "main", "count": 6}], **status},
        }
    )


def test_pods_that_have_succeeded_ask_for_nothing() -> None:
    usage = {"nvidia.com/gpu": "8", "cpu": "8"}
    assignment = {"name": "main", "count": 8, "flavors": {"nvidia.com/gpu": "f"}, "resourceUsage": usage}
    runs = _of_eight_pods(admission={"clusterQueue": "cq", "podSetAssignments": [assignment]})
    waits = _of_eight_pods()
    over = _of_eight_pods(conditions=[{"type": "Finished", "status": "True"}])
    gpus = [workload.gpus(ReadingRules().gpu_resources) for workload in (runs, waits, over)]
    assert gpus == [2, 2, 8]  # of one that is over all that it ran with
    assert [workload.cpus for workload in (runs, waits, over)] == [2, 2, 8]


@pytest.mark.parametrize(
    ("initialising", "overhead", "gpus"),
    [
        ([("Always", "1"), (None, "2")], {}, 3),  # the sidecar is up while the other initialises
        ([(None, "2"), ("Always", "1")], {}, 2),
        ([("Always", "1"), (None, "1"), ("Always", "2")], {}, 4),
        ([(None, "4"), (None, "3")], {}, 4),
        ([("Always", "1"), (None, "2")], {"nvidia.com/gpu": "1", "cpu": "250m"}, 4),
        ([], {}, 1),
    ],
)
def test_a_pod_asks_for_what_it_holds_at_once(
    initialising: list[tuple[str | None, str]], overhead: dict[str, str], gpus: int
) -> None:
    def container(amount: str, policy: str | None = None) -> dict[str, Any]:
        return {"restartPolicy": policy, "resources": {"requests": {"nvidia.com/gpu": amount}}}

    spec = {
        "initContainers": [container(amount, policy) for policy, amount in initialising],
        "containers": [container("1")],
        "overhead": overhead,
    }
    assert pod_request(spec, "nvidia.com/gpu") == gpus


def test_what_a_pod_states_as_a_whole_counts_instead_of_its_containers() -> None:
    spec = {
        "resources": {"limits": {"cpu": "3"}},
        "containers": [{"resources": {"requests": {"cpu": "1"}}}] * 2,
    }
    assert pod_request(spec, "cpu") == 3


def test_pods_hold_the_devices_of_their_claims_once() -> None:
    gpus = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": GPU_CLASS, "count": 2}}]}}
    named = {"metadata": {"namespace": "ml", "name": "shared"}, "spec": gpus}
    made = {"metadata": {"namespace": "ml", "name": "p-d-x7"}, "spec": gpus}
    template = {"metadata": {"namespace": "ml", "name": "t"}, "spec": {"spec": gpus}}
    claims = DeviceClaims.of((GPU_CLASS,), [named, made], [template])
    shares: dict[str, Any] = {"spec": {"resourceClaims": [{"name": "d", "resourceClaimName": "shared"}]}}
    own: dict[str, Any] = {
        "spec": {"resourceClaims": [{"name": "d", "resourceClaimTemplateName": "t"}]},
        "status": {"resourceClaimStatuses": [{"name": "d", "resourceClaimName": "p-d-x7"}]},
    }
    early = {"spec": own["spec"]}  # its claims are not made yet
    counted: set[tuple[str, str]] = set()
    pods = [{**pod, "metadata": {"namespace": "ml"}} for pod in (shares, shares, own, early, early)]
    assert [claims.held_by(pod, counted) for pod in pods] == [2, 0, 2, 2, 2]


# Every workload of a list is accounted for, whatever stands in it.

_ITEMS = recorded()["lists"][WORKLOADS]
_CONDITIONS = st.builds(
    lambda kind, status, at: {
        "type": kind,
        "status": status,
        "reason": kind,
        "message": "",
        "lastTransitionTime": at,
    },
    st.sampled_from(["QuotaReserved", "Admitted", "Finished", "Evicted"]),
    st.sampled_from(["True", "False", "Unknown"]),
    st.sampled_from(["2026-03-02T09:00:00Z", "2026-03-02T10:00:00.5+01:00", "yesterday", None]),
)


_PATHS = [
    ("spec", "podSets"),
    ("metadata", "creationTimestamp"),
    ("metadata", "ownerReferences"),
    ("metadata", "labels"),
]


@st.composite
def _workloads(draw: st.DrawFn) -> list[Any]:
    found = []
    for number in range(draw(st.integers(0, 6))):
        item = deepcopy(draw(st.sampled_from(_ITEMS)))
        item["metadata"]["name"] = f"w{number}"
        item["spec"]["queueName"] = draw(st.sampled_from(["gpus", "cpu", "", None]))
        item["spec"]["priority"] = draw(st.sampled_from([None, 0, 7, 100_000, "many"]))
        if draw(st.booleans()):
            item["status"] = draw(
                st.sampled_from([{}, None, {"conditions": draw(st.lists(_CONDITIONS, max_size=4))}])
            )
        for path in draw(st.sets(st.sampled_from(_PATHS))):
            item[path[0]][path[1]] = draw(st.sampled_from([None, [], "?", 3]))
        found.append(item)
    found += draw(st.lists(st.sampled_from([{}, {"metadata": {}}, {"metadata": None}]), max_size=2))
    return found


def _damaged(items: list[Any], damage: list[tuple[int, str, object]]) -> list[Any]:
    """Put odd values in the place of parts of some objects."""
    for at, part, value in damage:
        item = items[at % len(items)]
        if part == "gpu":
            for owner in ("status", "spec"):
                for resources in ("allocatable", "capacity"):
                    if resources in (item.get(owner) or {}):
                        item[owner][resources]["nvidia.com/gpu"] = value
        else:
            item[part] = value
    return items


_DAMAGE = st.lists(
    st.tuples(
        st.integers(0, 20),
        st.sampled_from(["metadata", "spec", "status", "gpu"]),
        st.sampled_from([None, "?", [], {}, "-1", "0.5"]),
    ),
    max_size=3,
)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_workloads(), st.booleans(), _DAMAGE, _DAMAGE)
def test_every_workload_is_a_job_has_ended_or_is_named(
    items: list[Any], order_classes: bool, pods: Any, nodes: Any
) -> None:
    lists = {path.rpartition("/")[2]: value for path, value in recorded()["lists"].items()}
    objects = KueueObjects(
        workloads=items,
        local_queues=lists["localqueues"],
        cluster_queues=lists["clusterqueues"],
        flavors=lists["resourceflavors"],
        nodes=_damaged(lists["nodes"], nodes),
        pods=_damaged(lists["pods"], pods),
        classes={},
    )
    reading = read_cluster(objects, ReadingRules(order_classes=order_classes), 1_772_442_900.0)
    jobs = reading.state.jobs
    unread = [name for name in reading.unread if not name.startswith(("pod ", "node "))]
    assert len(jobs) + len(reading.ended) + len(unread) == len(items)
    assert not {job.job_id for job in jobs} & (reading.ended.keys() | reading.unread.keys())
    for job in jobs:
        # What may be ordered is in a queue that is there, waits, and has a priority that is ours to set.
        if job.eligible:
            assert job.partition in {"vision", "speech", "batch"}
            assert job.priority in (0, 7, 100_000)
            assert job.gpus >= 0
            assert not job.held
