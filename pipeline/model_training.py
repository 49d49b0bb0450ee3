"""Train one model by name: what the DAG `retrain_models` maps its three tasks to."""

from datetime import UTC, datetime, timedelta
from typing import Any

from cluster_logs.errors import BadInputError, UnknownNameError
from pipeline.plain_values import plain

MODELS = ("packing", "throughput", "duration")


def training_until(lake_uri: str, cluster: str, hold_out_days: int, as_of: str | None = None) -> datetime:
    """Return when training must stop: `hold_out_days` before `as_of`, or before the last submission.

    `as_of` (ISO day or time, UTC unless it says otherwise) makes a run repeatable while the log grows.
    Raises BadInputError for a time that cannot be read or leaves nothing to learn from.
    """
    from pipeline.windows import submission_span, training_window_end

    if not as_of:
        return training_window_end(lake_uri, cluster, hold_out_days)
    try:
        end = datetime.fromisoformat(as_of)
    except ValueError as error:
        raise BadInputError(f"as_of {as_of!r} is no time.", remedy="Write it as 2017-12-01.") from error
    until = (end if end.tzinfo else end.replace(tzinfo=UTC)) - timedelta(days=hold_out_days)
    first, _ = submission_span(lake_uri, cluster)
    if until <= first:
        raise BadInputError(
            f"{hold_out_days} held-out days before {as_of} leave nothing to learn from: the first job of "
            f"{cluster!r} was submitted at {first:%Y-%m-%d %H:%M} UTC.",
            remedy="Hold out fewer days, or choose a later as_of.",
        )
    return until


def train_model(
    *, model: str, cluster: str, lake_uri: str, training_until: str, tracking_uri: str, seed: int = 0
) -> dict[str, Any]:
    """Train `model` on the cluster's tables before `training_until` (ISO time); return its report's values.

    The packing model learns from the cluster's profile tables, which have no time.

    Raises UnknownNameError for another model, NotFoundError when the lake lacks a table.
    """
    from lucid_models import training

    until = datetime.fromisoformat(training_until)
    if model == "packing":
        from pipeline.profile_store import read_profile_set

        profiles = read_profile_set(lake_uri, cluster)
        report: Any = training.train_packing(
            solo=profiles.solo, pairs=profiles.pairs, tracking_uri=tracking_uri, seed=seed
        )
    elif model == "throughput":
        report = training.train_throughput(
            lake_uri=lake_uri, cluster=cluster, tracking_uri=tracking_uri, train_until=until
        )
    elif model == "duration":
        report = training.train_duration(
            lake_uri=lake_uri, cluster=cluster, tracking_uri=tracking_uri, train_until=until
        )
    else:
        raise UnknownNameError("model", model, MODELS)
    result: dict[str, Any] = plain(report)
    return result
