"""The queue against a sorted list, with blocks so short that they split and vanish all the time."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator import job_queue
from simulator.job_queue import JobQueue
from simulator.snapshot import JobView
from simulator.workload import Job

steps = st.lists(
    st.tuples(st.booleans(), st.integers(0, 9), st.sampled_from([1, 2, 4, 8]), st.integers(0, 1_000)),
    max_size=80,
)


@pytest.fixture(autouse=True, params=[2, 5, 1_024])
def block(request, monkeypatch):
    monkeypatch.setattr(job_queue, "BLOCK", request.param)


def view(index, gpus=1):
    return JobView(Job(f"j{index}", "vc", None, gpus, 0.0, 1.0), index)


def play(steps, queue):
    """Add and remove jobs; yield the jobs that wait, in order, after each step."""
    waiting = []  # (priority, arrival, job)
    for number, (adds, priority, gpus, choice) in enumerate(steps):
        if adds or not waiting:
            job = view(number, gpus)
            queue.add(priority, job)
            waiting.append((priority, number, job))
        else:
            _, _, job = waiting.pop(choice % len(waiting))
            queue.remove(job)
        waiting.sort(key=lambda entry: entry[:2])
        yield [job for _, _, job in waiting]


# The fixture only sets how long blocks are, which no example changes.
free_of_fixture = settings(max_examples=60, deadline=None, suppress_health_check=["function_scoped_fixture"])


@free_of_fixture
@given(steps=steps)
def test_is_sorted_by_priority_then_arrival(steps):
    queue = JobQueue()
    for waiting in play(steps, queue):
        assert list(queue) == waiting
        assert len(queue) == len(waiting)
        assert queue.gpus == sum(job.gpus for job in waiting)
        if waiting:
            assert queue.first is waiting[0]


@free_of_fixture
@given(steps=steps, since=st.integers(0, 80))
def test_parts_by_demand_are_kept_from_the_first_question_on(steps, since):
    queue = JobQueue()
    for number, waiting in enumerate(play(steps, queue)):
        if number < since:
            continue
        parts = queue.by_gpus()
        assert {gpus: list(part) for gpus, part in parts.items()} == {
            gpus: [job for job in waiting if job.gpus == gpus] for gpus in {job.gpus for job in waiting}
        }


@free_of_fixture
@given(steps=steps, refusals=st.lists(st.booleans(), max_size=80))
def test_a_walk_leaves_out_what_is_too_large(steps, refusals):
    queue = JobQueue()
    waiting = []
    for waiting in play(steps, queue):  # noqa: B007
        pass
    expected, below = [], float("inf")
    answers = iter(refusals)
    for job in waiting:
        if job.gpus < below:
            expected.append(job)
            if next(answers, False):
                below = job.gpus
    seen = []
    answers = iter(refusals)
    walk = queue.walk()
    for _, _, job in walk:
        seen.append(job)
        if next(answers, False):
            walk.below = job.gpus
    assert seen == expected


def test_newcomers_are_told_once():
    queue = JobQueue()
    first, second, third = (view(i) for i in range(3))
    queue.add(1, first)
    assert queue.take_newcomers() == [first]
    queue.add(2, second)
    queue.add(0, third)
    queue.remove(second)
    assert queue.take_newcomers() == [second, third]
    assert queue.take_newcomers() == []


def test_a_job_that_is_not_here_cannot_be_taken_out():
    queue, other = JobQueue(), JobQueue()
    job = view(0)
    with pytest.raises(ValueError, match="not in this queue"):
        queue.remove(job)
    other.add(1, job)
    with pytest.raises(ValueError, match="not in this queue"):
        queue.remove(job)
    assert list(other) == [job]
