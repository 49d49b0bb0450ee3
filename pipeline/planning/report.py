"""A plan as one value: what its JSON, its page and its CSV files say."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from foundation.csv_files import csv_text
from foundation.html_pages import render_page
from foundation.human_times import human_duration
from foundation.jsonable import to_jsonable
from foundation.process_lock import scratch_folder
from foundation.themed_pictures import DARK, LIGHT
from lucid_models.registry import Registry
from pipeline.kept_reports import write_report_files
from pipeline.planning.capacity_plan import CapacityPlan, PlanSettings
from pipeline.planning.pictures import draw_plan
from pipeline.planning.planned_log import PlannedLog
from pipeline.planning.planned_part import planned_parts
from pipeline.studies.store import metric_name
from simulator.wait_fidelity.grade import WaitGrade
from simulator.wait_fidelity.tables import grade_parts

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


_PACKAGE = "pipeline.planning"
REPORT_FILE = "plan.json"
_TITLES = {
    "waits": "Waits against nodes, with intervals; dotted: the limit",
    "energy": "Waits against energy; large: on the front",
    "virtual_clusters": "Virtual clusters, each with its own limit",
}
_HEADINGS = {
    "low": "from",
    "high": "to",
    "kwh": "kWh",
    "cost": "cost",
    "mean_wait_s": "mean wait",
}


def plan_page(report: CapacityReport, pictures: Mapping[str, Markup]) -> str:
    """Return the page; `pictures` by name, as `draw_plan` makes them."""
    target, resampling = report.settings.target, report.settings.resampling
    log = report.log
    headings = {**_HEADINGS, **_columns_of_parts()}
    return render_page(
        _PACKAGE,
        "plan.html",
        title=f"Capacity of {report.name}",
        light=LIGHT,
        dark=DARK,
        about={
            "asked": f"{target.words} at most {human_duration(target.limit_s)} ({target.limit_s:,.0f} s)",
            "policy": report.settings.run.policy,
            "jobs": f"{len(log.jobs):,} in {log.days:,.1f} days from {log.origin:%Y-%m-%d %H:%M} UTC",
            "at present": f"{sum(log.present.values()):,} nodes of {log.gpus_per_node} GPUs in "
            f"{len(log.present):,} virtual cluster{'' if len(log.present) == 1 else 's'}",
            "intervals": f"{resampling.confidence_pct:g} %, blocks of {resampling.block_days:g} days and one "
            "virtual cluster drawn again, the same draws for all rows",
            "replays": f"{report.replays + report.reused:,}, {report.reused:,} of them known before",
        },
        answers=[
            {
                "question": each.question,
                "variant": each.variant,
                "answer": each.answer,
                "command": each.command,
                "fewer": _fewer(each.fewer, target.column),
            }
            for each in report.plan.answers
        ],
        pictures=[(name, _TITLES[name], picture) for name, picture in pictures.items()],
        head=[headings.get(name, name.removesuffix("_wait_s").upper()) for name in _columns(report)],
        front=_rows(report, report.plan.front),
        rows=_rows(report, report.plan.rows),
        remarks=report.plan.remarks,
        grade=None if report.grade is None else grade_parts(report.grade.to_data()),
    )


def index_page(clusters: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Return the page that lists each cluster's plans (href, asked, answer), newest first."""
    return render_page(
        _PACKAGE, "plans.html", title="Capacity plans", clusters=clusters, light=LIGHT, dark=DARK
    )


def _columns_of_parts() -> dict[str, str]:
    return {name: heading for part in planned_parts() for name, heading in part.columns.items()}


def _columns(report: CapacityReport) -> list[str]:
    return shown_columns(report.plan.rows)


def _rows(report: CapacityReport, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    columns = _columns(report)
    return [
        {
            "cells": [_text(name, row.get(name)) for name in columns],
            "holds": row["holds"],
            "command": row["command"],
        }
        for row in rows
    ]


def _text(name: str, value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if name.endswith("_s") or name in ("low", "high"):
        return f"{value:,.0f} s"
    return f"{value:,.1f}" if name in _columns_of_parts() else f"{value:,.0f}"


def _fewer(fewer: Mapping[str, Any] | None, column: str) -> dict[str, Any] | None:
    if fewer is None:
        return None
    return {"text": f"{fewer['nodes']:,} nodes: {fewer[column]:,.1f} s", "command": fewer["command"]}


EXPERIMENT = "lucid-capacity-plans"


def write_report(report: CapacityReport, folder: Path) -> Path:
    """Write page, pictures, CSV files and JSON; returns the page. The same report gives the same bytes."""
    document = to_jsonable(report.to_dict())
    tables = {f"{name}.csv": csv_text(_flat(document[name])) for name in ("questions", "front", "rows")}
    pictures = draw_plan(report.plan.rows, report.plan.answers, report.settings.target)
    text = json.dumps(document, indent=1, allow_nan=False) + "\n"
    return write_report_files(folder, {**tables, REPORT_FILE: text}, pictures, plan_page(report, pictures))


def log_report(report: CapacityReport, folder: Path, tracking_uri: str) -> str:
    """Keep a plan in MLflow: what was asked, the cluster's answers, its files; returns the run's place below
    MLflow's address.
    """
    target = report.settings.target
    name = f"{report.name} plan for {target.metric} {human_duration(target.limit_s)}"
    with Registry(tracking_uri).run(EXPERIMENT, name, {"cluster": report.name}) as run:
        run.log_params(
            {
                "policy": report.settings.run.policy,
                "metric": target.metric,
                "limit_s": target.limit_s,
                "days": report.log.days,
                "jobs": len(report.log.jobs),
                "replays": report.replays,
            }
        )
        metrics: dict[str, float] = {"present_nodes": float(sum(report.log.present.values()))}
        for each in report.plan.answers:
            if each.pool == "cluster" and each.figures.get("nodes") is not None and each.kind == "nodes":
                metrics[metric_name(f"nodes.{each.variant}")] = float(each.figures["nodes"])
        run.log_metrics(metrics)
        with scratch_folder("plan") as scratch:
            for file in sorted(each for each in folder.iterdir() if each.is_file()):
                (scratch / file.name).write_bytes(file.read_bytes())
            run.log_folder(scratch)
        return run.ui_path()


def line_of_plan(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the index shows of a plan."""
    first = document["questions"][0]
    return {"start": document["from"][:10], "question": first["question"], "answer": first["answer"]}


def _flat(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return rows as a table; what is no single value is JSON there."""
    return pd.DataFrame(
        [
            {
                name: json.dumps(value, sort_keys=True) if isinstance(value, dict | list) else value
                for name, value in row.items()
            }
            for row in rows
        ]
    )
