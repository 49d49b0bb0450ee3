"""A daemon over a cluster that pushes: what it learns, what it asks for, and what a restart keeps."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foundation.errors import ServiceUnavailableError
from live_scheduler.client import ReleaseClient
from live_scheduler.cluster_state import ClusterState, EndedJob, LiveJob, LiveNode
from live_scheduler.daemon import Daemon
from live_scheduler.deciding.live_policies import live_policy_names
from live_scheduler.live_settings import LiveSettings, Mode
from live_scheduler.service import schema
from live_scheduler.service.pushed_cluster import PushedCluster, PushedOperations

NOW_S = 1_900_000_000.0
NODES = (LiveNode("n1", 8, 8, True, ("vc1",)),)


def job(job_id: str, user: str = "newcomer", gpus: int = 1, at_s: float = NOW_S) -> LiveJob:
    return LiveJob(job_id, "vc1", "vc1", gpus, at_s, user=user, name=f"train_{user}")


def ended(each: LiveJob, duration_s: float, end_s: float) -> EndedJob:
    return EndedJob(each, "COMPLETED", end_s - duration_s, end_s, duration_s)


class Pushing:
    def __init__(self, client: ReleaseClient, folder: Path, **given: Any) -> None:
        self.cluster = PushedCluster("small")
        chosen = LiveSettings("small", mode=Mode.CONTROL, **given)
        self.daemon = Daemon(self.cluster, client, chosen, folder, clock=lambda: NOW_S)
        self.operations = PushedOperations(self.daemon, self.cluster, clock=lambda: NOW_S)

    def push(self, *jobs: LiveJob, at_s: float = NOW_S) -> dict[str, float | None]:
        decision = self.operations.order(ClusterState(at_s, jobs, NODES))
        assert decision.problem is None
        return {place.job_id: place.estimated_duration_s for place in decision.ranked}

    def flights(self) -> set[str]:
        assert self.daemon.online is not None
        return {
            job_id
            for job_id in self.daemon.online.scorer.state.flights
            if not job_id.startswith("j")  # the release's own history
        }


@pytest.fixture
def pushing(client: ReleaseClient, tmp_path: Path) -> Pushing:
    return Pushing(client, tmp_path)


def test_before_the_first_push_there_is_nothing_to_read() -> None:
    with pytest.raises(ServiceUnavailableError, match="Nothing was pushed yet by small"):
        PushedCluster("small").read()


def test_only_what_changed_is_asked_for_again(pushing: Pushing) -> None:
    first, second = job("1", "u0"), job("2", "u5")
    pushing.push(first, second)
    assert {change.job_id for change in pushing.daemon.view.asked} == {"1", "2"}
    pushing.push(first, second, at_s=NOW_S + 1)
    assert pushing.daemon.view.asked == ()
    pushing.push(first, second, job("3", "u2"), at_s=NOW_S + 2)
    assert {change.job_id for change in pushing.daemon.view.asked} == {"3"}
    pushing.push(first, second, job("3", "u2"), at_s=NOW_S + 3)
    read = pushing.cluster.read().by_id
    given = sorted(read, key=lambda job_id: -(read[job_id].priority or 0))
    assert given == [place.job_id for place in pushing.daemon.view.decision.ranked]  # type: ignore[union-attr]


def test_a_job_that_no_push_showed_is_learnt_from_when_its_end_is_reported(pushing: Pushing) -> None:
    waits = job("1")
    before = pushing.push(waits)["1"]
    brief = [ended(job(f"b{number}"), 5.0, NOW_S + 6.0) for number in range(3)]
    assert pushing.operations.learn(brief) == 3
    assert pushing.operations.learn(brief) == 0
    after = pushing.push(waits, at_s=NOW_S + 10.0)["1"]
    assert before is not None
    assert after is not None
    assert after < before / 2
    assert pushing.flights() == {"1"}


def test_an_end_is_learnt_from_once_whoever_tells_it(pushing: Pushing, client: ReleaseClient) -> None:
    runs = replace(job("1"), start_time_s=NOW_S, gpus_on=(("n1", 1),))
    pushing.push(runs)
    end = ended(job("1"), 50.0, NOW_S + 50.0)
    assert pushing.operations.learn([end]) == 1
    pushing.push(job("2"), at_s=NOW_S + 60.0)
    assert [each.job.job_id for each in pushing.daemon.view.ended] == ["1"]
    estimates = pushing.push(job("2"), at_s=NOW_S + 70.0)
    assert pushing.flights() == {"2"}
    # A restarted service has the journal; that the scheduler reports the end once more changes nothing.
    again = Pushing(client, pushing.daemon.state_dir)
    again.operations.learn([end])
    assert again.push(job("2"), at_s=NOW_S + 70.0) == pytest.approx(estimates)
    assert again.operations.learn([end]) == 0
    assert again.flights() == {"2"}


def test_a_job_that_vanished_without_a_word_waits_for_its_report(pushing: Pushing) -> None:
    pushing.push(replace(job("1"), start_time_s=NOW_S, gpus_on=(("n1", 1),)))
    pushing.push(at_s=NOW_S + 60.0)
    assert pushing.daemon.view.ended == ()
    pushing.operations.learn([ended(job("1"), 50.0, NOW_S + 50.0)])
    pushing.push(at_s=NOW_S + 61.0)
    assert [each.job.job_id for each in pushing.daemon.view.ended] == ["1"]


def test_a_job_is_measured_first_and_then_goes_home(client: ReleaseClient, tmp_path: Path) -> None:
    """What docs/live_answers.md asks of a scheduler with a profiling partition, through the schema."""
    pushing = Pushing(client, tmp_path, profiling_partition="prof")

    nodes = (
        schema.Node(name="n1", gpus=8, gpus_used=8, available=True, partitions=("vc1",)),
        schema.Node(name="p1", gpus=4, gpus_used=0, available=True, partitions=("prof",)),
    )
    operations = pushing.operations

    def push(at_s: float, **facts: object) -> schema.Decision:
        small = schema.Job.model_validate(
            {
                "job_id": "1",
                "virtual_cluster": "vc1",
                "gpus": 1,
                "submit_time_s": NOW_S,
                "user": "u0",
                **facts,
            }
        )
        decision = operations.schedule(schema.ClusterState(at_s=at_s, jobs=(small,), nodes=nodes))
        assert decision.problem is None
        return decision

    operations.schedule(schema.ClusterState(at_s=NOW_S - 1.0, nodes=nodes))  # there is no room at home
    (place,) = push(NOW_S).ranked
    assert (place.pool, place.starts_now) == ("prof", True)
    assert place.limit_s is not None
    told = operations.explain(schema.JobQuery(job_id="1"))
    assert told.to_be_profiled
    assert any("to be measured first, on prof" in each for each in told.sentences)
    runs = {"partition": "prof", "start_time_s": NOW_S + 1.0, "gpus_on": [{"node": "p1", "gpus": 1}]}
    push(NOW_S + 2.0, **runs)
    assert operations.explain(schema.JobQuery(job_id="1")).is_profiled
    (again,) = push(NOW_S + 4.0, profiled=True).ranked
    assert (again.pool, again.starts_now, again.limit_s) == ("vc1", False, None)
    told = operations.explain(schema.JobQuery(job_id="1"))
    assert told.was_profiled
    assert not told.to_be_profiled
    assert any("not measured first" in each for each in told.sentences)


# Whatever is pushed

names = st.sampled_from(["a", "vc1", "vc2", "prof", "n1", "n2"])
amounts = st.integers(0, 12)
times = st.floats(1.0, 4e9)
shares = st.builds(schema.NodeShare, node=names, gpus=amounts)
jobs = st.builds(
    schema.Job,
    job_id=st.sampled_from("123456789"),
    virtual_cluster=names,
    gpus=amounts,
    submit_time_s=times,
    partition=st.none() | names,
    user=st.none() | names,
    cpus=st.none() | amounts,
    time_limit_s=st.none() | st.floats(0.0, 1e9),
    held=st.booleans(),
    start_time_s=st.none() | times,
    gpus_on=st.lists(shares, max_size=3).map(tuple),
    shares_gpus=st.booleans(),
    profiled=st.booleans(),
)
nodes_ = st.builds(
    schema.Node,
    name=names,
    gpus=amounts,
    gpus_used=amounts,
    available=st.booleans(),
    partitions=st.lists(names, max_size=3, unique=True).map(tuple),
)
states = st.builds(
    schema.ClusterState,
    at_s=times,
    jobs=st.lists(jobs, max_size=8, unique_by=lambda job: job.job_id).map(tuple),
    nodes=st.lists(nodes_, max_size=5, unique_by=lambda node: node.name).map(tuple),
    closed_partitions=st.lists(names, max_size=2).map(tuple),
)


@pytest.mark.parametrize("policy", live_policy_names())
def test_no_state_however_odd_is_too_much_for_a_pass_or_an_answer(
    client: ReleaseClient, tmp_path: Path, policy: str
) -> None:
    """States that contradict themselves and each other, one after the other, with clocks that jump."""
    pushing = Pushing(client, tmp_path, profiling_partition="prof", policy=policy)
    operations = pushing.operations

    @settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(state=states)
    def push(state: schema.ClusterState) -> None:
        decision = operations.schedule(state)
        assert decision.problem is None
        waiting = {job.job_id for job in state.jobs if job.start_time_s is None}
        assert {place.job_id for place in decision.ranked} | set(decision.left_alone) == waiting
        assert operations.decide(state).problem is None
        for job in state.jobs:
            assert operations.explain(schema.JobQuery(job_id=job.job_id)).job_id == job.job_id
        told = operations.queue(schema.QueueQuery())
        assert sum(len(queue.jobs) for queue in told.queues) == len(decision.ranked)
        assert operations.status().decided

    push()
