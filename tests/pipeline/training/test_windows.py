"""The split into days that teach and days that judge."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pandas as pd
import pytest

from cluster_logs.lake import Lake
from cluster_logs.log_span import submission_span
from foundation.errors import BadInputError, NotFoundError
from foundation.site import Site
from pipeline.training.windows import read_as_of, training_window_end
from pipeline.validation.held_out_data import held_out_window

FIRST = datetime(2020, 5, 1, 23, 59, 59, 250_000, tzinfo=UTC)
LAST = datetime(2020, 5, 20, 0, 0, 1, tzinfo=UTC)


@pytest.fixture
def lake_uri(tmp_path: Path) -> str:
    times = [FIRST, *(datetime(2020, 5, day, 12, tzinfo=UTC) for day in range(2, 20)), LAST]
    jobs = pd.DataFrame(
        {
            "job_id": [str(row) for row in range(len(times))],
            "virtual_cluster": "v",
            "gpus": 1,
            "gpu_share": 1.0,
            "submit_time": times,
            "duration_s": 60.0,
            "service_s": 60.0,
            "source_file": "jobs.csv",
            "source_row": range(1, len(times) + 1),
        }
    )
    Lake(str(tmp_path)).write_jobs("venus", jobs)
    return str(tmp_path)


def test_the_hold_out_ends_at_the_last_submission(lake_uri: str) -> None:
    assert submission_span(lake_uri, "venus") == (FIRST, LAST)
    assert training_window_end(Site(lake=lake_uri, cluster="venus"), 14) == LAST - timedelta(days=14)


@pytest.mark.parametrize("days", [0, -3, 10_000, True])
def test_a_hold_out_out_of_range_is_named(lake_uri: str, days: int) -> None:
    with pytest.raises(BadInputError, match=rf"{days!r} days"):
        training_window_end(Site(lake=lake_uri, cluster="venus"), days)


def test_a_hold_out_that_leaves_nothing_is_refused_with_the_logs_span(lake_uri: str) -> None:
    with pytest.raises(
        BadInputError, match=r"19 days with jobs leaves nothing.*2020-05-01 23:59 to 2020-05-20 00:00"
    ):
        training_window_end(Site(lake=lake_uri, cluster="venus"), 19)


def test_an_empty_lake_says_how_to_fill_it(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"'venus'.*lucid ingest"):
        training_window_end(Site(lake=str(tmp_path), cluster="venus"), 14)


def test_an_earlier_end_moves_the_split_and_a_later_one_does_not(lake_uri: str) -> None:
    as_of = datetime(2020, 5, 12, tzinfo=UTC)
    assert submission_span(lake_uri, "venus", as_of) == (FIRST, as_of)
    assert training_window_end(Site(lake=lake_uri, cluster="venus"), 7, as_of) == as_of - timedelta(days=7)
    assert submission_span(lake_uri, "venus", LAST + timedelta(days=9)) == (FIRST, LAST)


def test_an_end_before_the_log_is_refused(lake_uri: str) -> None:
    with pytest.raises(BadInputError, match=r"2020-05-01.*has no job"):
        submission_span(lake_uri, "venus", datetime(2020, 5, 1, tzinfo=UTC))


def test_as_of_is_read_as_utc_unless_it_says_otherwise() -> None:
    assert read_as_of("2017-12-01") == datetime(2017, 12, 1, tzinfo=UTC)
    assert read_as_of("2017-12-01T08:00:00+08:00") == datetime(2017, 12, 1, tzinfo=UTC)
    assert read_as_of(None) is None
    with pytest.raises(BadInputError, match="soon"):
        read_as_of("soon")


def test_the_replayed_window_ends_where_the_log_is_taken_to_end(lake_uri: str) -> None:
    as_of = datetime(2020, 5, 12, tzinfo=UTC)
    window = held_out_window(
        Site(lake=lake_uri, cluster="venus"),
        learned_until=as_of - timedelta(days=7),
        hold_out_days=7,
        warm_up_days=1,
        as_of=as_of,
    )
    assert window.start == as_of - timedelta(days=7)
    assert as_of <= window.end < LAST


def test_a_cluster_known_by_its_throughput_alone_spans_its_bins(tmp_path: Path) -> None:
    starts = pd.date_range("2020-04-01", periods=30 * 144, freq="10min", tz="UTC")
    counts = {"submitted_jobs": 1, "submitted_gpu_jobs": 1, "submitted_gpus": 2}
    bins = pd.DataFrame({"bin_start": starts, "bin_s": 600, "origin": "published", **counts})
    Lake(str(tmp_path)).write_throughput("venus", bins)
    assert submission_span(str(tmp_path), "venus") == (starts[0], starts[-1])
    assert training_window_end(Site(lake=str(tmp_path), cluster="venus"), 7) == starts[-1] - timedelta(days=7)


# One job far from the others -----------------------------------------------------------------------------


def submitted(lake_uri: str, times: list[datetime]) -> str:
    jobs = pd.DataFrame({"submit_time": times}).assign(
        job_id=[str(row) for row in range(len(times))],
        virtual_cluster="v",
        gpus=1,
        gpu_share=1.0,
        duration_s=60.0,
        service_s=60.0,
        source_file="jobs.csv",
        source_row=range(1, len(times) + 1),
    )
    Lake(lake_uri).write_jobs("venus", jobs)
    return lake_uri


BULK = [datetime(2026, 9, 1, tzinfo=UTC) + timedelta(hours=hour) for hour in range(96)]
EARLY, LATE = datetime(2026, 7, 23, tzinfo=UTC), datetime(2026, 10, 20, tzinfo=UTC)


def test_one_early_job_leaves_the_hold_out_where_it_was(tmp_path: Path) -> None:
    plain = submitted(f"{tmp_path}/plain", BULK)
    early = submitted(f"{tmp_path}/early", [EARLY, *BULK])
    for days in (1, 3):
        assert training_window_end(Site(lake=early, cluster="venus"), days) == training_window_end(
            Site(lake=plain, cluster="venus"), days
        )


def test_of_a_log_with_one_late_job_the_last_day_with_jobs_is_held_out(tmp_path: Path) -> None:
    lake_uri = submitted(str(tmp_path), [*BULK, LATE])
    until = training_window_end(Site(lake=lake_uri, cluster="venus"), 1)
    assert until == datetime(2026, 9, 4, tzinfo=UTC)
    window = held_out_window(
        Site(lake=lake_uri, cluster="venus"), learned_until=until, hold_out_days=1, warm_up_days=2
    )
    assert (window.warm_up_start, window.start) == (datetime(2026, 9, 2, tzinfo=UTC), until)
    with pytest.raises(BadInputError, match=r"hold out at most 1 days|Hold out at most 1 days"):
        held_out_window(
            Site(lake=lake_uri, cluster="venus"), learned_until=until, hold_out_days=2, warm_up_days=2
        )
