"""A sweep as three steps that may run on three machines: plan, simulate chunks of runs, collect.

What the DAG `evaluate_policies` maps its tasks to. Only URIs, identities and small numbers pass between them.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cluster_logs.cluster_names import check_cluster_name
from foundation.jsonable import to_jsonable
from foundation.progress import Progress, silent
from lucid_models.registry import Registry
from pipeline.studies.experiment import OK
from pipeline.studies.store import log_stored, metric_name
from pipeline.studies.sweeps.run import execute_run
from pipeline.studies.sweeps.runs import axes_of, shown, variants
from pipeline.studies.sweeps.spec import SweepSpec
from pipeline.studies.sweeps.sweep import (
    SweepPlan,
    SweepReport,
    collect_sweep,
    load_plan,
    pending,
    plan_digest,
    plan_sweep,
)

if TYPE_CHECKING:
    import pandas as pd

EXPERIMENT = "lucid-policy-evaluation"
# Airflow maps at most 1,024 tasks (core.max_map_length) unless it is told otherwise.
MOST_CHUNKS = 1_000
SHOWN_VARIANTS = 12
LONGEST_NAME = 80  # characters of a run's name
LOGGED_FIGURES = ("mean_jct_s", "mean_queuing_delay_s", "p999_queuing_delay_s", "utilisation_pct")


def plan_evaluation(
    *,
    lake_uri: str,
    cluster: str,
    asked: Mapping[str, Any],
    runs_per_task: int = 1,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Freeze the inputs in the lake and say what is left to run.

    `asked` holds the keys of a sweep file (`spec.py`); None and empty values are left out.
    The jobs are those of the file that it names, else the lake's. Returns sweep_uri, tasks (the arguments of
    `simulate_chunk`), runs, reused, remarks. The same form gives the same place: an evaluation that was
    interrupted goes on.

    Raises BadInputError for what cannot be used, NotFoundError when the lake lacks the cluster's tables.
    """
    check_cluster_name(cluster)
    values = {key: value for key, value in asked.items() if value not in (None, "", [], {})}
    place = {} if "jobs" in values else {"lake": lake_uri, "cluster": cluster}
    spec = SweepSpec().changed({**values, **place}, place="The form").with_live_settings()
    runs = spec.runs()
    inputs = spec.read_inputs(progress)
    uri = f"{lake_uri.rstrip('/')}/sweeps/cluster={cluster}/{plan_digest(inputs, runs)}"
    uri += "-jobs" if spec.keep_jobs else ""  # records of runs that kept nothing are elsewhere
    plan = plan_sweep(inputs, runs, uri, keep_jobs=spec.keep_jobs)
    pending_ids = list(pending(plan))
    size = max(1, runs_per_task, -(-len(pending_ids) // MOST_CHUNKS))
    return {
        "sweep_uri": plan.uri,
        "tasks": [
            {**task, "replays": ", ".join(plan.runs[identity].label for identity in task["run_ids"])}
            for task in plan.tasks(pending_ids, size)
        ],
        "runs": len(plan.runs),
        "reused": len(plan.runs) - len(pending_ids),
        "remarks": list(plan.remarks),
    }


def simulate_chunk(*, sweep_uri: str, run_ids: Sequence[str], progress: Progress = silent) -> dict[str, int]:
    """Execute these runs of a planned sweep, one after another, and store each record.

    A run that fails is a record, not an error. Returns how many runs were done, failed, and their jobs.
    """
    plan = load_plan(sweep_uri)
    records = plan.evaluate(
        run_ids,
        plan.runs,
        lambda _, run: execute_run(plan.inputs_uri, run, kept_uri=plan.kept_uri),
        label=lambda run: run.label,
        progress=progress,
    )
    good = [record for record in records if record["status"] == OK]
    return {
        "runs": len(records),
        "failed": len(records) - len(good),
        "jobs": sum(record["figures"]["jobs"] for record in good),
    }


def collect_evaluation(*, sweep_uri: str, cluster: str, tracking_uri: str) -> dict[str, Any]:
    """Write the tidy table and the pictures to the lake and to MLflow; return what a person wants to see.

    Raises SweepFailedError, after everything was written, when a run failed or is missing.
    """
    plan = load_plan(sweep_uri)
    report = collect_sweep(plan)
    path = record_evaluation(plan, report, cluster=cluster, tracking_uri=tracking_uri)
    report.raise_for_failure()
    return {
        "table": report.table_uri,
        "csv": report.csv_uri,
        "figures": list(report.figures),
        "mlflow_path": path,
        "runs": len(report.table),
        "variants": to_jsonable(
            [{**row, "label": label} for label, row in labelled_variants(report.table)[:SHOWN_VARIANTS]]
        ),
    }


def labelled_variants(table: "pd.DataFrame") -> list[tuple[str, dict[str, Any]]]:
    """Return each variant in words (its policy, and what is varied of settings and cluster) with its row."""
    axes = axes_of(table)
    labelled = []
    for row in variants(table, LOGGED_FIGURES):
        settings = [
            f"{axis.rpartition('.')[2]} {shown(row[axis])}"
            for axis in axes
            if axis in row and not (axis == "node_scale" and row[axis] == 1)
        ]
        labelled.append((" ".join([row["policy"], *settings]), row))
    return labelled


def record_evaluation(plan: SweepPlan, report: SweepReport, *, cluster: str, tracking_uri: str) -> str:
    """Log an evaluation as a run of MLflow: the table, the pictures and each variant's means.

    Returns the run's page in MLflow's UI. The same plan again is another run: MLflow keeps history.
    """
    policies = sorted({planned.policy for planned in plan.runs.values()})
    name = f"{cluster} {', '.join(policies)}"[:LONGEST_NAME]
    with Registry(tracking_uri).run(EXPERIMENT, name, {"cluster": cluster, "sweep_uri": plan.uri}) as run:
        run.log_params(
            {
                "cluster": cluster,
                "sweep_uri": plan.uri,
                "policies": ", ".join(policies),
                "runs": len(plan.runs),
                "failed_runs": len(report.not_ok),
            }
        )
        for label, row in labelled_variants(report.table)[:SHOWN_VARIANTS]:
            run.log_metrics({f"{metric_name(label)}/{name}": row[name] for name in LOGGED_FIGURES})
        log_stored(run, (report.table_uri, report.csv_uri, *report.figures))
        return run.ui_path()
