"""What travels with an asset event from one DAG to the next: names, URIs and small numbers, never data."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from foundation.errors import BadInputError, NotAllowedError

HANDED_ON = "announced"  # in a run's conf: what the run before it has left
REST_KEY = "rest"  # the XCom of what this run leaves
REQUEST_REST = "request_rest"  # the task that hands it on
STARTED_BY = "started_by"  # in an event's extra: who triggered the runs that led to it, by name


def take_first(context: Any, announced: Sequence[Mapping[str, Any]], *identity: str) -> list[dict[str, Any]]:
    """Return what was announced of the first thing, the newest last; the rest is left to the next run.

    Airflow starts one run for all events that came before it, and one run is about one cluster, or about what
    else `identity` names: `RequestRestOperator` hands on what is left, in its order.
    """
    first = [announced[0].get(name) for name in identity] if announced else []
    mine = [dict(each) for each in announced if [each.get(name) for name in identity] == first]
    rest = [dict(each) for each in announced if [each.get(name) for name in identity] != first]
    if "ti" in context:
        context["ti"].xcom_push(key=REST_KEY, value=rest)
    return mine


def announcements(context: Any) -> list[dict[str, Any]]:
    """Return what this run was told, the newest last: by the run that handed on to it, else by the events
    that started it. What several assets were told alike is told once.

    Raises NotAllowedError for an event that a person made by hand, through Airflow's API: it would have the
    pipeline act in nobody's name, and people start runs by their forms.
    """
    handed_on = (getattr(context["dag_run"], "conf", None) or {}).get(HANDED_ON)
    if handed_on:
        if not isinstance(handed_on, list) or not all(isinstance(each, dict) for each in handed_on):
            raise BadInputError(
                f"The run's conf has {HANDED_ON} = {handed_on!r}, not a list of objects.",
                remedy="Leave it out.",
            )
        return [dict(each) for each in handed_on]
    triggering = context.get("triggering_asset_events") or {}
    events = [event for each in triggering.values() for event in each]
    if any((event.extra or {}).get("from_rest_api") for event in events):
        raise NotAllowedError(
            "This run was started by an asset event that a person made by hand.",
            remedy="Trigger the DAG itself: its form says what it is about, and the run who asked.",
        )
    told = [dict(event.extra or {}) for event in sorted(events, key=lambda event: event.timestamp)]
    return [extra for at, extra in enumerate(told) if extra not in told[at + 1 :]]


def announce(context: Any, extra: Mapping[str, Any]) -> None:
    """Give every outlet's event of the running task this extra, and who started what led to it."""
    people = started_by(context, extra.get("cluster"))
    for outlet in context["task"].outlets:
        context["outlet_events"][outlet].extra = {**extra, **({STARTED_BY: people} if people else {})}


def person_of(context: Any) -> str | None:
    """Return who triggered a run, by the name of the login; None: the pipeline did.

    A run that one hands on to has its person: Airflow lets it inherit the name.
    """
    name = getattr((context or {}).get("dag_run"), "triggering_user_name", None)
    return str(name) if name else None


def started_by(context: Any, cluster: str | None = None) -> list[str]:
    """Return who triggered this run, or one of those that led to it by events about a cluster."""
    run = (context or {}).get("dag_run")
    handed_on = (getattr(run, "conf", None) or {}).get(HANDED_ON) or []
    triggering = (context or {}).get("triggering_asset_events") or {}
    extras = [*handed_on, *(event.extra or {} for events in triggering.values() for event in events)]
    names = {
        str(name)
        for extra in extras
        if isinstance(extra, Mapping) and extra.get("cluster") in (None, cluster)
        for name in extra.get(STARTED_BY) or ()
    }
    person = person_of(context)
    return sorted(names | ({person} if person else set()))


def data_interval(context: Any) -> tuple[datetime | None, datetime | None]:
    """Return the interval that a run by the clock is about; None and None for a run by hand.

    Airflow gives a run by hand the interval before, too, which was not asked for.
    """
    run = context["dag_run"]
    start, end = getattr(run, "data_interval_start", None), getattr(run, "data_interval_end", None)
    if getattr(run, "run_type", None) == "manual" or not start or not end or start >= end:
        return None, None
    return start, end
