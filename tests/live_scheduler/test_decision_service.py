"""A scheduler that is not Slurm, end to end: `lucid live serve` in one process, the scheduler in another."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from foundation.errors import NotFoundError
from live_scheduler.cluster_state import LiveJob
from live_scheduler.memory.journal import JobEvent, JobEventKind
from live_scheduler.memory.online_state import OnlineState
from live_scheduler.service import live_messages, schema
from live_scheduler.service.asking import ServiceCaller, open_caller
from live_scheduler.service.state_files import ENDPOINT_FILE, TOKEN_FILE, read_endpoint
from simulator.cluster.placement import FreeGpus
from simulator.job_view import JobView, RunState
from simulator.policies.registry import load_policy
from simulator.snapshot import NodePool, Snapshot
from simulator.workload.job import Job
from tests.live_scheduler import toy_scheduler
from tests.live_scheduler.live_answers import problem
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
    def url(self) -> str:
        url = read_endpoint(self.folder).http
        assert url is not None
        return url

    def post(self, path: str, message: schema.Message | str, token: str | None = None) -> httpx.Response:
        token = token or (self.folder / TOKEN_FILE).read_text().strip()
        return httpx.post(
            f"{self.url}/v1/{path}",
            content=message if isinstance(message, str) else message.model_dump_json(),
            headers={"Authorization": f"Bearer {token}"},
            timeout=PATIENCE_S,
            trust_env=False,
        )

    def decided(self, path: str, state: schema.ClusterState) -> schema.Decision:
        return schema.Decision.model_validate_json(self.post(path, state).raise_for_status().content)

    def caller(self) -> ServiceCaller:
        return open_caller(self.home / "live", cluster="small")


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


def state_of(*jobs: schema.Job, at_s: float = 1.9e9) -> schema.ClusterState:
    nodes = (schema.Node(name="n1", gpus=8, gpus_used=0, available=True, partitions=("vc",)),)
    return schema.ClusterState(at_s=at_s, jobs=jobs, nodes=nodes)


# The order is the simulator's


def test_a_toy_scheduler_is_driven_as_the_simulators_policy_would(
    served: Served, tmp_path: Path, small_model_files: dict[str, list[Path]]
) -> None:
    out = tmp_path / "pushes.jsonl"
    subprocess.run(
        [sys.executable, toy_scheduler.__file__, served.url, str(served.folder / TOKEN_FILE), str(JOBS), "1",
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


def test_a_pushed_cluster_is_told_of_as_any_other(served: Served) -> None:
    other = JOB.model_copy(update={"job_id": "b", "gpus": 64})
    served.decided("schedule", state_of(JOB, other, at_s=2.1e9))
    with served.caller() as caller:
        told = caller.explain("b")
        assert (told.place, told.queue_length, told.pool) == (2, 2, "vc")
        status = caller.status()
        assert (status.cluster, status.mode, status.release.version) == ("small", "control", 7)
        assert status.heartbeat_age_s is None
        (queue,) = caller.queue("vc").queues
    assert [job.job_id for job in queue.jobs] == ["a", "b"]
    assert httpx.get(f"{served.url}/healthz", trust_env=False).text == "ok\n"


def test_every_pushed_state_gets_a_decision(served: Served) -> None:
    states = [state_of(JOB, at_s=2.2e9 + at) for at in range(5)]
    decisions = [served.decided("schedule", state) for state in states]
    assert [decision.at_s for decision in decisions] == [state.at_s for state in states]
    assert all([place.job_id for place in decision.ranked] == ["a"] for decision in decisions)


def test_decide_remembers_nothing(served: Served) -> None:
    served.decided("schedule", state_of(JOB, at_s=2.3e9))
    other = JOB.model_copy(update={"job_id": "other"})
    decided = served.decided("decide", state_of(other, at_s=2.3e9))
    assert [place.job_id for place in decided.ranked] == ["other"]
    with served.caller() as caller:
        (queue,) = caller.queue().queues
    assert [job.job_id for job in queue.jobs] == ["a"]


def test_nothing_is_done_without_the_token(served: Served) -> None:
    for path, message in (("schedule", state_of(JOB)), ("ends", schema.EndedJobs())):
        answer = served.post(path, message, token="x" * 40)
        assert answer.status_code == 401
        assert "token" in problem(answer).detail


def test_errors_name_the_value_and_the_remedy(served: Served) -> None:
    bad = state_of(JOB).model_dump(mode="json")
    bad["jobs"][0]["gpus"] = -3
    answer = served.post("schedule", json.dumps(bad))
    assert answer.status_code == 422
    assert "body.jobs.0.gpus is -3" in problem(answer).detail
    served.decided("schedule", state_of(JOB, at_s=2.4e9))
    with served.caller() as caller, pytest.raises(NotFoundError, match="'nobody'"):
        caller.explain("nobody")


# The process


def test_a_second_service_of_the_same_cluster_is_refused(served: Served) -> None:
    with pytest.raises(AssertionError, match="runs with the state"):
        serve(served.home)


@pytest.mark.slow
def test_it_starts_without_a_release_says_so_and_ends_in_order(tmp_path: Path) -> None:
    found = serve(tmp_path)
    try:
        decided = found.decided("schedule", state_of(JOB))
        assert "No release" in str(decided.problem)
        assert not decided.ranked
        answer = found.post("decide", state_of(JOB))
        assert answer.status_code == 503
        assert "publish" in problem(answer).remedy + problem(answer).detail
    finally:
        assert end(found) == 0
    assert not (found.folder / ENDPOINT_FILE).exists()
