"""Which days of the log a pass looks at."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cluster_logs.lake import Lake
from foundation.site import Site
from pipeline.monitoring.data import MonitoredWindow, monitored_window
from pipeline.validation.held_out_days import UnjudgedDays, unjudged_days
from tests.fixtures import small_jobs

UNTIL = datetime(2020, 4, 4, tzinfo=UTC)


def window(lake: Path, unjudged: UnjudgedDays | None, as_of: datetime | None = None) -> MonitoredWindow:
    return monitored_window(
        Site(lake=str(lake), cluster="small"),
        trained_from=None,
        trained_until=UNTIL,
        window_days=7,
        as_of=as_of,
        unjudged=unjudged,
    )


def test_a_new_release_is_not_measured_by_days_that_it_was_built_to_know_nothing_of(tmp_path: Path) -> None:
    """Built on a log of ten days as if it had ended after five, two of them held out."""
    jobs = small_jobs(100)
    Lake(str(tmp_path)).write_jobs("small", jobs)
    last = jobs["submit_time"].max().to_pydatetime()
    tags = {"hold_out_days": "2", "log_end": last.isoformat()}
    unjudged = unjudged_days(tags, UNTIL)
    assert unjudged == UnjudgedDays(UNTIL + timedelta(days=2), last)
    minutes_old = window(tmp_path, unjudged)
    assert (minutes_old.start, minutes_old.end) == (UNTIL, UNTIL + timedelta(days=2))
    by_name = window(tmp_path, unjudged, as_of=datetime(2020, 4, 9, tzinfo=UTC))
    assert (by_name.start, by_name.end) == (UNTIL, datetime(2020, 4, 9, tzinfo=UTC))

    before_the_newest = datetime(2020, 4, 8, tzinfo=UTC)
    grown = window(tmp_path, UnjudgedDays(UNTIL + timedelta(days=2), before_the_newest))
    assert before_the_newest < grown.start < before_the_newest + timedelta(seconds=1)
    assert grown.end == window(tmp_path, None).end > last


def test_a_release_of_the_whole_log_leaves_no_day_out() -> None:
    tags = {"hold_out_days": "2", "log_end": (UNTIL + timedelta(days=1.9)).isoformat()}
    assert unjudged_days(tags, UNTIL) is None
    assert unjudged_days({"hold_out_days": "2"}, UNTIL) is None
