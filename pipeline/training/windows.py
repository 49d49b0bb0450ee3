"""Which days teach and which days judge: the one split that training, validation and the DAGs share."""

from datetime import UTC, datetime, time, timedelta

from cluster_logs.busy_days import BusyDays
from cluster_logs.lake import Lake
from foundation.errors import BadInputError, NotFoundError

DEFAULT_HOLD_OUT_DAYS = 14
LONGEST_HOLD_OUT_DAYS = 3_650
# What tells when a cluster's log begins and ends: the first of these tables that it has, by this column.
_TIMES_OF_TABLES = {
    "jobs": "submit_time",
    "throughput": "bin_start",
    "node_states": "time",
    "inference_load": "time",
}


def submission_span(lake_uri: str, cluster: str, as_of: datetime | None = None) -> tuple[datetime, datetime]:
    """The first and the last submission of a cluster's jobs (UTC), as if the log ended at `as_of`.

    A cluster without jobs spans its published throughput, else its counts of nodes, else its load of
    inference servers. Two days are read, not the whole table. Raises NotFoundError when the lake has none of
    them, BadInputError when `as_of` lies before the first.
    """
    lake = Lake(lake_uri)
    spans = (_span(lake, cluster, table, column) for table, column in _TIMES_OF_TABLES.items())
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
    return BusyDays(next((days for table in _TIMES_OF_TABLES if (days := lake.dates(cluster, table))), []))


def only_cluster(lake_uri: str) -> str:
    """Return the one cluster that the lake has jobs of.

    Raises NotFoundError when it has none, BadInputError when it has several.
    """
    clusters = Lake(lake_uri).clusters()
    if not clusters:
        raise NotFoundError(
            f"The lake {lake_uri} has no jobs of any cluster.",
            remedy="`lucid ingest`, or the DAG ingest_logs, fills it.",
        )
    if len(clusters) > 1:
        raise BadInputError(
            f"The lake {lake_uri} has several clusters: {', '.join(clusters)}.", remedy="Name one: --cluster."
        )
    return clusters[0]


def _span(lake: Lake, cluster: str, table: str, column: str) -> tuple[datetime, datetime] | None:
    """Return the first and the last time of a table, read of its first and last day; None: it is empty."""
    days = lake.dates(cluster, table)
    if not days:
        return None
    read = getattr(lake, f"read_{table}")
    first, last = (
        read(cluster, midnight, midnight + timedelta(days=1))[column]
        for midnight in (datetime.combine(day, time(), UTC) for day in (days[0], days[-1]))
    )
    return first.min().to_pydatetime(), last.max().to_pydatetime()


def read_time(text: str | None) -> datetime | None:
    """Read an ISO day or time, naive unless it names a zone; nothing stays nothing."""
    if not text:
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise BadInputError(
            f"{text!r} is not a date or time.", remedy="Write it as 2017-12-01 or 2017-12-01T08:00:00."
        ) from error


def read_as_of(text: str | None) -> datetime | None:
    """Read an ISO day or time, UTC unless it says otherwise, or the word `now`; nothing stays nothing."""
    if text == "now":
        return datetime.now(UTC)
    instant = read_time(text)
    return instant if instant is None or instant.tzinfo else instant.replace(tzinfo=UTC)


def training_window_end(
    lake_uri: str, cluster: str, hold_out_days: int, as_of: datetime | None = None
) -> datetime:
    """When training must stop learning so that the last `hold_out_days` of the log stay unseen (UTC); days
    without a job do not count.

    `as_of` ends the log earlier than its last submission, which makes a run repeatable while the log grows.
    Raises BadInputError when nothing would be left to learn from, NotFoundError when the lake has no jobs.
    """
    if isinstance(hold_out_days, bool) or not 1 <= hold_out_days <= LONGEST_HOLD_OUT_DAYS:
        raise BadInputError(
            f"A hold-out of {hold_out_days!r} days.", remedy=f"Use 1 to {LONGEST_HOLD_OUT_DAYS} days."
        )
    first, last = submission_span(lake_uri, cluster, as_of)
    until = busy_days(lake_uri, cluster).before(last, hold_out_days)
    if until <= first:
        raise BadInputError(
            f"Holding out {hold_out_days} days with jobs leaves nothing to learn from: {cluster!r} has jobs "
            f"submitted from {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} UTC.",
            remedy="Hold out fewer days, or ingest more of the log.",
        )
    return until
