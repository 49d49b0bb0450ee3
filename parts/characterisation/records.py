"""What stays of a characterisation: a folder with its page, pictures, CSV files and JSON; a run of MLflow.

DIR/index.html, report.json, fig1a.csv, fig1a.svg, fig1a-dark.svg, ... by_user.csv, ...
STATE/characterisation/index.html                          all clusters
STATE/characterisation/CLUSTER/2020-04-01-to-2020-09-28/   such a folder
"""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from cluster_logs.lake import Lake
from cluster_logs.log_statistics.observed_log import UtilisationRule
from foundation.csv_files import csv_text
from foundation.outside_names import check_cluster_name
from foundation.site import Site
from foundation.steps import Done, NothingToDo, StepRun
from lucid_models.registry import Registry
from parts.characterisation.catalogue import FIGURES
from parts.characterisation.inputs import View, grade_of_cluster, read_lake_log
from parts.characterisation.kept import PAGES, REPORT_FILE
from parts.characterisation.page import characterisation_page, index_page
from parts.characterisation.part import EXPERIMENT
from parts.characterisation.pictures import draw
from parts.characterisation.report import ClusterReport, report_on
from pipeline.kept_reports import PAGE_FILE, KeptReport, write_index, write_report_files
from pipeline.training.windows import read_time


def characterise_cluster(
    site: Site, *, pages_dir: Path, view: View | None = None
) -> KeptReport[ClusterReport]:
    """Characterise a cluster of the lake, write its page and keep a run of MLflow.

    Raises NotFoundError when the lake has no jobs of it, ServiceUnavailableError when MLflow does not
    answer.
    """
    name = check_cluster_name(site.cluster)
    log = read_lake_log(site, view or View())
    report = report_on(log, site.progress, grade_of_cluster(site, log))
    folder = pages_dir / name / f"{report.start:%Y-%m-%d}-to-{report.end:%Y-%m-%d}"
    write_report(report, folder)
    write_index(pages_dir, REPORT_FILE, _line_of, index_page)
    path = log_report(report, folder, site.registry)
    return KeptReport(report, folder, f"{name}/{folder.name}/{PAGE_FILE}", path)


def characterise_announced(
    *, run: StepRun, site: Site, time_zone: str | None, view: Mapping[str, Any] | None = None
) -> Done:
    """Characterise one cluster of the lake: the named one, else the one with the announced job table.

    Of several that were announced, or (by hand, without a cluster) of all of the lake the first; the rest is
    left to runs of their own. `view`: start, end, time_zone (else the installation's) and utilisation, as the
    form has them.
    """
    asked = {name: value for name, value in (view or {}).items() if value}
    announced = [{"cluster": site.cluster}] if site.cluster else run.announced()
    announced = announced or [{"cluster": name} for name in Lake(site.lake).clusters()]
    if not announced:
        raise NothingToDo("The lake has no jobs yet: nothing to characterise.")
    mine = run.take_first(announced, "cluster")[-1]
    run.check_right(mine["cluster"])
    kept = characterise_cluster(
        replace(site, lake=mine.get("lake_uri") or site.lake, cluster=str(mine["cluster"])),
        pages_dir=run.state_dir() / PAGES.kind,
        view=View(
            read_time(asked.get("start")),
            read_time(asked.get("end")),
            asked.get("time_zone", time_zone),
            UtilisationRule(asked.get("utilisation", UtilisationRule.HALF_OPEN)),
        ),
    )
    report = kept.report
    return Done(
        {
            "cluster": report.cluster,
            "page": kept.page,
            "implications": {str(each.number): each.holds for each in report.measured.implications},
            "dropped": len(report.measured.dropped),
        },
        f"{report.cluster}: {' '.join(sentence.text for sentence in report.summary)}",
        mlflow_path=kept.mlflow_path,
        page=f"lucid/{PAGES.kind}/{kept.page}",
    )


def write_report(report: ClusterReport, folder: Path) -> Path:
    """Write page, pictures, CSV files and JSON; returns the page. The same report gives the same bytes."""
    measured = report.measured
    frames = measured.figures | measured.tables
    tables = {f"{key}.csv": csv_text(frame.reset_index()) for key, frame in frames.items()}
    pictures = {
        item.key: draw(item.key, item.title, measured.figures[item.key])
        for item in FIGURES
        if item.key in measured.figures
    }
    text = json.dumps(report.to_dict(), indent=1, allow_nan=False) + "\n"
    page = characterisation_page(report, pictures)
    return write_report_files(folder, {**tables, REPORT_FILE: text}, pictures, page)


def log_report(report: ClusterReport, folder: Path, tracking_uri: str) -> str:
    """Keep a report in MLflow: its numbers, which implications hold (1 or 0), its files; returns the run's
    place below MLflow's address.
    """
    holding = {
        f"implications.{each.number}": float(each.holds)
        for each in report.measured.implications
        if each.holds is not None
    }
    finite = {key: value for key, value in report.measured.numbers.items() if math.isfinite(value)}
    tags = {"cluster": report.cluster, "from": report.start.isoformat(), "until": report.end.isoformat()}
    name = f"{report.cluster} {report.start:%Y-%m-%d} to {report.end:%Y-%m-%d}"
    with Registry(tracking_uri).run(EXPERIMENT, name, tags) as run:
        run.log_params({"utilisation": report.rule, "time_zone": report.time_zone, "days": report.days})
        run.log_metrics(finite | holding)
        run.log_folder(folder)
        return run.ui_path()


def _line_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the index shows of a report."""
    jobs = document["numbers"].get("submissions.gpu_jobs")
    return {
        "start": document["window"]["start"][:10],
        "end": document["window"]["end"][:10],
        "gpu_jobs": "–" if jobs is None else f"{jobs:,.0f}",
    }
