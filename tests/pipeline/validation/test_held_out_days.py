"""On which days a release is judged, by what it says of itself."""

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cluster_logs.lake import Lake
from foundation.site import Site
from pipeline.validation import held_out_days
from pipeline.validation.held_out_days import (
    HOLD_OUT_TAG,
    LOG_END_TAG,
    HeldOutDays,
    held_out_as_built,
    record_held_out,
)
from tests.fixtures import small_jobs

# Jobs come on the first five days of April and on the eighth.
DAYS = (1, 2, 3, 4, 5, 8)


class Tags:
    """A registry of one version."""

    def __init__(self) -> None:
        self.tags: dict[str, str] = {}

    def version(self, _name: str, _version: int) -> Any:
        return self

    def set_version_tag(self, _name: str, _version: int, key: str, value: str) -> None:
        self.tags[key] = value


@pytest.fixture
def tags(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    registry = Tags()
    monkeypatch.setattr(held_out_days, "Registry", lambda _uri: registry)
    return registry.tags


def lake(folder: Path, days: tuple[int, ...]) -> str:
    jobs = small_jobs(len(days))
    jobs["submit_time"] = [datetime(2020, 4, day, 12, tzinfo=UTC) for day in days]
    jobs[["start_time", "end_time"]] = None
    Lake(str(folder)).write_jobs("small", jobs)
    return str(folder)


def release(until: datetime) -> Any:
    return SimpleNamespace(
        name="lucid-release-small", version=1, cluster="small", training={"until": until.isoformat()}
    )


def test_a_release_that_counted_days_without_jobs_is_judged_on_the_days_with_jobs(
    tmp_path: Path, tags: dict[str, str]
) -> None:
    lake_uri = lake(tmp_path, DAYS)
    # Five days of the calendar before the log's end; three of them have jobs.
    built = release(datetime(2020, 4, 3, 12, tzinfo=UTC))
    tags[HOLD_OUT_TAG] = "5"
    assert held_out_as_built(Site(lake=lake_uri, registry=""), built) == HeldOutDays(3)
    tags[HOLD_OUT_TAG] = "3"
    assert held_out_as_built(Site(lake=lake_uri, registry=""), built) == HeldOutDays(3)
    tags[HOLD_OUT_TAG] = "2"
    assert held_out_as_built(Site(lake=lake_uri, registry=""), built) == HeldOutDays(
        2, datetime(2020, 4, 5, 12, tzinfo=UTC)
    )


def test_a_release_that_is_built_again_keeps_where_the_log_ended_first(
    tmp_path: Path, tags: dict[str, str]
) -> None:
    built = release(datetime(2020, 4, 3, 12, tzinfo=UTC))
    record_held_out(Site(lake=lake(tmp_path / "then", DAYS[:5]), registry=""), built, 2)
    record_held_out(Site(lake=lake(tmp_path / "now", DAYS), registry=""), built, 2)
    assert tags[LOG_END_TAG] == datetime(2020, 4, 5, 12, tzinfo=UTC).isoformat()
