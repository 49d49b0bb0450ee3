"""Which days teach and which days judge: the one split that training, validation and the DAGs share."""

from datetime import datetime, timedelta

from cluster_logs.errors import BadInputError, NotFoundError
from cluster_logs.lake import Lake

LONGEST_HOLD_OUT_DAYS = 3_650


def submission_span(lake_uri: str, cluster: str) -> tuple[datetime, datetime]:
    """The first and the last submission of a cluster's jobs (UTC). Reads two days, not the whole table."""
    lake = Lake(lake_uri)
    days = lake.dates(cluster)
    if not days:
        raise NotFoundError(
            f"The lake {lake_uri} has no jobs of cluster {cluster!r}.",
            remedy="`lucid ingest` or `lucid synthesize` fills it.",
        )
    ends = []
    for day in (days[0], days[-1]):
        midnight = datetime(day.year, day.month, day.day)  # noqa: DTZ001 - the lake reads it as UTC
        times = lake.read_jobs(cluster, midnight, midnight + timedelta(days=1), ["submit_time"])
        ends.append(times["submit_time"])
    first: datetime = ends[0].min().to_pydatetime()
    last: datetime = ends[1].max().to_pydatetime()
    return first, last


def training_window_end(lake_uri: str, cluster: str, hold_out_days: int) -> datetime:
    """When training must stop learning so that `hold_out_days` before the last submission stay unseen (UTC).

    Raises BadInputError when nothing would be left to learn from, NotFoundError when the lake has no jobs.
    """
    if isinstance(hold_out_days, bool) or not 1 <= hold_out_days <= LONGEST_HOLD_OUT_DAYS:
        raise BadInputError(
            f"A hold-out of {hold_out_days!r} days.", remedy=f"Use 1 to {LONGEST_HOLD_OUT_DAYS} days."
        )
    first, last = submission_span(lake_uri, cluster)
    until = last - timedelta(days=hold_out_days)
    if until <= first:
        raise BadInputError(
            f"Holding out {hold_out_days} days leaves nothing to learn from: {cluster!r} has jobs submitted "
            f"from {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} UTC.",
            remedy="Hold out fewer days, or ingest more of the log.",
        )
    return until
