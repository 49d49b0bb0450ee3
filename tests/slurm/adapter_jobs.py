"""Jobs for tests of the adapter, and waiting for what becomes of them."""

from collections.abc import Callable

from live_scheduler.cluster_state import ClusterState
from live_scheduler.slurm.adapter import SlurmAdapter
from tests.slurm.private_slurm import PrivateSlurm

# What users call their jobs and write beside them.
ODD = [
    "a|b,c;d",
    "quotes \" and '",
    "ünï 漢字",
    "two\nlines",
    "tab\tand \x1f separators \x1e",
    "%j \\n $HOME `id`",
    "-n=1",
]

FULL = "--gres=gpu:4"


def submit(slurm: PrivateSlurm, *options: str, script: str = "sleep 300") -> str:
    """Submit a job and return its id; `--partition=vc1`, one core, no log."""
    words = ["sbatch", "--parsable", "--output=/dev/null", "--partition=vc1", *options]
    return slurm.run(*words, input_text=f"#!/bin/sh\n{script}\n").strip()


def until_reads(
    slurm: PrivateSlurm, adapter: SlurmAdapter, happened: Callable[[ClusterState], object], what: str
) -> ClusterState:
    """Read until something has happened, and return that reading."""
    state = adapter.read()

    def look() -> bool:
        nonlocal state
        state = adapter.read()
        return bool(happened(state))

    slurm.wait_for(look, what)
    return state


def runs(state: ClusterState, *job_ids: str) -> bool:
    return all(job_id in state.by_id and not state.by_id[job_id].waiting for job_id in job_ids)
