"""Sweeps: many simulations of the same jobs, planned, executed anywhere, collected into one table.

    OUT/sweep.json               the plan: inputs and runs
    OUT/inputs/DIGEST/           what all runs replay (pipeline/studies/sweeps/inputs.py)
    OUT/runs/ID.json             one record a run
    OUT/kept/ID-waits.parquet    where asked for: every job of a run; ID-usage.parquet: the cluster over time
    OUT/results.parquet, .csv    the tidy table; beside it the pictures and run_manifest.json

Stored as every `StoredStudy`; a folder may hold the runs of several plans.
"""

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from foundation.errors import BadInputError
from foundation.outside_names import check_cluster_name
from foundation.progress import Progress, Work, silent
from foundation.site import Site
from foundation.storage import list_files, locate
from foundation.worker_processes import WorkerLostError, WorkerPool
from pipeline.studies.study import FAILED, FORMAT_VERSION, OK, Record, StoredStudy, answer_one
from pipeline.studies.sweeps.added_nodes import with_added_nodes
from pipeline.studies.sweeps.inputs import SweepInputs, store_inputs
from pipeline.studies.sweeps.kept_jobs import MOST_RUNS, WAITS, kept_table
from pipeline.studies.sweeps.run import execute_run
from pipeline.studies.sweeps.runs import SweepRun, run_id
from pipeline.studies.sweeps.spec import SweepSpec
from simulator.policies.registry import policy_class

# Airflow maps at most 1,024 tasks (core.max_map_length) by default.
MOST_CHUNKS = 1_000


@dataclass(frozen=True)
class SweepPlan(StoredStudy[SweepRun]):
    """Runs by identity, in order, and where their inputs and results are."""

    kind = "sweep"
    unit = "run"
    records = "runs"
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

    @classmethod
    def read_fields(cls, uri: str, plan: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return its runs, and where their inputs are."""
        rows = [dict(row) for row in plan["runs"]]
        runs = {row.pop("run_id"): SweepRun.from_dict(row) for row in rows}
        return {
            "inputs_uri": f"{uri}/{plan['inputs']}",
            "runs": runs,
            "keeps_jobs": bool(plan.get("keeps_jobs", False)),
        }

    def item(self, identity: str) -> SweepRun | None:
        """Return a run."""
        return self.runs.get(identity)

    def run(self, identity: str, item: SweepRun, progress: Progress = silent) -> Record:
        """Simulate a run."""
        return execute_run(self.inputs_uri, item, progress, self.kept_uri)

    def label(self, item: SweepRun) -> str:
        """Name a run."""
        return item.label

    def is_done(self, identity: str) -> bool:
        """Whether there is a good record, and what is to be kept of its jobs."""
        if self.kept_uri is None:
            return super().is_done(identity)
        fs, path = locate(kept_table(f"{self.kept_uri}/{identity}", WAITS))
        return fs.get_file_info(path).is_file and super().is_done(identity)


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


def lost_record(identity: str, run: SweepRun, why: str) -> Record:
    """Return the record of a run that was lost with its worker process."""
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


@dataclass(frozen=True)
class ExecutedRuns:
    """How many runs of a sweep were executed, how many of them failed, and the jobs that they simulated."""

    runs: int
    failed: int
    jobs: int
    elapsed_s: float

    @property
    def jobs_per_s(self) -> float:
        """Simulated jobs per second of wall time, over all workers."""
        return self.jobs / self.elapsed_s if self.elapsed_s > 0 else 0.0


def run_pending(
    plan: SweepPlan, *, workers: int = 1, fresh: bool = False, progress: Progress = silent
) -> ExecutedRuns:
    """Execute every run of the plan that has no good record (`fresh`: every run).

    With one worker the runs are executed here, one after another; with more, in that many processes.
    `progress` counts simulated jobs, those of runs under way included; all runs replay about as many.
    """
    runs = dict(plan.runs) if fresh else pending(plan)
    began_s = time.monotonic()
    work = Work(f"{len(runs):,} runs", "jobs")
    jobs_by_run: dict[str, int] = {}
    most_jobs = failed = 0

    def note(run: tuple[str, SweepRun], done_jobs: int, total_jobs: int | None) -> None:
        nonlocal most_jobs
        jobs_by_run[run[0]] = done_jobs
        most_jobs = max(most_jobs, total_jobs or 0)
        progress(sum(jobs_by_run.values()), most_jobs * len(runs) or None, work)

    def lost(run: tuple[str, SweepRun], error: WorkerLostError) -> Record:
        record = lost_record(*run, str(error))
        plan.keep(run[0], record)
        return record

    with WorkerPool(partial(answer_one, plan), min(workers, len(runs))) as pool:
        for run, record in pool.results(runs.items(), part=note, lost=lost):
            is_good = record["status"] == OK
            failed += not is_good
            jobs = record["figures"]["jobs"] if is_good else 0
            note(run, jobs, jobs)
    jobs = sum(jobs_by_run.values())
    progress(jobs, jobs, work)
    return ExecutedRuns(len(runs), failed, jobs, time.monotonic() - began_s)


def plan_evaluation(site: Site, *, asked: Mapping[str, Any], runs_per_task: int = 1) -> dict[str, Any]:
    """Freeze the inputs in the lake and say what is left to run.

    `asked` holds the keys of a sweep file (`spec.py`); None and empty values are left out.
    The jobs are those of the file that it names, else the lake's. Returns sweep_uri, tasks (the arguments of
    `pipeline.steps.studies:evaluate`), runs, reused, remarks. The same form gives the same place: an
    evaluation that was interrupted goes on.

    Raises BadInputError for what cannot be used, NotFoundError when the lake lacks the cluster's tables.
    """
    check_cluster_name(site.cluster)
    values = {key: value for key, value in asked.items() if value not in (None, "", [], {})}
    place = {} if "jobs" in values else {"lake": site.lake, "cluster": site.cluster}
    spec = SweepSpec().changed({**values, **place}, place="The form").with_live_settings()
    runs = spec.runs()
    inputs = spec.read_inputs(site.progress)
    uri = f"{site.lake.rstrip('/')}/sweeps/cluster={site.cluster}/{plan_digest(inputs, runs)}"
    uri += "-jobs" if spec.keep_jobs else ""  # records of runs that kept nothing are elsewhere
    plan = plan_sweep(inputs, runs, uri, keep_jobs=spec.keep_jobs)
    pending_ids = list(pending(plan))
    size = max(1, runs_per_task, -(-len(pending_ids) // MOST_CHUNKS))
    return {
        "sweep_uri": plan.uri,
        "tasks": [
            {**task, "names": ", ".join(plan.runs[identity].label for identity in task["identities"])}
            for task in plan.tasks(pending_ids, size)
        ],
        "runs": len(plan.runs),
        "reused": len(plan.runs) - len(pending_ids),
        "remarks": list(plan.remarks),
    }
