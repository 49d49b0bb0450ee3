"""A small what-if that was asked and kept."""

from pathlib import Path

import pandas as pd

from cluster_logs.job_table import JOB_SCHEMA, conform, to_frame
from pipeline.replay.cluster_events import one_pool
from pipeline.studies.sweeps.inputs import SweepInputs
from pipeline.studies.sweeps.runs import expand
from pipeline.studies.sweeps.sweep import SweepPlan, plan_sweep, run_pending
from pipeline.what_if.kept import AskedWhatIf, keep_what_if
from tests.fixtures import small_jobs, small_profiles

RUN_ID = "manual__2026-11-23T04:00:00+00:00"
HOSTILE = "=cmd()|<img src=x>"


def asked(run_id: str = RUN_ID, *, at: str = "2026-11-23T04:00:00+00:00") -> AskedWhatIf:
    return AskedWhatIf(run_id, "tiny", "ada", at, {"policies": ["fifo", "lucid"], "added_nodes": {"vc0": -1}})


def simulated_sweep(folder: Path) -> str:
    """Replay 300 jobs of two virtual clusters under two policies, with the present nodes and one fewer."""
    solo, pairs = small_profiles()
    jobs = to_frame(conform(small_jobs(300).assign(cluster="tiny"), JOB_SCHEMA, what="job table"))
    jobs["virtual_cluster"] = [f"vc{i % 2}" for i in range(len(jobs))]
    jobs.loc[7, "user"] = HOSTILE
    both = [one_pool(8).assign(virtual_cluster=name, nodes=2) for name in ("vc0", "vc1")]
    sizes = pd.concat(both, ignore_index=True)
    inputs = SweepInputs(jobs, sizes, job_types="drawn", solo=solo, pairs=pairs)
    plan = plan_sweep(inputs, expand(["fifo", "lucid"], added_nodes={"vc0": -1}), str(folder), keep_jobs=True)
    run_pending(plan)
    return plan.uri


def keep_small_what_if(folder: Path, pages_dir: Path) -> None:
    keep_what_if(SweepPlan.load(simulated_sweep(folder)), asked(), pages_dir)
