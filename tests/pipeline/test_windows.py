"""The split into days that teach and days that judge."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pandas as pd
import pytest

from cluster_logs.errors import BadInputError, NotFoundError
from cluster_logs.lake import Lake
from pipeline.windows import submission_span, training_window_end

FIRST = datetime(2020, 5, 1, 23, 59, 59, 250_000, tzinfo=UTC)
LAST = datetime(2020, 5, 20, 0, 0, 1, tzinfo=UTC)


@pytest.fixture
def lake_uri(tmp_path: Path) -> str:
    times = [FIRST, datetime(2020, 5, 10, 12, tzinfo=UTC), LAST]
    jobs = pd.DataFrame(
        {
            "job_id": ["a", "b", "c"],
            "virtual_cluster": "v",
            "gpus": 1,
            "gpu_share": 1.0,
            "submit_time": times,
            "duration_s": 60.0,
            "service_s": 60.0,
            "source_file": "jobs.csv",
            "source_row": [1, 2, 3],
        }
    )
    Lake(str(tmp_path)).write_jobs("venus", jobs)
    return str(tmp_path)


def test_the_hold_out_ends_at_the_last_submission(lake_uri: str) -> None:
    assert submission_span(lake_uri, "venus") == (FIRST, LAST)
    assert training_window_end(lake_uri, "venus", 14) == LAST - timedelta(days=14)


@pytest.mark.parametrize("days", [0, -3, 10_000, True])
def test_a_hold_out_out_of_range_is_named(lake_uri: str, days: int) -> None:
    with pytest.raises(BadInputError, match=rf"{days!r} days"):
        training_window_end(lake_uri, "venus", days)


def test_a_hold_out_that_leaves_nothing_is_refused_with_the_logs_span(lake_uri: str) -> None:
    with pytest.raises(BadInputError, match=r"19 days leaves nothing.*2020-05-01 23:59 to 2020-05-20 00:00"):
        training_window_end(lake_uri, "venus", 19)


def test_an_empty_lake_says_how_to_fill_it(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"'venus'.*lucid ingest"):
        training_window_end(str(tmp_path), "venus", 14)
