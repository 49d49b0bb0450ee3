"""Days of a log that have jobs: what stretches of its time are counted in.

One job far before or after the others (held since spring, or read by `sacct -S` because it ran in the window)
must not make weeks of a log of days, nor a cluster's shutdown a part of what is held out.
"""

from bisect import bisect_left
from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta

_DAY = timedelta(days=1)


class BusyDays:
    """Counts time in UTC days with jobs; days between them do not pass. Before the first and after the last
    one every day counts, and without any all do.
    """

    def __init__(self, days: Iterable[date]) -> None:
        self._days = sorted(set(days))

    def before(self, end: datetime, days: float) -> datetime:
        """The moment from which on `days` lie before `end` (UTC)."""
        return self._moment(self._passed(end) - days * _DAY)

    def after(self, start: datetime, days: float) -> datetime:
        """The moment until which `days` lie after `start` (UTC)."""
        return self._moment(self._passed(start) + days * _DAY)

    def between(self, start: datetime, end: datetime) -> float:
        """How many days lie between two moments."""
        return (self._passed(end) - self._passed(start)) / _DAY

    def _passed(self, moment: datetime) -> timedelta:
        """How much time with jobs lies between the first day and a moment."""
        instant = moment.astimezone(UTC)
        day, midnight = instant.date(), datetime.combine(instant.date(), time(), UTC)
        if not self._days:
            return instant - datetime.combine(date(1970, 1, 1), time(), UTC)
        place = bisect_left(self._days, day)
        if place == len(self._days):
            return (place - 1) * _DAY + (day - self._days[-1]) + (instant - midnight)
        if place == 0:
            return (day - self._days[0]) + (instant - midnight)
        is_busy = self._days[place] == day
        return place * _DAY + (instant - midnight if is_busy else timedelta())

    def _moment(self, passed: timedelta) -> datetime:
        whole, rest = divmod(passed, _DAY)
        if not self._days:
            return datetime.combine(date(1970, 1, 1), time(), UTC) + passed
        inside = min(max(whole, 0), len(self._days) - 1)
        day = datetime.combine(self._days[inside], time(), UTC)
        return day + (whole - inside) * _DAY + rest
