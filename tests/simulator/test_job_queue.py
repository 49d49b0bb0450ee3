"""The queue against a sorted list, with blocks so short that they split and vanish all the time."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator import job_queue
from simulator.job_queue import JobQueue
from simulator.job_view import JobView
from simulator.workload.job import Job

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


@pytest.mark.slow
@given(steps=steps, data=st.data(), newcomers=st.integers(0, 12), moved=st.booleans())
def test_a_queue_in_another_order_is_as_if_filled_anew(steps, data, newcomers, moved):
    queue = JobQueue()
    *_, before = [[], *play(steps, queue)]
    queue.take_newcomers()
    stayed, left = before[::2], before[1::2]
    for job in left:
        queue.remove(job)
    fresh = [view(1_000 + at, 1 + at % 3) for at in range(newcomers)]
    expected = data.draw(st.permutations(stayed + fresh)) if moved else stayed + fresh
    queue.by_gpus()  # what is kept of the order before must not be told any more
    queue.reorder(expected, fresh, sum(job.gpus for job in expected))
    anew = JobQueue()
    for at, job in enumerate(expected):
        anew.add(at, view(job.index, job.gpus))
    assert list(queue) == expected
    assert queue.gpus == anew.gpus
    assert len(queue) == len(anew)
    assert queue.take_newcomers() == fresh
    assert {gpus: [job.index for job in part] for gpus, part in queue.by_gpus().items()} == {
        gpus: [job.index for job in part] for gpus, part in anew.by_gpus().items()
    }
    assert [job for _, _, job in sorted(queue.entries())] == expected
    for job in left:
        with pytest.raises(ValueError, match="not in this queue"):
            queue.remove(job)
    for job in expected:
        queue.remove(job)
    assert not len(queue)


@free_of_fixture
@given(steps=steps, data=st.data())
def test_jobs_that_change_places_are_as_if_filled_anew(steps, data):
    queue = JobQueue()
    *_, before = [[], *play(steps, queue)]
    after = data.draw(st.permutations(before))
    queue.by_gpus()  # what is kept of the order before must not be told any more
    places = [at for at, (one, other) in enumerate(zip(before, after, strict=True)) if one is not other]
    queue.exchange(places, [after[at] for at in places])
    assert list(queue) == after
    assert len(queue) == len(after)
    assert [job for _, _, job in sorted(queue.entries())] == after
    assert [job.queue_entry for job in after] == list(queue.entries())
    assert {gpus: list(part) for gpus, part in queue.by_gpus().items()} == {
        gpus: [job for job in after if job.gpus == gpus] for gpus in {job.gpus for job in after}
    }
    for job in before:
        queue.remove(job)
    assert not len(queue)
    assert queue.gpus == 0
