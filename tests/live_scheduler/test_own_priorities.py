"""Which numbers of a queue Slurm itself has given, where it only counts down (priority/basic)."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from live_scheduler.cluster_state import LiveJob
from live_scheduler.slurm.own_priorities import FIRST, OwnPriorities


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> OwnPriorities:
    monkeypatch.setattr(
        "live_scheduler.slurm.own_priorities.call", lambda *_, **__: "PriorityType = priority/basic"
    )
    return OwnPriorities()


def of(own: OwnPriorities, jobs: Sequence[LiveJob]) -> dict[str, bool]:
    own.follow(jobs)
    return dict(own.of(jobs, {}, 1.0))


def queue(*numbers: int, **nice: int) -> list[LiveJob]:
    return [
        LiveJob(f"j{at}", "vc1", "vc1", 1, 0.0, priority=number, nice=nice.get(f"j{at}", 0))
        for at, number in enumerate(numbers)
    ]


def test_a_number_just_below_all_before_is_the_clusters(own: OwnPriorities) -> None:
    of(own, queue(FIRST - 1, FIRST - 2, FIRST - 3, 4711))
    released = queue(FIRST - 4, FIRST - 5, 4_294_950_000, 4711)
    assert of(own, released) == {"j0": True, "j1": True, "j2": False, "j3": False}
    assert of(own, released) == {"j0": True, "j1": True, "j2": False, "j3": False}, "and stays so"
    assert of(own, queue(FIRST - 2, FIRST - 5)) == {"j0": False, "j1": True}


def test_a_nice_value_does_not_move_the_count(own: OwnPriorities) -> None:
    of(own, queue(FIRST - 1, FIRST - 2 - 100, j1=100))
    assert of(own, queue(FIRST - 3, FIRST - 2 - 100, j1=100))["j0"]
    assert of(own, queue(FIRST - 4 - 70, FIRST - 2 - 100, j0=70, j1=100))["j0"]


def test_what_the_backfill_writes_back_of_a_computed_number_is_the_clusters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = {
        "scontrol": "PriorityType = priority/multifactor",
        "sprio": "1|0|0|0|0|0|0|0\n2|0|0|0|0|0|0|0\n",
    }
    monkeypatch.setattr("live_scheduler.slurm.own_priorities.call", lambda command, **_: answers[command[0]])
    own, ids = OwnPriorities(), {"1": "j0", "2": "j1"}
    for numbers in ((50_000, 50_000), (4_294_950_000, 4_294_940_000), (50_300, 4_711)):
        jobs = queue(*numbers)
        own.follow(jobs)
    assert own.of(jobs, ids, 1.0) == {"j0": True, "j1": False}
    task = replace(jobs[0], job_id="j0_2", priority=99)  # it left its array's record with that number
    answers["sprio"] += "3|0|0|0|0|0|0|0\n"
    own.follow([*jobs, task])
    assert own.of([task], {"3": "j0_2"}, 1.0) == {"j0_2": False}
    answers["sprio"] = "1|0|0|0|0|0|0|0\n2|0|900|0|0|0|0|0\n"  # the second was released
    assert own.of(queue(50_300, 60_000), ids, 1.0) == {"j0": True, "j1": True}


def test_before_there_was_a_reading_nothing_is_known_to_be(own: OwnPriorities) -> None:
    assert not any(of(own, queue(FIRST - 1, FIRST - 2)).values())
