"""The page of a plan: one self-contained HTML file, light or dark as its reader's screen is."""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from foundation.html_pages import render_page
from foundation.human_times import human_duration
from foundation.themed_pictures import DARK, LIGHT
from pipeline.planning.plan_report import CapacityReport, shown_columns
from pipeline.planning.planned_part import planned_parts
from simulator.wait_fidelity.tables import grade_parts

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
