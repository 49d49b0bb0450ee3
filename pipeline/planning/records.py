"""What stays of a plan: a folder with its page, pictures, CSV files, JSON and nodes files; a run of MLflow.

DIR/index.html, plan.json, questions.csv, front.csv, rows.csv, waits.svg, waits-dark.svg, ...
DIR/nodes/352-1f2e3d4c.csv                       the nodes that a row's command names
DIR/replayed/                                    every replay (`pipeline.planning.replays`)
STATE/plans/index.html                           all clusters
STATE/plans/CLUSTER/20171001-p95-600s-1a2b3c4d/  such a folder
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from foundation.csv_files import csv_text
from foundation.human_times import human_duration
from foundation.jsonable import to_jsonable
from foundation.leftovers import scratch_folder
from lucid_models.registry import Registry
from pipeline.kept_reports import write_report_files
from pipeline.planning.page import REPORT_FILE, plan_page
from pipeline.planning.pictures import draw_plan
from pipeline.planning.plan_report import CapacityReport
from pipeline.search.experiment_store.tracking import metric_name

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
