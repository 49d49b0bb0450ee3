"""EASY backfilling against a plain scheduler that recounts everything, and its promise to the head."""

from heapq import heappop, heappush

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.cluster.changes import NodeFailure, SizeChange
from simulator.cluster.placement import FreeGpus
from simulator.cluster.spec import ClusterSpec
from simulator.conformance import check_policy
from simulator.job_view import JobView
from simulator.mechanisms.waiting_jobs import BySubmission, ShortestFirst
from simulator.policies.easy import Easy
from simulator.policies.fair_share import FairShare
from simulator.policies.registry import load_policy
from simulator.policies.tsafrir_easy import TsafrirEasy
from simulator.replay import simulate
from simulator.scenario.scenario import Scenario
from simulator.workload.job import Job
from simulator.workload.workload import Workload

NODES, SIZE = 3, 4
CLUSTER = ClusterSpec({"vc": NODES}, SIZE)


def job(i, submit, gpus, duration, estimate=None, user=None, **more):
    estimate = duration if estimate is None else estimate
    return Job(f"j{i}", "vc", user, gpus, float(submit), float(duration), float(estimate), i, **more)


@st.composite
def workloads(draw, *, exact: bool, sizes=(1, 2, 3, 4, 6, 8, 12), users=(None,)):
    rows = draw(
        st.lists(
            st.tuples(
                st.integers(0, 300),
                st.sampled_from(sizes),
                st.integers(1, 400),
                st.integers(0, 900),
                st.sampled_from(users),
            ),
            min_size=1,
            max_size=40,
        )
    )
    rows.sort(key=lambda row: row[0])
    return Workload(
        tuple(
            job(i, submit, gpus, duration, duration if exact else estimate, user)
            for i, (submit, gpus, duration, estimate, user) in enumerate(rows)
        ),
        {},
    )


class PlainEasy:
    """EASY by the book: every decision looks at every job, and nothing is kept between decisions."""

    def __init__(self, workload: Workload) -> None:
        self.jobs = workload.jobs
        self.start: dict[int, float] = {}
        self.promises: dict[int, float] = {}  # job -> the earliest shadow time that it was told
        self.backfilled: set[int] = set()

    def run(self) -> "PlainEasy":
        free = FreeGpus(NODES, SIZE)
        running: dict[int, tuple] = {}
        queue: list[int] = []
        events = [(job.submit_time_s, 1, i) for i, job in enumerate(self.jobs)]
        events.sort()
        while events:
            now = events[0][0]
            while events and events[0][0] == now:
                _, arrives, i = heappop(events)
                if arrives:
                    queue.append(i)
                else:
                    free.give(running.pop(i))
            for i, placement in self.decide(now, free.copy(), dict(running), queue):
                free.take(placement)
                running[i] = placement
                queue.remove(i)
                self.start[i] = now
                heappush(events, (now + self.jobs[i].duration_s, 0, i))
        return self

    def believed_end(self, i: int, now: float) -> float:
        estimate = max(1.0, self.jobs[i].estimated_duration_s)
        start = self.start.get(i, now)
        while start + estimate <= now:
            estimate *= 2
        return start + estimate

    def decide(self, now, free, running, queue):
        starts = []
        waiting = list(queue)

        def begin(i, placement):
            starts.append((i, placement))
            free.take(placement)
            running[i] = placement
            waiting.remove(i)

        while waiting and (found := free.find(self.jobs[waiting[0]].gpus)):
            begin(waiting[0], found)
        if not waiting:
            return starts
        head = waiting[0]
        shadow, reserved = self.reserve(head, now, free, running)
        self.promises.setdefault(head, shadow)
        for i in waiting[1:]:
            gpus = self.jobs[i].gpus
            if self.believed_end(i, now) <= shadow:
                found = free.find(gpus)
            else:
                # What stays free for the head at the shadow time, whatever is begun now and lasts.
                kept = free.copy()
                for node, needed in reserved:
                    gone = sum(
                        held
                        for other, placement in running.items()
                        if self.believed_end(other, now) > shadow
                        for at, held in placement
                        if at == node
                    )
                    spare = SIZE - gone - needed
                    excess = kept.on_node(node) - spare
                    if excess > 0:
                        kept.take(((node, min(excess, kept.on_node(node))),))
                found = kept.find(gpus)
            if found:
                begin(i, found)
                self.backfilled.add(i)
        return starts

    def reserve(self, head, now, free, running):
        later = free.copy()
        gpus = self.jobs[head].gpus
        for end in sorted({self.believed_end(i, now) for i in running}):
            for i, placement in running.items():
                if self.believed_end(i, now) == end:
                    later.give(placement)
            if found := later.find(gpus):
                return end, found
        raise AssertionError("it fits an empty cluster")


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(workload=workloads(exact=False))
def test_every_start_is_that_of_a_plain_scheduler(workload):
    plain = PlainEasy(workload).run()
    result = simulate(Scenario(workload, CLUSTER), "easy")
    assert result.jobs["first_start_time_s"].tolist() == [plain.start[i] for i in range(len(workload))]


@settings(max_examples=40, deadline=None)
@given(workload=workloads(exact=True))
def test_with_exact_estimates_no_head_starts_later_than_was_reserved_for_it(workload):
    plain = PlainEasy(workload).run()
    starts = simulate(Scenario(workload, CLUSTER), "easy").jobs["first_start_time_s"]
    assert all(starts[i] <= promise for i, promise in plain.promises.items())


@settings(max_examples=20, deadline=None)
@given(workload=workloads(exact=True))
def test_jobs_of_one_demand_are_served_as_under_fifo(workload):
    """What is too little for the head is too little for all, and there is nothing to backfill."""
    alike = Workload(tuple(job(j.order, j.submit_time_s, 8, j.duration_s) for j in workload.jobs), {})
    for name in ("easy", "tsafrir_easy", "fair_share"):
        fifo = simulate(Scenario(alike, CLUSTER), "fifo").jobs
        assert (
            simulate(Scenario(alike, CLUSTER), name).jobs["end_time_s"].tolist()
            == fifo["end_time_s"].tolist()
        )


def test_a_short_job_uses_the_reserved_gpus_and_a_long_one_only_what_they_spare():
    jobs = [
        job(0, 0, 4, 100),  # node 0
        job(1, 0, 4, 100),  # node 1
        job(2, 0, 2, 50),  # half of node 2
        job(3, 1, 12, 10),  # the head: everything, from 100 s on
        job(4, 2, 2, 98),  # ends with the others
        job(5, 2, 1, 49),  # the gap is taken until job 2 has ended
    ]
    starts = (
        simulate(Scenario(Workload(tuple(jobs), {}), CLUSTER), "easy").jobs["first_start_time_s"].tolist()
    )
    assert starts == [0, 0, 0, 100, 2, 50]
    one_node = [
        job(0, 0, 4, 100),  # node 0
        job(1, 0, 4, 200),  # node 1
        job(2, 0, 2, 100),  # half of node 2
        job(3, 1, 3, 10),  # the head: three GPUs of node 0, from 100 s on, where one is to spare
        job(4, 2, 2, 1_000),  # the other half of node 2 is free
        job(5, 3, 1, 1_000),  # nothing is free
    ]
    starts = (
        simulate(Scenario(Workload(tuple(one_node), {}), CLUSTER), "easy").jobs["first_start_time_s"].tolist()
    )
    assert starts == [0, 0, 0, 100, 2, 100]


def test_the_reservation_is_about_nodes_and_not_about_numbers():
    """Five GPUs are free in sum from 50 s on, but a gang of four needs a whole node."""
    jobs = [job(0, 0, 3, 300), job(1, 0, 3, 200), job(2, 0, 3, 100), job(3, 1, 4, 10), job(4, 2, 1, 500)]
    starts = (
        simulate(Scenario(Workload(tuple(jobs), {}), CLUSTER), "easy").jobs["first_start_time_s"].tolist()
    )
    # The head gets node 2 at 100 s; the long job goes to node 0 or 1, where the head never looks.
    assert starts == [0, 0, 0, 100, 2]


@pytest.mark.parametrize("name", ["easy", "tsafrir_easy", "fair_share"])
def test_a_stream_of_small_jobs_does_not_starve_a_large_one(name):
    stream = [job(i, 10 * i, 4, 100, user="many") for i in range(400)]
    large = job(400, 100, 12, 50, user="large")
    rows = tuple(sorted([*stream, large], key=lambda row: row.submit_time_s))
    rows = tuple(Job(**{**_fields(row), "order": i}) for i, row in enumerate(rows))
    waited = simulate(Scenario(Workload(rows, {}), CLUSTER), name).jobs.set_index("job_id")["queuing_delay_s"]
    assert waited["j400"] < 500


def _fields(row: Job) -> dict:
    return {name: getattr(row, name) for name in Job.__dataclass_fields__}


class _ForgetsEverything(Easy):
    """Asks a new scheduler at each decision and compares it with one that remembers."""

    def decide(self, snapshot):
        fresh = Easy()
        fresh.prepare(CLUSTER, {})
        theirs = [(start.job, start.placement) for start in fresh.decide(snapshot)]
        mine = super().decide(snapshot)
        assert [(start.job, start.placement) for start in mine] == theirs
        return mine


@settings(max_examples=50, deadline=None)
@given(workload=workloads(exact=False))
def test_what_is_remembered_changes_no_decision(workload):
    simulate(Scenario(workload, CLUSTER), _ForgetsEverything())


class _LosesStarts(Easy):
    """A scheduler whose every third start is refused by the cluster and has to be decided on again."""

    def prepare(self, cluster, largest_job):
        self.count = 0
        return super().prepare(cluster, largest_job)

    def decide(self, snapshot):
        kept = []
        for start in super().decide(snapshot):
            self.count += 1
            if self.count % 3:
                kept.append(start)
        return kept

    def next_change_s(self, pool, now_s):
        return now_s + 5 if len(pool.queue) else None


@settings(max_examples=30, deadline=None)
@given(workload=workloads(exact=False))
def test_a_start_that_did_not_happen_is_decided_on_again(workload):
    result = simulate(Scenario(workload, CLUSTER), _LosesStarts())
    assert len(result.jobs) == len(workload)


@settings(max_examples=50, deadline=None)
@given(
    workload=workloads(exact=False, sizes=(1, 2, 4, 8), users=("a", "b", "c")),
    failures=st.lists(
        st.tuples(st.integers(0, 1_000), st.integers(0, NODES - 1), st.integers(1, 300)), max_size=4
    ),
    shrinks_at=st.none() | st.integers(0, 500),
    data=st.data(),
)
@pytest.mark.parametrize("made", [Easy, TsafrirEasy, FairShare])
def test_failing_nodes_shrinking_clusters_and_cancelled_jobs(made, workload, failures, shrinks_at, data):
    from dataclasses import replace

    withdrawn = {i: data.draw(st.integers(0, 900)) for i in range(0, len(workload), 5)}
    rows = tuple(
        replace(row, cancel_time_s=row.submit_time_s + withdrawn[i], withdrawn=True)
        if i in withdrawn
        else row
        for i, row in enumerate(workload.jobs)
    )
    changes = [NodeFailure(float(at), "vc", node, float(down)) for at, node, down in failures]
    if shrinks_at is not None:
        changes.append(SizeChange(float(shrinks_at), "vc", 2))
    result = simulate(Scenario(replace(workload, jobs=rows), CLUSTER, changes=changes), made())
    assert len(result.jobs) == len(workload)


def view(i: int, submit: int) -> JobView:
    return JobView(job(i, submit, 1, 1), i)


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.booleans(), st.integers(0, 60), st.integers(1, 100), st.integers(1, 100)), max_size=120
    ),
    order=st.sampled_from([BySubmission, ShortestFirst]),
)
def test_the_first_short_job_is_found_whatever_came_and_went(steps, order):
    queue, plain, views = order(), {}, [view(i, i // 3) for i in range(61)]
    for add, i, belief, limit in steps:
        if add and views[i] not in plain:
            plain[views[i]] = float(belief)
            queue.add(views[i], float(belief))
        elif not add:
            plain.pop(views[i], None)
            queue.discard(views[i])
        assert len(queue) == len(plain)
        short = [v for v, length in plain.items() if length <= limit]
        expected = min(short, key=queue.order, default=None)
        assert queue.first(float(limit)) is expected
        assert queue.first() is min(plain, key=queue.order, default=None)


def test_the_mean_of_the_last_two_orders_the_gaps():
    """A user whose jobs were short goes first; a prediction never exceeds the request."""
    past = [job(0, 0, 1, 10, 5_000, "short"), job(1, 0, 1, 900, 5_000, "long")]
    busy = [job(2, 1_000, 8, 400, 400, "x"), job(3, 1_001, 12, 100, 100, "x")]
    queue = [job(4, 1_002, 4, 300, 5_000, "long"), job(5, 1_003, 4, 10, 5_000, "short")]
    rows = Workload((*past, *busy, *queue), {})
    starts = simulate(Scenario(rows, CLUSTER), "tsafrir_easy").jobs["first_start_time_s"].tolist()
    # By the requests neither may start before the head; by history only the short one.
    assert starts[4:] == [1_500, 1_003]
    assert simulate(Scenario(rows, CLUSTER), "easy").jobs["first_start_time_s"].tolist()[4:] == [1_500, 1_500]
    capped = simulate(Scenario(rows.with_estimates(np.array([1.0] * 6)), CLUSTER), "tsafrir_easy")
    assert capped.jobs["first_start_time_s"].iloc[4] == 1_002


def test_a_prediction_is_corrected_step_by_step():
    policy = TsafrirEasy()
    seen, belief = [], 100.0
    unknown = JobView(Job("j", "vc", "u", 1, 0.0, 1.0), 0)
    for times in range(13):
        belief = policy._corrected_s(unknown, belief, times)
        seen.append(belief - 100)
    minutes = [1, 5, 15, 30, 60, 120, 300, 600, 1_200, 3_000, 6_000]
    assert seen == [*(60 * m for m in minutes), 60 * 9_000, 60 * 12_000]
    asked = JobView(job(0, 0, 1, 1, estimate=250), 0)
    assert policy._corrected_s(asked, 160.0, 1) == 250  # up to the request first
    assert policy._corrected_s(asked, 250.0, 2) == 850


def test_predictions_without_a_cap_conform():
    assert list(check_policy(lambda: load_policy("tsafrir_easy", {"capped": False}), "tsafrir_easy"))
