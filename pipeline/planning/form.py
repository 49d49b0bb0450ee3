"""A plan's questions from a flat form, as Airflow's; empty fields are left out."""

from collections.abc import Mapping
from dataclasses import fields, replace
from itertools import product
from typing import Any

from foundation.errors import BadInputError, check_names
from pipeline.planning.capacity_plan import PlanSettings
from pipeline.planning.log_request import LogRequest
from pipeline.planning.plan_rows import Prices
from pipeline.planning.planned_run import PlannedRun
from pipeline.planning.planner import policy_of_release
from pipeline.planning.wait_target import Resampling, WaitTarget
from simulator.node_sleep.energy import EnergySettings

_ENERGY = tuple(field.name for field in fields(EnergySettings))
_FIELDS = (
    *("policy", "settings", "metric", "limit_s", "node_sleep", "points", "by_virtual_cluster"),
    *("block_days", "node_day_price", "seed", "loans", "headroom", "most_short_pct"),
    *_ENERGY,
)


def log_of_form(values: Mapping[str, Any], *, cluster: str, lake_uri: str) -> LogRequest:
    """Return which log is planned for: the file that the form names, else the cluster's in the lake."""
    stated = {name: value for name, value in values.items() if value not in (None, "")}
    field_names = [field.name for field in fields(LogRequest)]
    check_names("field of a log to plan for", stated, field_names)
    if "jobs" not in stated:
        of_cluster = ("start", "end", "rules", "inference", "inference_servers")
        stated = {name: value for name, value in stated.items() if name in of_cluster}
        return LogRequest(cluster=cluster, lake_uri=lake_uri, **stated)
    return LogRequest(**stated)


def settings_of_form(values: Mapping[str, Any], *, cluster: str, tracking_uri: str) -> PlanSettings:
    """Return what a form asks; without a policy that of the cluster's champion, else FIFO.

    Raises UnknownNameError for a field or a name that does not exist, BadInputError for a bad value.
    """
    stated = {name: value for name, value in values.items() if value not in (None, "", {}, [])}
    check_names("field of a plan", stated, _FIELDS)
    seed = int(stated.get("seed", 0))
    run = (
        PlannedRun(str(stated["policy"])) if "policy" in stated else policy_of_release(tracking_uri, cluster)
    )
    headroom = {"headroom": float(stated["headroom"])} if "headroom" in stated else {}
    run = replace(run, settings={**run.settings, **headroom, **stated.get("settings", {})}, seed=seed)
    energy = EnergySettings(**{name: float(stated[name]) for name in _ENERGY if name in stated})
    return PlanSettings(
        run,
        WaitTarget(str(stated.get("metric", "p95")), float(stated.get("limit_s", 600.0))),
        Resampling(float(stated.get("block_days", 1.0)), seed=seed),
        Prices(energy, float(stated.get("node_day_price", 0.0))),
        sleeps=combinations(stated.get("node_sleep", {})),
        points=int(stated.get("points", 12)),
        by_virtual_cluster=bool(stated.get("by_virtual_cluster", True)),
        loans=None if stated.get("loans", True) else False,
        most_short_pct=float(stated.get("most_short_pct", 2.0)),
    )


def combinations(values: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    """Return every combination of settings' values; a value that is no list is the only one."""
    if not isinstance(values, Mapping):
        raise BadInputError(f"{values!r} are no settings.", remedy='Write {"buffer_nodes": [1, 5]}.')
    tried = {name: value if isinstance(value, list | tuple) else [value] for name, value in values.items()}
    return tuple(dict(zip(tried, combined, strict=True)) for combined in product(*tried.values()) if combined)
