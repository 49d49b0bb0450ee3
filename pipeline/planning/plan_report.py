"""A plan as one value: what its JSON, its page and its CSV files say."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from foundation.jsonable import to_jsonable
from pipeline.planning.capacity_plan import CapacityPlan, PlanSettings
from pipeline.planning.planned_log import PlannedLog
from pipeline.planning.planned_part import planned_parts
from simulator.wait_fidelity.grade import WaitGrade

# Columns of the tables for people, those that no row has left out.
SHOWN = (
    "nodes",
    "variant",
    "mean_wait_s",
    "p50_wait_s",
    "p95_wait_s",
    "p99_wait_s",
    "low",
    "high",
    "kwh",
    "cost",
)


@dataclass(frozen=True)
class CapacityReport:
    """The plan of a log named `name`, and how many replays it took (`reused`: of earlier plans).

    `grade`: how far a replay of the cluster as it is, under its site's order, is like the log.
    """

    name: str
    log: PlannedLog
    settings: PlanSettings
    plan: CapacityPlan
    replays: int
    reused: int
    grade: WaitGrade | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON has it."""
        settings, log = self.settings, self.log
        return {
            "name": self.name,
            "policy": settings.run.policy,
            "settings": dict(settings.run.settings),
            "metric": settings.target.metric,
            "limit_s": settings.target.limit_s,
            "from": log.origin.isoformat(),
            "days": log.days,
            "jobs": len(log.jobs),
            "present_nodes": sum(log.present.values()),
            "gpus_per_node": log.gpus_per_node,
            "confidence_pct": settings.resampling.confidence_pct,
            "block_days": settings.resampling.block_days,
            "questions": [each.to_dict() for each in self.plan.answers],
            "front": [dict(row) for row in self.plan.front],
            "rows": [dict(row) for row in self.plan.rows],
            "monotone": self.plan.monotone,
            "replays": self.replays,
            "reused": self.reused,
            "remarks": list(self.plan.remarks),
            "grade": None if self.grade is None else to_jsonable(self.grade.to_data()),
        }


def shown_columns(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the columns of SHOWN and of parts that some row has a value for."""
    names = (*SHOWN, *(name for part in planned_parts() for name in part.columns))
    return [name for name in names if any(row.get(name) is not None for row in rows)]
