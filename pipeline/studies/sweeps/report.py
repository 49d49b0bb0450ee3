"""A collected sweep: the tidy table, its pictures, where its numbers come from, and a run of MLflow."""

from dataclasses import dataclass
from typing import Any

import pandas as pd

from foundation.csv_files import csv_text
from foundation.errors import LucidError
from foundation.jsonable import to_jsonable
from foundation.process_lock import scratch_folder
from foundation.run_manifest import run_manifest
from foundation.site import Site
from foundation.storage import write_bytes, write_frame
from lucid_models.registry import Registry
from pipeline.studies.store import log_stored, metric_name, store_files, write_json
from pipeline.studies.study import OK
from pipeline.studies.sweeps.runs import axes_of, shown, tidy_table, variants
from pipeline.studies.sweeps.sweep import SweepPlan, read_records

TABLE_FILE, CSV_FILE = "results.parquet", "results.csv"
MANIFEST_FILE = "run_manifest.json"
EXPERIMENT = "lucid-policy-evaluation"
SHOWN_VARIANTS = 12
LONGEST_NAME = 80  # characters of a run's name
LOGGED_FIGURES = ("mean_jct_s", "mean_queuing_delay_s", "p999_queuing_delay_s", "utilisation_pct")


class SweepFailedError(LucidError):
    """Runs of a sweep failed or are missing; the table says which."""


@dataclass(frozen=True)
class SweepReport:
    """A collected sweep: the table, and the files that were written."""

    table: pd.DataFrame
    table_uri: str
    csv_uri: str
    figures: tuple[str, ...]

    @property
    def not_ok(self) -> pd.DataFrame:
        """The rows of runs that failed or are missing."""
        return self.table[self.table["status"] != OK]

    def raise_for_failure(self) -> None:
        """Raise SweepFailedError when a run failed or is missing."""
        bad = self.not_ok
        if len(bad):
            first = bad.iloc[0]
            raise SweepFailedError(
                f"{len(bad)} of {len(self.table)} runs have no result; the first, {first['run_id']} "
                f"({first['policy']}, seed {first['seed']}): {first['error']}",
                remedy=f"All are in {self.csv_uri}. Running the sweep again tries only them.",
            )


def collect_sweep(plan: SweepPlan, *, figures: bool = True) -> SweepReport:
    """Write the tidy table (Parquet and CSV) and the pictures of what is there now; return both.

    `run_manifest.json` says where the numbers come from: inputs, command, commit, machine.
    """
    table = tidy_table(plan.runs, read_records(plan))
    table_uri, csv_uri = f"{plan.uri}/{TABLE_FILE}", f"{plan.uri}/{CSV_FILE}"
    write_frame(table_uri, table)
    write_bytes(csv_uri, csv_text(table).encode())
    drawn = _draw(table, plan.uri) if figures else ()
    write_json(f"{plan.uri}/{MANIFEST_FILE}", _manifest(plan))
    return SweepReport(table, table_uri, csv_uri, drawn)


def _manifest(plan: SweepPlan) -> dict[str, Any]:
    return run_manifest(
        inputs={"sweep_inputs": {"uri": plan.inputs_uri, "digest": plan.inputs_uri.rpartition("/")[2]}},
        seeds={f"seed_{seed}": seed for seed in sorted({run.seed for run in plan.runs.values()})},
        settings={identity: run.to_dict() for identity, run in plan.runs.items()},
    )


def _draw(table: pd.DataFrame, uri: str) -> tuple[str, ...]:
    # Loading matplotlib takes longer than many a sweep.
    from pipeline.studies.sweeps.figures import draw_sweep

    with scratch_folder("sweep") as scratch:
        return store_files(uri, draw_sweep(table, scratch))


def collect_evaluation(site: Site, *, sweep_uri: str) -> dict[str, Any]:
    """Write the tidy table and the pictures to the lake and to MLflow; return what a person wants to see.

    Raises SweepFailedError, after everything was written, when a run failed or is missing.
    """
    plan = SweepPlan.load(sweep_uri)
    report = collect_sweep(plan)
    path = record_evaluation(site, plan, report)
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


def record_evaluation(site: Site, plan: SweepPlan, report: SweepReport) -> str:
    """Log an evaluation as a run of MLflow: the table, the pictures and each variant's means.

    Returns the run's page in MLflow's UI. The same plan again is another run: MLflow keeps history.
    """
    policies = sorted({planned.policy for planned in plan.runs.values()})
    name = f"{site.cluster} {', '.join(policies)}"[:LONGEST_NAME]
    with Registry(site.registry).run(
        EXPERIMENT, name, {"cluster": site.cluster, "sweep_uri": plan.uri}
    ) as run:
        run.log_params(
            {
                "cluster": site.cluster,
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
