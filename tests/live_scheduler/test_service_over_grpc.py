"""A scheduler that is not Slurm, end to end: `lucid live serve` in one process, the scheduler in another."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest

from live_scheduler.cluster_state import LiveJob
from live_scheduler.memory.journal import JobEvent, JobEventKind
from live_scheduler.memory.online_state import OnlineState
from live_scheduler.service import live_messages, schema
from live_scheduler.service import scheduler_pb2 as pb
from live_scheduler.service.state_files import TOKEN_FILE, read_endpoint
from simulator.job import Job
from simulator.job_view import JobView, RunState
from simulator.placement import FreeGpus
from simulator.policies.registry import load_policy
from simulator.snapshot import NodePool, Snapshot
from tests.live_scheduler import toy_scheduler
from tests.live_scheduler.live_release import AWAY, keep_release
from tests.waiting import PATIENCE_S

JOBS = 250


@dataclass
class Served:
    """`lucid live serve` in a process of its own."""

    home: Path
    process: subprocess.Popen[str]

    @property
    def folder(self) -> Path:
        return self.home / "live" / "small"

    @property
    def token(self) -> str:
        return (self.folder / TOKEN_FILE).read_text().strip()

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        return (("authorization", f"Bearer {self.token}"),)

    def stub(self) -> Any:
        endpoint = read_endpoint(self.folder)
        assert endpoint.grpc is not None
        return toy_scheduler.calls_of(grpc.insecure_channel(endpoint.grpc))


def serve(home: Path, *options: str) -> Served:
    environment = os.environ | {"LUCID_STATE_DIR": str(home), "LUCID_TRACKING_URI": AWAY}
    code = "from lucid_cli.main import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "live", "serve", "--cluster", "small", *options],
        env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if "Token in" in line:
            return Served(home, process)
    process.wait()
    raise AssertionError(said)


def end(served: Served) -> int:
    served.process.send_signal(signal.SIGTERM)
    try:
        return served.process.wait(timeout=PATIENCE_S)
    finally:
        served.process.kill()
        assert served.process.stderr is not None
        served.process.stderr.close()


@pytest.fixture(scope="module")
def served(
    tmp_path_factory: pytest.TempPathFactory, small_model_files: dict[str, list[Path]]
) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("served")
    keep_release(home / "live" / "small" / "releases", small_model_files)
    found = serve(home)
    try:
        yield found
    finally:
        assert end(found) == 0


def state_of(*jobs: schema.Job, at_s: float = 1.9e9) -> Any:
    from live_scheduler.service.protobuf_messages import to_protobuf

    nodes = (schema.Node(name="n1", gpus=8, gpus_used=0, available=True, partitions=("vc",)),)
    return to_protobuf(schema.ClusterState(at_s=at_s, jobs=jobs, nodes=nodes))


def refused(call: Any, *given: Any, **named: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as raised:
        call(*given, timeout=PATIENCE_S, **named)
    return raised.value.code(), raised.value.details()


# The order is the simulator's


def test_a_toy_scheduler_is_driven_as_the_simulators_policy_would(
    served: Served, tmp_path: Path, small_model_files: dict[str, list[Path]]
) -> None:
    out = tmp_path / "pushes.jsonl"
    address = read_endpoint(served.folder).grpc
    assert address is not None
    subprocess.run(
        [sys.executable, toy_scheduler.__file__, address, str(served.folder / TOKEN_FILE), str(JOBS), "1",
         str(out)],
        check=True, timeout=300, env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    release = keep_release(tmp_path / "again", small_model_files)
    online = OnlineState(release.scorers.duration)
    seen: dict[str, LiveJob] = {}
    contested = 0
    for line in lines:
        state = live_messages.live_cluster(schema.ClusterState.model_validate(line["state"]))
        ended = [schema.EndedJob.model_validate(end) for end in line["ended"]]
        for event in happened(seen, state.by_id, ended):
            online.observe(event)
        seen = dict(state.by_id)
        decision = schema.Decision.model_validate(line["decision"])
        assert decision.problem is None
        order, starts = by_simulator(state, online)
        assert [place.job_id for place in decision.ranked] == order
        assert {
            place.job_id: [(share.node, share.gpus) for share in place.gpus_on]
            for place in decision.ranked
            if place.starts_now
        } == starts
        contested += len(order) > len(starts) + 1
    finished = {end["job"]["job_id"] for line in lines for end in line["ended"]}
    assert len(finished) == JOBS
    assert contested > 50, "the queue must be long enough for an order to matter"


def happened(before: dict[str, LiveJob], now: Any, ended: list[schema.EndedJob]) -> list[JobEvent]:
    """What a push shows, told without the daemon's own tracker."""
    events = []
    for job in now.values():
        if job.job_id not in before:
            events.append(JobEvent(job.submit_time_s, JobEventKind.SUBMITTED, job.job_id, job.facts()))
        if not job.waiting and (job.job_id not in before or before[job.job_id].waiting):
            events.append(JobEvent(job.start_time_s, JobEventKind.STARTED, job.job_id, job.facts()))
    events += [
        JobEvent(each.end_time_s, JobEventKind.ENDED, each.job.job_id, each.job.facts(), each.duration_s)
        for each in live_messages.live_ends(ended)
    ]
    return sorted(events, key=lambda event: event.at_s)


def by_simulator(state: Any, online: OnlineState) -> tuple[list[str], dict[str, list[tuple[str, int]]]]:
    """The queue, and what starts where, by the policy on a node pool as the simulator has it."""
    policy = load_policy("lucid", {"profiling_nodes": 0, "borrowed_nodes_max": 0, "sharing": "none"})
    pool = NodePool("vc", FreeGpus(len(state.nodes), 8))
    index = {node.name: at for at, node in enumerate(state.nodes)}
    waiting = [job for job in state.jobs if job.waiting]
    p50_s, _ = online.quantiles([job.facts() for job in waiting], state.at_s)
    views = []
    for number, (job, estimate_s) in enumerate(zip(waiting, p50_s, strict=True)):
        view = JobView(
            Job(job.job_id, "vc", job.user, job.gpus, job.submit_time_s, float("inf"), float(estimate_s)),
            number,
        )
        view.state, view.pool = RunState.PENDING, "vc"
        views.append((policy.priority(view), number, view))
    for job in state.jobs:
        if not job.waiting:
            pool.free.take(tuple((index[node], gpus) for node, gpus in job.gpus_on))
    in_order = [view for _, _, view in sorted(views, key=lambda entry: entry[:2])]
    pool.queue.reorder(in_order, in_order, sum(view.gpus for view in in_order))
    names = list(index)
    starts = {
        action.job.job.job_id: [(names[at], gpus) for at, gpus in action.placement]
        for action in policy.decide(Snapshot({"vc": pool}, state.at_s, changed=(pool,)))
    }
    ranked = [view.job.job_id for view in in_order]
    return [*starts, *(job_id for job_id in ranked if job_id not in starts)], starts


# Calls one by one


JOB = schema.Job(
    job_id="a", virtual_cluster="vc", gpus=1, submit_time_s=1.9e9 - 60, user="u1", name="train_u1"
)


def test_explain_status_and_queue_are_told_over_grpc_and_http_alike(served: Served) -> None:
    stub = served.stub()
    other = JOB.model_copy(update={"job_id": "b", "gpus": 64})
    stub.Schedule(state_of(JOB, other, at_s=2.1e9), metadata=served.metadata, timeout=PATIENCE_S)
    told = stub.Explain(pb.JobQuery(job_id="b"), metadata=served.metadata)
    assert (told.place, told.queue_length, told.pool) == (2, 2, "vc")
    http = read_endpoint(served.folder).http
    assert http is not None
    headers = {"Authorization": f"Bearer {served.token}"}
    same = httpx.get(f"{http}/v1/jobs/b/explain", headers=headers, trust_env=False).json()
    assert list(told.sentences) == same["sentences"]
    status = stub.GetStatus(pb.StatusQuery(), metadata=served.metadata)
    assert (status.cluster, status.mode, status.release.version) == ("small", "control", 7)
    assert not status.HasField("heartbeat_age_s")
    (queue,) = stub.GetQueue(pb.QueueQuery(pool="vc"), metadata=served.metadata).queues
    assert [job.job_id for job in queue.jobs] == ["a", "b"]
    assert httpx.get(f"{http}/healthz", trust_env=False).text == "ok\n"


def test_a_stream_of_states_gets_a_decision_each(served: Served) -> None:
    states = [state_of(JOB, at_s=2.2e9 + at) for at in range(5)]
    decisions = list(served.stub().ScheduleStream(iter(states), metadata=served.metadata, timeout=PATIENCE_S))
    assert [decision.at_s for decision in decisions] == [state.at_s for state in states]
    assert all([place.job_id for place in decision.ranked] == ["a"] for decision in decisions)


def test_decide_remembers_nothing(served: Served) -> None:
    stub = served.stub()
    stub.Schedule(state_of(JOB, at_s=2.3e9), metadata=served.metadata, timeout=PATIENCE_S)
    other = JOB.model_copy(update={"job_id": "other"})
    decided = stub.Decide(state_of(other, at_s=2.3e9), metadata=served.metadata, timeout=PATIENCE_S)
    assert [place.job_id for place in decided.ranked] == ["other"]
    (queue,) = stub.GetQueue(pb.QueueQuery(), metadata=served.metadata).queues
    assert [job.job_id for job in queue.jobs] == ["a"]


@pytest.mark.parametrize("metadata", [(), (("authorization", "Bearer no"),), (("authorization", "x"),) * 2])
def test_nothing_is_done_without_the_token(served: Served, metadata: Any) -> None:
    stub = served.stub()
    for call, message in ((stub.Schedule, state_of(JOB)), (stub.GetStatus, pb.StatusQuery())):
        code, details = refused(call, message, metadata=metadata)
        assert code is grpc.StatusCode.UNAUTHENTICATED
        assert "token" in details
    code, _ = refused(lambda *given, **named: list(stub.ScheduleStream(*given, **named)),
                      iter([state_of(JOB)]), metadata=metadata)  # fmt: skip
    assert code is grpc.StatusCode.UNAUTHENTICATED


def test_errors_name_the_value_and_the_remedy(served: Served) -> None:
    stub = served.stub()
    bad = state_of(JOB)
    bad.jobs[0].gpus = -3
    code, details = refused(stub.Schedule, bad, metadata=served.metadata)
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert "ClusterState.jobs.0.gpus is -3" in details
    stub.Schedule(state_of(JOB, at_s=2.4e9), metadata=served.metadata, timeout=PATIENCE_S)
    code, details = refused(stub.Explain, pb.JobQuery(job_id="nobody"), metadata=served.metadata)
    assert code is grpc.StatusCode.NOT_FOUND
    assert "'nobody'" in details
    code, _ = refused(stub.Explain, pb.JobQuery(), metadata=served.metadata)
    assert code is grpc.StatusCode.INVALID_ARGUMENT


def test_a_huge_message_is_refused_and_the_service_goes_on(served: Served) -> None:
    stub = served.stub()
    big = state_of(JOB)
    big.jobs[0].waits_for = "x" * (65 * 1024 * 1024)
    code, _ = refused(stub.Schedule, big, metadata=served.metadata)
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert stub.GetStatus(pb.StatusQuery(), metadata=served.metadata).cluster == "small"


# The process


def test_a_second_service_of_the_same_cluster_is_refused(served: Served) -> None:
    with pytest.raises(AssertionError, match="runs with the state"):
        serve(served.home)


@pytest.mark.slow
def test_it_starts_without_a_release_says_so_and_ends_in_order(tmp_path: Path) -> None:
    found = serve(tmp_path, "--http-port", "-1")
    try:
        decided = found.stub().Schedule(state_of(JOB), metadata=found.metadata, timeout=PATIENCE_S)
        assert "No release" in decided.problem
        assert not decided.ranked
        code, details = refused(found.stub().Decide, state_of(JOB), metadata=found.metadata)
        assert code is grpc.StatusCode.UNAVAILABLE
        assert re.search("publish", details)
        assert read_endpoint(found.folder).http is None
    finally:
        assert end(found) == 0
    assert not (found.folder / "endpoint.json").exists()
