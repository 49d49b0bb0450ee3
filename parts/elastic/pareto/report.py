"""Writes a search's front beside it, and into MLflow: one run a search."""

import io
from collections.abc import Mapping
from typing import Any

from foundation import strict_json
from foundation.csv_files import write_rows
from foundation.errors import NotFoundError
from foundation.storage import write_bytes
from lucid_models.registry import Registry
from lucid_models.tracking_run import OpenRun
from parts.elastic.pareto.front import hypervolume
from parts.elastic.pareto.page import front_page, progress_page
from parts.elastic.pareto.presented import FRONT_FILE, Front
from parts.elastic.pareto.study import ParetoSearch
from pipeline.search.experiment_store.tracking import log_stored

EXPERIMENT = "lucid-pareto"
PAGE_FILE, TABLE_FILE = "front.html", "front.csv"
STUDY_TAG, NAME_TAG = "pareto_study", "cluster"


def front_rows(front: Front) -> list[dict[str, Any]]:
    """Return the front as a table: id, figures on fresh samples, the configuration."""
    return [
        {
            "front_id": point.front_id,
            **point.figures,
            "thresholds_s": " ".join(f"{bound:g}" for bound in point.config.thresholds_s),
            "weights": " ".join(f"{weight:g}" for weight in point.config.weights),
            "efficiency_min": point.config.efficiency_min,
            "efficiency_step": point.config.efficiency_step,
        }
        for point in front.points
    ]


def write_progress(study: ParetoSearch) -> None:
    """Draw the front as it stands, while the search runs."""
    write_bytes(f"{study.uri}/{PAGE_FILE}", progress_page(study).encode())


def write_report(study: ParetoSearch, front: Front) -> tuple[str, ...]:
    """Write front.html and front.csv beside front.json; return the URIs of all three."""
    rows = front_rows(front)
    table = io.StringIO()
    write_rows(rows, list(rows[0]), table)
    write_bytes(f"{study.uri}/{PAGE_FILE}", front_page(study, front).encode())
    write_bytes(f"{study.uri}/{TABLE_FILE}", table.getvalue().encode())
    return tuple(f"{study.uri}/{name}" for name in (PAGE_FILE, TABLE_FILE, FRONT_FILE))


def record_search(study: ParetoSearch, front: Front, *, tracking_uri: str) -> tuple[str, str]:
    """Log a finished search as a run of MLflow, once; return the run's id and its page in MLflow's UI."""
    registry = Registry(tracking_uri)
    tags = {STUDY_TAG: study.sha256, NAME_TAG: study.name, "evaluations": str(front.evaluations)}
    for recorded in registry.find_runs(EXPERIMENT, tags, most=1):
        return recorded.run_id, OpenRun(registry, recorded.run_id).ui_path()
    name = f"{study.name} front, {front.evaluations} evaluations"
    with registry.run(EXPERIMENT, name, {**tags, "study_uri": study.uri}) as run:
        run.log_params(
            {
                "preference": " ".join(front.preference),
                "evaluations": front.evaluations,
                "simulations": front.simulations,
                "jobs_per_sample": front.jobs_per_sample,
                "samples": study.samples,
                "held_out_samples": study.held_out_samples,
                "round_size": study.round_size,
                "seed": study.seed,
                "gpus": study.gpus,
                "whole_gpus": study.whole_gpus,
                "jobs": study.jobs,
                **study.about,
            }
        )
        run.log_metrics(_metrics(front))
        run.set_tag("mlflow.note.content", _note(study, front))
        names = (study.plan_file, FRONT_FILE, PAGE_FILE, TABLE_FILE)
        log_stored(run, [f"{study.uri}/{name}" for name in names])
        return run.run_id, run.ui_path()


def _metrics(front: Front) -> dict[str, float]:
    metrics: dict[str, float] = {"front_points": len(front.points)}
    for name in front.preference:
        values = [point.figures[name] for point in front.points]
        plain_name = name.replace(":", "_")
        metrics |= {f"least_{plain_name}": min(values), f"most_{plain_name}": max(values)}
    worst = [max(point.figures[name] for point in front.points) for name in front.preference]
    if all(worst):
        shares = [
            tuple(point.figures[name] / most for name, most in zip(front.preference, worst, strict=True))
            for point in front.points
        ]
        metrics["hypervolume_of_own_range"] = hypervolume(shares, [1.0] * len(worst))
    return metrics


def _note(study: ParetoSearch, front: Front) -> str:
    first = front.preference[0]
    return (
        f"{len(front.points)} configurations of PCS for {study.name}, from the least {first} "
        f"({front.points[0].front_id}) to the most ({front.points[-1].front_id}). Open `{PAGE_FILE}` among "
        "the artifacts, and pick one by its id: `lucid pareto pick ID`."
    )


def newest_front(
    tracking_uri: str, *, cluster: str | None = None, run_id: str | None = None
) -> tuple[Front, str]:
    """Return a recorded front and its run: that run's, or else the newest of a cluster.

    Raises NotFoundError when there is none.
    """
    registry = Registry(tracking_uri)
    if run_id is None:
        wanted: Mapping[str, str] = {} if cluster is None else {NAME_TAG: cluster}
        runs = registry.find_runs(EXPERIMENT, wanted, most=1)
        if not runs:
            whose = "" if cluster is None else f" of {cluster!r}"
            raise NotFoundError(
                f"MLflow on {tracking_uri} has no Pareto search{whose}.",
                remedy="Run `lucid pareto search ... --track`, or the DAG search_pareto_front.",
            )
        run_id = runs[0].run_id
    return Front.from_data(strict_json.loads(registry.read_run_file(run_id, FRONT_FILE))), run_id
