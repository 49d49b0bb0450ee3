"""Kueue behind the adapter's seam, over real HTTP, on objects shaped as Kueue's API server lists them."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from foundation.errors import ServiceUnavailableError
from live_scheduler.adapter import (
    Advise,
    MoveTo,
    PriorityRange,
    RestrictToNode,
    ReturnToDefault,
    SendHome,
    SetPriority,
    StartAfter,
)
from parts.kueue.api_client import ApiClient, ClusterAccess
from parts.kueue.cluster_reading import ReadingRules
from parts.kueue.kueue_adapter import KueueAdapter
from parts.kueue.tests.kueue_server import TOKEN, WORKLOADS, KueueServer, recorded, serve
from parts.kueue.workload import (
    DEFAULT_PRIORITY,
    GIVEN_PRIORITY,
)

SWEEP, SEGMENT, NOTEBOOK = (
    "vision/job-resnet-sweep-1-0a91e",
    "vision/job-segment-31c55",
    "vision/pod-notebook-55e01",
)
PRODUCTION, RESNET, WAV2VEC = (
    "vision/job-production-9c2b4",
    "vision/job-resnet-7f3d1",
    "speech/mpijob-wav2vec-c171c",
)
USERS = ReadingRules(user_keys=("example.org/user",))


@pytest.fixture
def server() -> Iterator[KueueServer]:
    with serve() as running:
        yield running


def connect(server: KueueServer, rules: ReadingRules = USERS, **client: Any) -> KueueAdapter:
    access = ClusterAccess(server.address, None, lambda: TOKEN)
    return KueueAdapter("mine", ApiClient(access, **client), rules)


def test_reads_jobs_nodes_and_queues_as_kueue_describes_them(server: KueueServer) -> None:
    selected = {"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}}
    server.change(
        WORKLOADS, SEGMENT, lambda item: item["spec"]["podSets"][0]["template"]["spec"].update(selected)
    )
    state = connect(server).read()
    jobs = state.by_id

    assert state.at_s == server.clock_s
    sweep = jobs[SWEEP]
    assert (sweep.virtual_cluster, sweep.gpus, sweep.user, sweep.name) == (
        "vision",
        4,
        "ada",
        "resnet-sweep-1",
    )
    assert (sweep.cpus, sweep.waiting, sweep.eligible, sweep.priority) == (4, True, True, 0)
    assert sweep.reason.startswith("couldn't assign flavors to pod set main: insufficient unused quota")
    assert jobs[SEGMENT].time_limit_s == 86_400
    assert jobs[SEGMENT].user == "linus"
    assert sweep.other_facts == {"requested_memory_mib": 16_384.0}
    assert jobs[SEGMENT].facts()["gpu_type"] == "NVIDIA-A100-SXM4-80GB"
    assert jobs[NOTEBOOK].gpus == 2  # a limit alone is a request
    assert jobs[NOTEBOOK].user == "vision"  # nobody is named: its namespace

    running = jobs[WAV2VEC]
    assert running.gpus == 17
    assert running.start_time_s is not None
    assert running.start_time_s - running.submit_time_s == 150
    # A pod says whose it is by annotation, or by its owner.
    assert running.gpus_on == (("gpu-a2", 1), ("gpu-a3", 8), ("gpu-h1", 8))
    assert jobs[RESNET].gpus_on == (("gpu-a1", 4),)

    nodes = {node.name: node for node in state.nodes}
    assert set(nodes) == {"gpu-a1", "gpu-a2", "gpu-a3", "gpu-a4", "gpu-h1", "gpu-h2"}  # none without GPUs
    assert (nodes["gpu-a1"].gpus, nodes["gpu-a1"].gpus_used) == (8, 4)  # a pod that succeeded uses none
    assert nodes["gpu-a2"].gpus_used == 3  # another's pod counts as it starts: with its larger beginning
    assert nodes["gpu-a1"].partitions == ("robotics", "speech", "vision")
    assert nodes["gpu-h1"].partitions == ("speech",)
    assert [name for name, node in nodes.items() if not node.available] == ["gpu-a4", "gpu-h2"]


GPU_CLASS = "gpu.nvidia.com"


def claim_gpus(server: KueueServer, request: dict[str, Any], **claim: Any) -> None:
    """Have SWEEP's three pods ask by a claim template (of one request), or by a claim, not by a resource."""
    names = {"namespace": "vision", "name": "gpus"}
    spec = {"devices": {"requests": [{"name": "r", **request}]}}
    base = "/apis/resource.k8s.io/v1/resourceclaim"
    server.lists |= {f"{base}s": {}, f"{base}templates": {}}
    if claim:
        server.put(f"{base}s", {"metadata": dict(names), "spec": spec, **claim})
    else:
        server.put(f"{base}templates", {"metadata": dict(names), "spec": {"spec": spec}})

    def ask(item: Any) -> None:
        (pod_set,) = item["spec"]["podSets"]
        pod_set["count"] = 3
        pod = pod_set["template"]["spec"]
        pod["containers"] = [{"name": "c", "resources": {"claims": [{"name": "d"}]}}]
        pod["resourceClaims"] = [
            {"name": "d", "resourceClaim" + ("Name" if claim else "TemplateName"): "gpus"}
        ]

    server.change(WORKLOADS, SWEEP, ask)


@pytest.mark.parametrize(
    ("request_", "claim", "gpus"),
    [
        ({"exactly": {"deviceClassName": GPU_CLASS}}, {}, 3),
        ({"exactly": {"deviceClassName": GPU_CLASS, "allocationMode": "ExactCount", "count": 2}}, {}, 6),
        ({"deviceClassName": GPU_CLASS, "count": 2}, {}, 6),  # v1beta1
        # Pods that name a claim have its devices together.
        ({"exactly": {"deviceClassName": GPU_CLASS, "count": 2}}, {"status": {}}, 2),
        (
            {"exactly": {"deviceClassName": GPU_CLASS, "allocationMode": "All"}},
            {
                "status": {
                    "allocation": {
                        "devices": {"results": [{"request": "r", "device": f"gpu-{at}"} for at in range(4)]}
                    }
                }
            },
            4,
        ),
        (
            {
                "firstAvailable": [
                    {"name": "a", "deviceClassName": GPU_CLASS},
                    {"name": "b", "deviceClassName": GPU_CLASS},
                ]
            },
            {},
            3,
        ),
        ({"exactly": {"deviceClassName": "rdma.example.org", "count": 8}}, {}, 0),
        ({"exactly": {"deviceClassName": GPU_CLASS, "allocationMode": "All", "adminAccess": True}}, {}, 0),
        ({"exactly": {"deviceClassName": GPU_CLASS, "allocationMode": "All"}}, {}, None),
        (
            {
                "firstAvailable": [
                    {"name": "a", "deviceClassName": GPU_CLASS},
                    {"name": "b", "deviceClassName": "mig.nvidia.com"},
                ]
            },
            {},
            None,
        ),
    ],
)
def test_gpus_of_resource_claims_are_counted_or_named(
    server: KueueServer, request_: dict[str, Any], claim: dict[str, Any], gpus: int | None
) -> None:
    claim_gpus(server, request_, **claim)
    adapter = connect(server)
    job = adapter.read().by_id[SWEEP]
    said = "resource claims that do not say how many GPUs they are: gpus"
    assert (job.gpus, job.waits_for) == ((0, said) if gpus is None else (gpus, ""))
    assert [*adapter._reading.uncounted] == ([SWEEP] if gpus is None else [])


def test_claims_that_may_not_be_read_leave_their_workloads_alone(server: KueueServer) -> None:
    claim_gpus(server, {"exactly": {"deviceClassName": GPU_CLASS}})
    server.rules[:] = [rule for rule in server.rules if rule["apiGroups"] != ["resource.k8s.io"]]
    jobs = connect(server).read().by_id
    assert jobs[SWEEP].waits_for.endswith("how many GPUs they are: gpus")
    assert jobs[SEGMENT].waits_for == ""


def test_gpus_that_no_pod_of_its_own_holds_are_found(server: KueueServer) -> None:
    """Admitted a moment ago, or by a framework whose pods name nobody."""
    pods = "/api/v1/pods"
    server.delete(pods, "speech/wav2vec-worker-0")
    jobs = connect(server).read().by_id
    # 8 of 17 GPUs are missing: where most is free of its queue's nodes.
    assert sum(gpus for _, gpus in jobs[WAV2VEC].gpus_on) == 17
    assert dict(jobs[WAV2VEC].gpus_on)["gpu-a3"] == 8

    def forget(pod: Any) -> None:
        pod["metadata"]["ownerReferences"] = []

    server.change(pods, "speech/wav2vec-worker-1", forget)
    state = connect(server).read()
    assert dict(state.by_id[WAV2VEC].gpus_on)["gpu-h1"] == 8  # nobody's pod of its namespace is its own
    assert {node.name: node.gpus_used for node in state.nodes}["gpu-h1"] == 8  # and counts once
    server.delete(pods, "vision/resnet-x7k2p")
    state = connect(server).read()
    assert sum(gpus for _, gpus in state.by_id[RESNET].gpus_on) == 4
    for node in state.nodes:
        held = sum(dict(job.gpus_on).get(node.name, 0) for job in state.jobs)
        assert held <= node.gpus_used <= node.gpus


def test_names_why_workloads_are_left_alone(server: KueueServer) -> None:
    jobs = connect(server).read().by_id
    why = {job_id.partition("/")[2]: job.waits_for for job_id, job in jobs.items() if job.waits_for}

    assert why == {
        "job-production-9c2b4": "the place that its WorkloadPriorityClass production gives it",
        "job-gated-77aa0": "the admission gate example.org/data-staging",
        "job-conformer-e88d2": "admission checks: provisioning (Pending)",
        "job-evicted-4410b": "2026-03-02T09:16:00Z, when Kueue queues it again",
        "job-grasp-d2e61": "the order of its ClusterQueue robotics, which preempts by priority",
        "job-lost-66b31": "a LocalQueue 'no-such-queue' in the namespace astronomy",
    }
    assert [job_id for job_id, job in jobs.items() if job.held] == ["vision/job-paused-2d6f0"]
    assert jobs["speech/job-evicted-4410b"].restarts == 2


def test_a_stopped_queue_is_closed_and_a_stopped_local_queue_holds_its_workloads(server: KueueServer) -> None:
    base = "/apis/kueue.x-k8s.io/v1beta2"
    server.change(f"{base}/clusterqueues", "speech", lambda queue: queue["spec"].update(stopPolicy="Hold"))
    server.change(f"{base}/localqueues", "vision/gpus", lambda queue: queue["spec"].update(stopPolicy="Hold"))
    state = connect(server).read()

    assert state.closed_partitions == {"speech"}
    assert state.by_id[SWEEP].waits_for == "its LocalQueue gpus, which is stopped"


def test_a_cohort_in_which_one_queue_preempts_is_left_alone(server: KueueServer) -> None:
    base = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues"
    server.change(base, "vision", lambda queue: queue["spec"].update(cohortName="all"))
    assert connect(server).read().by_id[SWEEP].eligible
    server.change(base, "robotics", lambda queue: queue["spec"].update(cohortName="all"))
    assert not connect(server).read().by_id[SWEEP].eligible


def test_says_how_many_gpus_a_quota_leaves(server: KueueServer) -> None:
    base = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues"
    # 8 less 4; 24 in each of two flavors less 21; the third's is not for GPUs.
    assert connect(server).read().gpus_left == {"vision": 4, "speech": 27, "robotics": 8}

    for name in ("vision", "robotics"):
        server.change(base, name, lambda queue: queue["spec"].update(cohortName="all"))
    assert connect(server).read().gpus_left["vision"] == 12  # it may borrow what is unused

    def limit(queue: Any) -> None:
        for resource in queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"]:
            resource["borrowingLimit"] = "2"

    server.change(base, "vision", limit)
    assert connect(server).read().gpus_left["vision"] == 6


def test_reads_the_older_form_of_the_api() -> None:
    with serve(recorded("v1beta1")) as server:
        adapter = connect(server)
        jobs = adapter.read().by_id
        assert set(jobs) == {SWEEP, PRODUCTION}
        assert "production" in jobs[PRODUCTION].waits_for
        assert "preempts" in jobs[SWEEP].waits_for  # `cohort`, which it shares with one that preempts
        ended = adapter.ended_since(0)
        assert [(end.job.name, end.state) for end in ended] == [("lenet", "COMPLETED")]


def test_says_how_workloads_ended(server: KueueServer) -> None:
    adapter = connect(server)
    adapter.read()
    ended = {end.job.name: end for end in adapter.ended_since(0)}
    assert {name: (end.state, end.duration_s) for name, end in ended.items()} == {
        "diverged": ("FAILED", 240),
        "lenet": ("COMPLETED", 1800),
    }
    assert list(ended) == ["diverged", "lenet"]  # by their ends
    assert [end.job.name for end in adapter.ended_since(ended["lenet"].end_time_s)] == ["lenet"]


def test_a_deleted_workload_is_cancelled_when_it_is_missed(server: KueueServer) -> None:
    adapter = connect(server)
    adapter.read()
    server.delete(WORKLOADS, SWEEP)
    server.delete(WORKLOADS, RESNET)
    server.clock_s += 60
    adapter.read()

    ended = {end.job.job_id: end for end in adapter.ended([SWEEP, RESNET, SEGMENT], since_s=0)}
    assert set(ended) == {SWEEP, RESNET}  # the third still waits
    assert (ended[SWEEP].state, ended[SWEEP].duration_s) == ("CANCELLED", None)
    assert ended[RESNET].duration_s == server.clock_s - (ended[RESNET].start_time_s or 0)
    assert adapter.ended([SWEEP], since_s=0) == []  # it was said


def test_lists_come_in_pages_of_one_moment(server: KueueServer) -> None:
    """A page that is gone (410) makes the list begin anew, with what was made meanwhile."""
    gone: list[int] = []

    def page(collection: str, start: int) -> None:
        if collection == WORKLOADS and start == 4 and not gone:
            gone.append(start)
            late = server.workload(SWEEP)
            late["metadata"]["name"] = "job-late-00000"
            server.put(WORKLOADS, late)
            server.forget_snapshots()

    server.before_page = page
    adapter = connect(server, page=2)
    state = adapter.read()
    assert gone
    assert len(state.by_id) + len(adapter.ended_since(0)) == len(server.lists[WORKLOADS]) == 16
    assert "vision/job-late-00000" in state.by_id
    asked = [target for method, target in server.requests if target.startswith(WORKLOADS)]
    assert all("limit=2" in target for target in asked)


def test_gives_up_a_list_that_is_never_whole(server: KueueServer) -> None:
    def always_gone(collection: str, start: int) -> None:
        if start:
            server.forget_snapshots()

    server.before_page = always_gone
    with pytest.raises(ServiceUnavailableError, match="lost its place"):
        connect(server, page=2).read()


def test_sets_priorities_and_notes_what_was_there(server: KueueServer) -> None:
    adapter = connect(server)
    adapter.read()
    assert adapter.priorities == PriorityRange(1, 99_999, exclusive=True)  # below the class "production"

    assert adapter.apply([SetPriority(SWEEP, 700), SetPriority(SEGMENT, 300)]) == []
    sweep = server.workload(SWEEP)
    assert sweep["spec"]["priority"] == 700
    assert sweep["metadata"]["annotations"] == {DEFAULT_PRIORITY: "0", GIVEN_PRIORITY: "700"}
    after = adapter.read().by_id
    assert (after[SWEEP].priority, after[SWEEP].eligible) == (700, True)

    # The same again asks for nothing.
    server.requests.clear()
    assert adapter.apply([SetPriority(SWEEP, 700)]) == []
    assert server.requests == []


@pytest.mark.parametrize("written", ["2000000000", "-7", "9" * 30, "many"])
def test_a_number_that_a_user_annotates_is_never_given(server: KueueServer, written: str) -> None:
    adapter = connect(server)
    adapter.read()
    assert adapter.apply([SetPriority(SWEEP, 700)]) == []
    sweep = server.workload(SWEEP)
    sweep["metadata"]["annotations"][DEFAULT_PRIORITY] = written
    server.put(WORKLOADS, sweep)
    adapter.read()
    assert adapter.apply([ReturnToDefault(SWEEP)]) == []
    assert server.workload(SWEEP)["spec"]["priority"] == 0


def test_advice_stands_beside_workloads_that_wait_or_run(server: KueueServer) -> None:
    adapter = connect(server)
    adapter.read()
    assert adapter.apply([Advise(SWEEP, "starts about 10:00"), Advise(RESNET, "ends about 11:00")]) == []
    jobs = adapter.read().by_id
    assert (jobs[SWEEP].advice, jobs[RESNET].advice) == ("starts about 10:00", "ends about 11:00")
    server.requests.clear()
    assert adapter.apply([Advise(SWEEP, "starts about 10:00")]) == []
    assert server.requests == []
    assert adapter.apply([Advise(SWEEP, "")]) == []
    assert adapter.read().by_id[SWEEP].advice == ""
    assert server.workload(SWEEP)["spec"]["priority"] == 0


def test_the_way_back_leaves_nothing_behind(server: KueueServer) -> None:
    before = {key: deepcopy(item) for key, item in server.lists[WORKLOADS].items()}
    adapter = connect(server, ReadingRules(order_classes=True))
    adapter.read()
    assert adapter.priorities.most == 999_999_999
    changes = [SetPriority(SWEEP, 5), SetPriority(PRODUCTION, 9), Advise(SWEEP, "starts about 10:00")]
    assert adapter.apply(changes) == []
    assert server.workload(PRODUCTION)["spec"]["priority"] == 9

    back = connect(server)  # another process, that knows nothing of the first
    jobs = back.read().jobs
    assert back.apply([ReturnToDefault(job.job_id) for job in jobs if job.eligible or job.priority]) == []
    for key, item in server.lists[WORKLOADS].items():
        item["metadata"]["resourceVersion"] = before[key]["metadata"]["resourceVersion"]
        if item["metadata"].get("annotations") == {}:
            del item["metadata"]["annotations"]
        assert item == before[key]


def test_an_admission_between_decision_and_change_wins(server: KueueServer) -> None:
    adapter = connect(server)
    adapter.read()

    def admit(key: str) -> None:
        server.before_patch = None
        server.change(
            WORKLOADS,
            key,
            lambda item: item["status"]["conditions"].__setitem__(
                0, {**item["status"]["conditions"][0], "status": "True"}
            ),
        )

    server.before_patch = admit
    (refusal,) = adapter.apply([SetPriority(SWEEP, 700)])
    assert refusal.why == "it holds quota already"
    assert server.workload(SWEEP)["spec"]["priority"] == 0


def test_one_that_runs_by_now_is_given_back_too(server: KueueServer) -> None:
    """It may be evicted, and would queue again with what it was given."""
    adapter = connect(server)
    adapter.read()
    assert adapter.apply([SetPriority(SWEEP, 700), SetPriority(SEGMENT, 600)]) == []
    conditions = server.workload(RESNET)["status"]["conditions"]
    server.change(WORKLOADS, SWEEP, lambda item: item["status"].update(conditions=conditions))
    server.change(WORKLOADS, SEGMENT, lambda item: item["spec"].update(active=False))
    assert not adapter.read().by_id[SWEEP].waiting
    assert adapter.apply([ReturnToDefault(SWEEP), ReturnToDefault(SEGMENT)]) == []
    for key in (SWEEP, SEGMENT):
        after = server.workload(key)
        assert (after["spec"]["priority"], after["metadata"]["annotations"]) == (0, {})


def test_an_unrelated_change_is_looked_at_and_the_priority_set_again(server: KueueServer) -> None:
    adapter = connect(server)
    adapter.read()

    def touch(key: str) -> None:
        server.before_patch = None
        server.change(WORKLOADS, key, lambda item: item["metadata"].setdefault("labels", {}).update(note="x"))

    server.before_patch = touch
    assert adapter.apply([SetPriority(SWEEP, 700)]) == []
    after = server.workload(SWEEP)
    assert (after["spec"]["priority"], after["metadata"]["labels"]["note"]) == (700, "x")


def test_a_workload_that_never_rests_is_refused_after_some_attempts(server: KueueServer) -> None:
    adapter = connect(server)
    adapter.read()
    server.before_patch = lambda key: server.change(WORKLOADS, key, lambda item: None)
    (refusal,) = adapter.apply([SetPriority(SWEEP, 700)])
    assert "changed 5 times" in refusal.why
    assert server.workload(SWEEP)["spec"]["priority"] == 0


def test_what_people_set_is_theirs(server: KueueServer) -> None:
    """A priority that somebody gave by hand stands, before us, after us and on the way back."""
    adapter = connect(server)
    server.change(WORKLOADS, SEGMENT, lambda item: item["spec"].update(priority=50))
    jobs = adapter.read().by_id
    assert jobs[SEGMENT].waits_for == "the place that a person gave it (priority 50)"
    assert adapter.apply([SetPriority(SWEEP, 700)]) == []

    server.change(WORKLOADS, SWEEP, lambda item: item["spec"].update(priority=12))
    (refusal,) = adapter.apply([SetPriority(SWEEP, 800)])
    assert refusal.why == "it keeps the place that a person gave it (priority 12)"
    assert adapter.read().by_id[SWEEP].waits_for == "the place that a person gave it (priority 12)"
    assert adapter.apply([ReturnToDefault(SWEEP)]) == []
    after = server.workload(SWEEP)
    assert (after["spec"]["priority"], after["metadata"]["annotations"]) == (12, {})

    # Kueue puts a class's value back when it restarts: that is nobody's wish.
    assert adapter.apply([SetPriority(NOTEBOOK, 700)]) == []
    server.change(WORKLOADS, NOTEBOOK, lambda item: item["spec"].update(priority=0))
    assert adapter.read().by_id[NOTEBOOK].eligible


def test_refusals_carry_the_words_of_the_server(server: KueueServer) -> None:
    adapter = connect(server, ReadingRules(order_classes=True))
    adapter.read()
    server.delete(WORKLOADS, NOTEBOOK)
    refused = adapter.apply([SetPriority(SWEEP, 2**31), SetPriority(NOTEBOOK, 5), SetPriority(RESNET, 5)])
    assert [refusal.why for refusal in refused] == [
        f'Workload.kueue.x-k8s.io "{SWEEP[7:]}" is invalid: spec.priority: Invalid value: 2147483648',
        'workloads.kueue.x-k8s.io "pod-notebook-55e01" not found',
        "it holds quota already",
    ]
    for rule in server.rules:
        rule["verbs"] = [verb for verb in rule["verbs"] if verb != "patch"]
    (forbidden,) = adapter.apply([SetPriority(SEGMENT, 5)])
    assert 'cannot patch resource "workloads"' in forbidden.why


def test_what_kueue_cannot_do_is_refused(server: KueueServer) -> None:
    adapter = connect(server)
    adapter.read()
    server.requests.clear()
    changes = [
        MoveTo(SWEEP, "speech", "vision"),
        SendHome(RESNET, "vision"),
        RestrictToNode(SWEEP, "gpu-a1"),
        StartAfter(SWEEP, 60),
    ]
    refused = adapter.apply(changes)
    assert [refusal.change for refusal in refused] == changes
    assert all(refusal.why for refusal in refused)
    assert server.requests == []


def test_needs_no_right_that_the_manifest_does_not_give(server: KueueServer) -> None:
    """Each rule of rbac.yaml is needed: without it, something is refused."""
    used: set[tuple[str, str]] = set()
    claim_gpus(server, {})
    adapter = connect(server)
    adapter.read()
    adapter.apply([SetPriority(SWEEP, 7), Advise(SWEEP, "soon")])
    server.change(WORKLOADS, SWEEP, lambda item: item["metadata"].setdefault("labels", {}).update(a="b"))
    adapter.apply([SetPriority(SWEEP, 8)])
    for method, target in server.requests:
        path = target.partition("?")[0]
        if path in ("/apis/kueue.x-k8s.io", "/apis/resource.k8s.io"):
            continue  # discovery: open to everybody who may log in
        resource = path.split("/")[-2] if "/namespaces/" in path else path.rpartition("/")[2]
        verb = "patch" if method == "PATCH" else "get" if "/namespaces/" in path else "list"
        used.add((resource, verb))
    given_rights = {
        (res, verb) for rule in server.rules for res in rule["resources"] for verb in rule["verbs"]
    }
    assert used == given_rights


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda server: server.rules.clear(), "Apply parts/kueue/rbac.yaml"),
        (
            lambda server: server.groups.update(versions=[{"version": "v9"}]),
            "v1beta2 and v1beta1 are understood",
        ),
        (lambda server: server.lists.pop(WORKLOADS), "could not find the requested resource"),
    ],
)
def test_a_cluster_that_cannot_be_read_says_why(server: KueueServer, break_it: Any, message: str) -> None:
    break_it(server)
    with pytest.raises(ServiceUnavailableError, match=message):
        connect(server).read()


def test_a_wrong_token_or_a_dead_server_is_no_answer(server: KueueServer) -> None:
    access = ClusterAccess(server.address, None, lambda: "stolen")
    with pytest.raises(ServiceUnavailableError, match="401: Unauthorized"):
        KueueAdapter("mine", ApiClient(access)).read()
    with pytest.raises(ServiceUnavailableError, match="did not answer"):
        KueueAdapter("mine", ApiClient(ClusterAccess("http://127.0.0.1:9", None, lambda: None))).read()


def test_too_few_priorities_below_a_class_leave_a_queue_alone(server: KueueServer) -> None:
    base = "/apis/kueue.x-k8s.io/v1beta2/workloadpriorityclasses"
    server.change(base, "production", lambda item: item.update(value=3))
    server.change(WORKLOADS, PRODUCTION, lambda item: item["spec"].update(priority=3))
    adapter = connect(server)
    assert (
        adapter.read().by_id[SWEEP].waits_for == "its turn: a priority class leaves only 2 priorities above 0"
    )
    assert adapter.apply([SetPriority(SWEEP, 1)]) == []
    assert adapter.priorities == PriorityRange(1, 2, exclusive=True)
