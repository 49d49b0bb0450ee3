"""Tests of the inference service: usage as a step function, servers that it needs, refusals."""

import pytest

from foundation.errors import BadInputError
from parts.lending.replay.inference_service import InferenceService


def test_usage_is_a_step_function_that_repeats_after_a_whole_period() -> None:
    once = InferenceService(10, (0.0, 300.0, 600.0), (0.1, 0.5, 0.9))
    assert [once.servers_needed(at_s) for at_s in (-1.0, 0.0, 299.9, 300.0, 5000.0)] == [1, 1, 1, 5, 9]
    again = InferenceService(10, (0.0, 300.0, 600.0), (0.1, 0.5, 0.9), repeats=True)
    assert [again.servers_needed(at_s) for at_s in (899.9, 900.0, 1200.0, -1.0)] == [9, 1, 5, 9]


def test_servers_needed_are_those_of_usage_or_of_what_is_believed_and_not_of_rounding() -> None:
    service = InferenceService(10, (0.0, 300.0), (0.3, 0.31), believed=(0.25, 0.55))
    assert service.servers_needed(0.0) == 3
    assert service.servers_needed(300.0) == 6
    assert InferenceService(100, (0.0,), (0.07,)).servers_needed(0.0) == 7  # 0.07 x 100 is above 7


def test_where_usage_is_known_late_decisions_go_by_what_was_seen_and_load_by_what_is() -> None:
    service = InferenceService(
        10, (0.0, 300.0), (0.3, 0.8), believed=(0.25, 0.55), seen_usage=(0.2, 0.3), repeats=True
    )
    assert [service.servers_needed(at_s) for at_s in (0.0, 300.0)] == [3, 6]
    assert [*service.servers_in_use(0.0, 600.0)] == [(0.0, 3), (300.0, 8)]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"usage": (0.1, 1.2)}, "usage of 'inference' is 1.2"),
        ({"usage": (0.1, float("nan"))}, "is nan"),
        ({"usage": (0.1,)}, "1 usage for 2 times"),
        ({"believed": (0.1,)}, "1 believed for 2 times"),
        ({"seen_usage": (0.1, 1.5)}, "seen_usage of 'inference' is 1.5"),
        ({"times_s": (300.0, 0.0)}, "falling"),
        ({"servers": -1}, "-1 servers"),
        ({"mixed_speed": 0.0}, "speed of 0.0"),
    ],
)
def test_what_makes_no_sense_is_refused(changed: dict[str, object], says: str) -> None:
    with pytest.raises(BadInputError, match=says):
        InferenceService(**{"servers": 10, "times_s": (0.0, 300.0), "usage": (0.1, 0.2), **changed})
