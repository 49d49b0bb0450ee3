"""A plan's questions from a flat form, as Airflow's; empty fields are left out."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from foundation.errors import check_names
from pipeline.planning.capacity_plan import PlanSettings
from pipeline.planning.log_request import LogRequest
from pipeline.planning.plan_rows import Prices
from pipeline.planning.planned_part import planned_parts
from pipeline.planning.planned_run import PlannedRun
from pipeline.planning.planner import policy_of_release
from pipeline.planning.wait_target import Resampling, WaitTarget
from simulator.energy import EnergySettings

_ENERGY = tuple(field.name for field in fields(EnergySettings))
_FIELDS = (
    *("policy", "settings", "metric", "limit_s", "points", "by_virtual_cluster"),
    *("block_days", "node_day_price", "seed"),
    *_ENERGY,
)


def log_of_form(values: Mapping[str, Any], *, cluster: str, lake_uri: str) -> LogRequest:
    """Return which log is planned for: the file that the form names, else the cluster's in the lake."""
    stated = {name: value for name, value in values.items() if value not in (None, "")}
    own = [field.name for field in fields(LogRequest) if field.name != "of_parts"]
    of_parts = [name for part in planned_parts() for name in part.log_fields]
    check_names("field of a log to plan for", stated, [*own, *of_parts])
    beside = {name: stated.pop(name) for name in of_parts if name in stated}
    if "jobs" not in stated:
        stated = {name: stated[name] for name in ("start", "end", "rules") if name in stated}
        return LogRequest(cluster=cluster, lake_uri=lake_uri, **stated, of_parts=beside)
    return LogRequest(**stated, of_parts=beside)


def settings_of_form(values: Mapping[str, Any], *, cluster: str, tracking_uri: str) -> PlanSettings:
    """Return what a form asks; without a policy that of the cluster's champion, else FIFO.

    Raises UnknownNameError for a field or a name that does not exist, BadInputError for a bad value.
    """
    stated = {name: value for name, value in values.items() if value not in (None, "", {}, [])}
    parts = planned_parts()
    check_names("field of a plan", stated, [*_FIELDS, *(name for part in parts for name in part.fields)])
    seed = int(stated.get("seed", 0))
    run = (
        PlannedRun(str(stated["policy"])) if "policy" in stated else policy_of_release(tracking_uri, cluster)
    )
    of_parts = {name: value for part in parts for name, value in part.run_settings(stated).items()}
    run = replace(run, settings={**run.settings, **of_parts, **stated.get("settings", {})}, seed=seed)
    energy = EnergySettings(**{name: float(stated[name]) for name in _ENERGY if name in stated})
    return PlanSettings(
        run,
        WaitTarget(str(stated.get("metric", "p95")), float(stated.get("limit_s", 600.0))),
        Resampling(float(stated.get("block_days", 1.0)), seed=seed),
        Prices(energy, float(stated.get("node_day_price", 0.0))),
        points=int(stated.get("points", 12)),
        by_virtual_cluster=bool(stated.get("by_virtual_cluster", True)),
        asked={part.key: part.of_form(stated) for part in parts},
    )
