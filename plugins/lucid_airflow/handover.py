"""What travels with an asset event from one DAG to the next: names, URIs and small numbers, never data."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from cluster_logs.errors import BadInputError


def newest_event_extra(context: Any, asset: Any) -> dict[str, Any]:
    """Return the extra of the newest event that started this run; empty for a run by hand or by the clock.

    `asset`: the one whose events count, or several of them.
    """
    return (event_extras(context, asset) or [{}])[-1]


def event_extras(context: Any, asset: Any) -> list[dict[str, Any]]:
    """Return the extras of all events of these assets that started this run, the newest last."""
    found = context["triggering_asset_events"]
    assets = asset if isinstance(asset, Sequence) else [asset]
    events = [event for each in assets for event in found.get(each) or []]
    return [dict(event.extra or {}) for event in sorted(events, key=lambda event: event.timestamp)]


def announce(context: Any, extra: Mapping[str, Any]) -> None:
    """Give every outlet's event of the running task this extra."""
    for outlet in context["task"].outlets:
        context["outlet_events"][outlet].extra = dict(extra)


def data_interval(context: Any) -> tuple[datetime | None, datetime | None]:
    """Return the interval that a run by the clock is about; None and None for a run by hand.

    Airflow gives a run by hand the interval before, too, which nobody asked for.
    """
    run = context["dag_run"]
    start, end = run.data_interval_start, run.data_interval_end
    if getattr(run, "run_type", None) == "manual" or not start or not end or start >= end:
        return None, None
    return start, end


def required(values: Mapping[str, Any], name: str, *, asset_name: str) -> Any:
    """Return a value that the event or the form must give.

    Raises BadInputError that says where to fill it in.
    """
    value = values.get(name)
    if value in (None, ""):
        raise BadInputError(
            f"No {name!r}: neither the form nor an event of asset {asset_name!r} names one.",
            remedy=f"Trigger the DAG with the parameter {name!r}.",
        )
    return value
