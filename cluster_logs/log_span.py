"""When the log of a cluster of the lake begins and ends, and which days have jobs."""

from datetime import UTC, datetime, time, timedelta
from functools import partial

from cluster_logs.busy_days import BusyDays
from cluster_logs.day_tables import day_tables
from cluster_logs.lake import Lake
from foundation.errors import BadInputError, NotFoundError

# What tells when a cluster's log begins and ends: the first of these tables that it has, by this column.
_TIMES_OF_TABLES = {
    "jobs": "submit_time",
    "throughput": "bin_start",
    "node_states": "time",
}


def _times_of_tables() -> dict[str, str]:
    return {**_TIMES_OF_TABLES, **{name: table.time for name, table in day_tables().items()}}


def submission_span(lake_uri: str, cluster: str, as_of: datetime | None = None) -> tuple[datetime, datetime]:
    """The first and the last submission of a cluster's jobs (UTC), as if the log ended at `as_of`.

    A cluster without jobs spans its published throughput, else its counts of nodes, else what tables of
    parts hold. Two days are read, not the whole table. Raises NotFoundError when the lake has none of
    them, BadInputError when `as_of` lies before the first.
    """
    lake = Lake(lake_uri)
    spans = (_span(lake, cluster, table, column) for table, column in _times_of_tables().items())
    span = next((span for span in spans if span is not None), None)
    if span is None:
        raise NotFoundError(
            f"The lake {lake_uri} has no jobs of cluster {cluster!r}.",
            remedy="`lucid ingest` or `lucid synthesize` fills it.",
        )
    first, last = span
    if as_of is None or as_of > last:
        return first, last
    if as_of <= first:
        raise BadInputError(
            f"As of {as_of:%Y-%m-%d %H:%M}, {cluster!r} has no job: its first was submitted at "
            f"{first:%Y-%m-%d %H:%M} UTC.",
            remedy="Choose a later time.",
        )
    return first, as_of


def busy_days(lake_uri: str, cluster: str) -> BusyDays:
    """The days that a cluster's log has jobs of, or what else tells its span (`submission_span`)."""
    lake = Lake(lake_uri)
    return BusyDays(next((days for table in _times_of_tables() if (days := lake.dates(cluster, table))), []))


def _span(lake: Lake, cluster: str, table: str, column: str) -> tuple[datetime, datetime] | None:
    """Return the first and the last time of a table, read of its first and last day; None: it is empty."""
    days = lake.dates(cluster, table)
    if not days:
        return None
    read = getattr(lake, f"read_{table}") if table in _TIMES_OF_TABLES else partial(lake.read_series, table)
    first, last = (
        read(cluster, midnight, midnight + timedelta(days=1))[column]
        for midnight in (datetime.combine(day, time(), UTC) for day in (days[0], days[-1]))
    )
    return first.min().to_pydatetime(), last.max().to_pydatetime()
