"""Sweeps: many simulations of the same jobs, planned, executed anywhere, collected into one table.

    OUT/sweep.json               the plan: inputs and runs
    OUT/inputs/DIGEST/           what all runs replay (pipeline/studies/sweeps/inputs.py)
    OUT/runs/ID.json             one record a run
    OUT/kept/ID-waits.parquet    where asked for: every job of a run; ID-usage.parquet: the cluster over time
    OUT/results.parquet, .csv    the tidy table; beside it the pictures and run_manifest.json

Stored as pipeline/studies/experiment.py says; a folder may hold the runs of several plans.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from foundation.csv_files import csv_text
from foundation.errors import BadInputError, LucidError
from foundation.leftovers import scratch_folder
from foundation.progress import Progress, silent
from foundation.run_manifest import run_manifest
from foundation.storage import list_files, locate, write_bytes, write_frame
from pipeline.studies.experiment import FAILED, FORMAT_VERSION, OK, Experiment, Record
from pipeline.studies.store import store_files, write_json
from pipeline.studies.sweeps.added_nodes import with_added_nodes
from pipeline.studies.sweeps.inputs import SweepInputs, store_inputs
from pipeline.studies.sweeps.kept_jobs import MOST_RUNS, WAITS, kept_table
from pipeline.studies.sweeps.run import execute_run
from pipeline.studies.sweeps.runs import SweepRun, run_id, tidy_table
from simulator.policies.registry import policy_class

TABLE_FILE, CSV_FILE = "results.parquet", "results.csv"
MANIFEST_FILE = "run_manifest.json"


class SweepFailedError(LucidError):
    """Runs of a sweep failed or are missing; the table says which."""


@dataclass(frozen=True)
class SweepPlan(Experiment):
    """Runs by identity, in order, and where their inputs and results are."""

    kind = "sweep"
    unit = "run"
    records = "runs"
    uri_argument, items_argument = "sweep_uri", "run_ids"
    how_to_begin = "Plan it first."
    plan_file = "sweep.json"

    inputs_uri: str
    runs: Mapping[str, SweepRun]
    remarks: tuple[str, ...] = ()
    keeps_jobs: bool = False

    @property
    def kept_uri(self) -> str | None:
        """Below which what is known of each job of each run is kept; None: it is not."""
        return f"{self.uri}/kept" if self.keeps_jobs else None

    def is_done(self, identity: str) -> bool:
        """Whether there is a good record, and what is to be kept of its jobs."""
        if self.kept_uri is None:
            return super().is_done(identity)
        fs, path = locate(kept_table(f"{self.kept_uri}/{identity}", WAITS))
        return fs.get_file_info(path).is_file and super().is_done(identity)


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


def plan_sweep(
    inputs: SweepInputs, runs: Sequence[SweepRun], out_uri: str, *, keep_jobs: bool = False
) -> SweepPlan:
    """Store inputs and plan below `out_uri`. Records that lie there already stay, and count.

    `keep_jobs`: every job's wait with its causes, and the cluster over time, are kept of each run. Raises
    BadInputError for nodes that cannot be taken away, and for more runs than jobs are kept of.
    """
    if keep_jobs and len(runs) > MOST_RUNS:
        raise BadInputError(
            f"The jobs of {len(runs):,} runs are too many to keep.",
            remedy=f"Keep those of {MOST_RUNS} runs at most.",
        )
    for run in runs:
        with_added_nodes(inputs.sizes, run.added_nodes, one_pool=inputs.one_pool)
    uri = out_uri.rstrip("/")
    inputs_uri = store_inputs(inputs, uri)
    identified = {run_id(run, inputs.sha256): run for run in runs}
    remarks = list(inputs.remarks)
    if len({run.seed for run in runs}) > 1 and not _anything_random(inputs, runs):
        remarks.append(
            "Nothing in this sweep is random, so all seeds give the same figures: draw job types, estimates "
            "(estimate noise) or failures, of nodes or boots, to see a spread."
        )
    document = {
        "inputs": inputs_uri.removeprefix(f"{uri}/"),
        "inputs_sha256": inputs.sha256,
        "remarks": remarks,
        **({"keeps_jobs": True} if keep_jobs else {}),
        "runs": [{"run_id": identity, **run.to_dict()} for identity, run in identified.items()],
    }
    SweepPlan.write_plan(uri, document)
    return SweepPlan(uri, inputs_uri, identified, tuple(remarks), keep_jobs)


def _anything_random(inputs: SweepInputs, runs: Sequence[SweepRun]) -> bool:
    noisy = (run for run in runs if run.estimate_noise and policy_class(run.policy).needs_estimates)
    beside = (companion for run in runs for companion in run.made_companions())
    return (
        inputs.job_types == "drawn"
        or inputs.events.failure_mtbf_hours is not None
        or any(noisy)
        or any(companion.is_random for companion in beside)
    )


def plan_digest(inputs: SweepInputs, runs: Sequence[SweepRun]) -> str:
    """Return 12 hex digits that name this plan: the same inputs and runs, the same name."""
    identities = sorted(run_id(run, inputs.sha256) for run in runs)
    return hashlib.sha256("\n".join(identities).encode()).hexdigest()[:12]


def load_plan(uri: str) -> SweepPlan:
    """Read a stored plan. Raises NotFoundError when there is none, BadInputError for another format."""
    uri = uri.rstrip("/")
    document = SweepPlan.read_plan(uri)
    runs = {
        row["run_id"]: SweepRun.from_dict({key: value for key, value in row.items() if key != "run_id"})
        for row in document["runs"]
    }
    keeps_jobs = bool(document.get("keeps_jobs", False))
    return SweepPlan(uri, f"{uri}/{document['inputs']}", runs, tuple(document["remarks"]), keeps_jobs)


def run_and_store(plan: SweepPlan, run: SweepRun, progress: Progress = silent) -> Record:
    """Execute one run and store its record; return the record. What a worker does, wherever it is."""
    record = execute_run(plan.inputs_uri, run, progress, plan.kept_uri)
    write_json(plan.record_uri(record["run_id"]), record)
    return record


def lost_record(identity: str, run: SweepRun, why: str) -> Record:
    """Return the record of a run whose worker died under it."""
    return {
        "format_version": FORMAT_VERSION,
        "run_id": identity,
        "run": run.to_dict(),
        "status": FAILED,
        "error": why,
        "figures": None,
        "cpu_s": 0.0,
    }


def read_records(plan: SweepPlan) -> dict[str, Record]:
    """Return the stored records of the plan's runs, by identity."""
    fs, folder = locate(f"{plan.uri}/{plan.records}")
    stored = {info.base_name.removesuffix(".json") for info in list_files(fs, folder)}
    records = {identity: plan.record(identity) for identity in plan.runs if identity in stored}
    return {identity: record for identity, record in records.items() if record is not None}


def pending(plan: SweepPlan) -> dict[str, SweepRun]:
    """Return the runs without a good record, in the plan's order."""
    records = read_records(plan)
    return {
        identity: run
        for identity, run in plan.runs.items()
        if identity not in records
        or records[identity]["status"] != OK
        or (plan.keeps_jobs and not plan.is_done(identity))
    }


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
