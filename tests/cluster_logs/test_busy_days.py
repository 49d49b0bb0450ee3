"""Time of a log is counted in days with jobs."""

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_logs.busy_days import BusyDays

WORK = BusyDays([date(2026, 7, 23), *(date(2026, 9, day) for day in (1, 2, 3, 4)), date(2026, 10, 20)])


def at(month: int, day: int, hour: int = 0) -> datetime:
    return datetime(2026, month, day, hour, tzinfo=UTC)


@pytest.mark.parametrize(
    ("end", "days", "start"),
    [
        (at(9, 4, 12), 1, at(9, 3, 12)),
        (at(9, 2, 6), 2, at(7, 23, 6)),
        (at(10, 20, 6), 1, at(9, 4, 6)),
        (at(10, 20, 6), 0.5, at(9, 4, 18)),
        (at(9, 20), 1, at(9, 4)),  # between two days with jobs no time passes
        (at(7, 23, 6), 2, at(7, 21, 6)),
        (at(10, 22), 1, at(10, 21)),
    ],
)
def test_days_before_a_moment(end: datetime, days: float, start: datetime) -> None:
    assert WORK.before(end, days) == start


def test_a_log_without_days_counts_all() -> None:
    assert BusyDays([]).before(at(9, 4), 2.5) == at(9, 4) - timedelta(days=2.5)
    assert BusyDays([]).between(at(9, 1), at(9, 4)) == 3


@given(st.lists(st.integers(0, 60), min_size=1), st.floats(0, 90), st.integers(0, 70))
def test_after_and_between_undo_before(numbers: list[int], start: float, days: int) -> None:
    log = BusyDays(date(2026, 1, 1) + timedelta(days=number) for number in numbers)
    moment = log.after(datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=start), 0)
    assert log.before(log.after(moment, days), days) == moment
    assert log.between(moment, log.after(moment, days)) == pytest.approx(days)


@given(st.floats(-90, 90), st.floats(0, 90))
def test_a_log_with_jobs_every_day_counts_calendar_days(start: float, days: float) -> None:
    log = BusyDays(date(2026, 1, 1) + timedelta(days=number) for number in range(20))
    moment = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=start)
    assert log.after(moment, days) == moment + timedelta(days=days)
