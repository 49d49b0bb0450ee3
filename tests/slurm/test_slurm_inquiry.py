"""Questions to slurmdbd that no pass has to wait for."""

import threading
from collections.abc import Callable

import pytest

from foundation.errors import BadInputError, ServiceUnavailableError
from live_scheduler.slurm.adapter import Inquiry


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def answered(inquiry: Inquiry[str], question: Callable[[], str]) -> str:
    """Ask until there is an answer, whatever was asked before."""
    while True:
        try:
            return inquiry.ask(question)
        except ServiceUnavailableError:
            continue


def test_one_that_answers_at_once_is_asked_anew_each_time() -> None:
    inquiry = Inquiry[str](60.0, 60.0)
    assert [inquiry.ask(lambda number=number: f"{number}") for number in range(3)] == ["0", "1", "2"]


def test_one_that_hangs_keeps_nobody_waiting_and_its_answer_is_kept(clock: Clock) -> None:
    inquiry = Inquiry[str](0.01, 60.0, clock=clock)
    go_on = threading.Event()
    questions: list[str] = []

    def slow() -> str:
        questions.append("slow")
        go_on.wait()
        return "late"

    for _ in range(3):
        with pytest.raises(ServiceUnavailableError, match="not answered yet"):
            inquiry.ask(slow)
    assert questions == ["slow"]
    clock.now_s = 59.0
    go_on.set()
    assert answered(inquiry, lambda: "new") == "late"
    assert answered(inquiry, lambda: "new") == "new"


def test_an_answer_that_came_too_late_is_thrown_away(clock: Clock) -> None:
    inquiry = Inquiry[str](0.01, 60.0, clock=clock)
    go_on = threading.Event()
    with pytest.raises(ServiceUnavailableError):
        inquiry.ask(lambda: str(go_on.wait()))
    clock.now_s = 61.0
    go_on.set()
    assert answered(inquiry, lambda: "new") == "new"


def test_an_error_is_raised_once() -> None:
    inquiry = Inquiry[str](60.0, 60.0)

    def refused() -> str:
        raise BadInputError("no accounts")

    with pytest.raises(BadInputError, match="no accounts"):
        inquiry.ask(refused)
    assert inquiry.ask(lambda: "new") == "new"
