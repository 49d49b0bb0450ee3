"""Which days teach and which days judge: the one split that training, validation and the DAGs share."""

from datetime import UTC, datetime

from cluster_logs.lake import Lake
from cluster_logs.log_span import busy_days, submission_span
from foundation.errors import BadInputError, NotFoundError
from foundation.site import Site

DEFAULT_HOLD_OUT_DAYS = 14
LONGEST_HOLD_OUT_DAYS = 3_650


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


def training_window_end(site: Site, hold_out_days: int, as_of: datetime | None = None) -> datetime:
    """When training must stop learning so that the last `hold_out_days` of the log stay unseen (UTC); days
    without a job do not count.

    `as_of` ends the log earlier than its last submission, which makes a run repeatable while the log grows.
    Raises BadInputError when nothing would be left to learn from, NotFoundError when the lake has no jobs.
    """
    if isinstance(hold_out_days, bool) or not 1 <= hold_out_days <= LONGEST_HOLD_OUT_DAYS:
        raise BadInputError(
            f"A hold-out of {hold_out_days!r} days.", remedy=f"Use 1 to {LONGEST_HOLD_OUT_DAYS} days."
        )
    first, last = submission_span(site.lake, site.cluster, as_of)
    until = busy_days(site.lake, site.cluster).before(last, hold_out_days)
    if until <= first:
        raise BadInputError(
            f"Holding out {hold_out_days} days with jobs leaves nothing to learn from: {site.cluster!r} has "
            f"jobs submitted from {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} UTC.",
            remedy="Hold out fewer days, or ingest more of the log.",
        )
    return until
