"""The whole loop on a real Slurm and a real MLflow, by the commands of an operator.

Jobs run; their accounting is ingested; models learn from it; a release is built, proven and published; the
daemon that runs beside the cluster takes it, and learns from the jobs that follow. The gate is lenient here
(margins of 100 %): a minute of jobs proves no policy.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from live_scheduler.hindsight.decision_log import FirstSight, estimates_at_submission
from live_scheduler.memory.journal import JobEventKind, Journal
from tests.fixtures import MlflowServer
from tests.slurm.accounted_slurm import sbatch
from tests.slurm.aged_accounting import repeat_daily
from tests.slurm.private_slurm import PrivateSlurm
from tests.waiting import PATIENCE_S, wait_until

pytestmark = [pytest.mark.end_to_end, pytest.mark.timeout(1800)]

DAYS, STRETCH = 10, 600
LENIENT = (
    "margin_pct", "site_margin_pct", "p999_margin_pct", "longest_wait_margin_pct", "starved_margin_pct",
    "fairness_margin_pct", "utilisation_margin_pct", "naive_margin_pct",
)  # fmt: skip


class Operator:
    """Types commands, in a folder with settings of its own."""

    def __init__(self, folder: Path, slurm: PrivateSlurm, tracking_uri: str) -> None:
        self.folder = folder
        self.environment = slurm.environment() | {
            "LUCID_LAKE_URI": str(folder / "lake"),
            "LUCID_STATE_DIR": str(folder / "state"),
            "LUCID_TRACKING_URI": tracking_uri,
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join(sys.path),
        }

    def lucid(self, *words: str, refused: bool = False) -> dict[str, Any]:
        done = subprocess.run(
            [sys.executable, "-m", "lucid_cli.main", *words, "--json"],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0 or (refused and done.returncode == 2), (words, done.stderr)
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    @contextmanager
    def daemon(self) -> Iterator[Path]:
        """Run the live scheduler; gives its state folder, and ends it by SIGTERM."""
        settings = self.folder / "live.toml"
        settings.write_text(
            'cluster = "mini"\nmode = "control"\npass_interval_s = 0.3\nrelease_interval_s = 0.3\n'
            'profiling_partition = ""\npartitions = ["vc1", "vc2"]\n'
        )
        with (self.folder / "daemon.log").open("w") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "lucid_cli.main", "live", "slurm", "--settings", str(settings)],
                cwd=self.folder,
                env=self.environment,
                stdout=log,
                stderr=log,
            )
        try:
            yield self.folder / "state" / "live" / "mini"
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE_S)
        assert process.returncode == 0, (self.folder / "daemon.log").read_text()


def first_sight(state: Path, job_id: str) -> FirstSight:
    def seen() -> FirstSight | None:
        found = estimates_at_submission(state / "decisions.jsonl")
        return next((sight for (known, _), sight in found.items() if known == job_id), None)

    sight: FirstSight = wait_until(seen, f"job {job_id} is ranked")
    return sight


def fill(slurm: PrivateSlurm) -> str:
    """Take all GPUs of vc2, so that what comes next waits."""
    blocker = sbatch(slurm, "sleep 600", "-p", "vc2", "--gres=gpu:4", "-J", "blocker")
    wait_until(
        lambda: blocker in slurm.run("squeue", "-h", "-t", "R", "-o", "%i").split(), "the blocker runs"
    )
    return blocker


def test_jobs_become_a_release_that_orders_jobs_and_learns_from_them(
    own_accounted: PrivateSlurm, own_mlflow_server: MlflowServer, tmp_path: Path
) -> None:
    slurm = own_accounted
    for number in range(24):
        name, seconds = [("tiny", 1), ("large", 4)][number % 5 == 0]
        gpus = 1 + number % 2
        sbatch(
            slurm,
            f"sleep {seconds}",
            "-p",
            "vc2" if number % 3 else "vc1",
            f"--gres=gpu:{gpus}",
            "-J",
            f"{name}_{number}",
        )
    wait_until(lambda: not slurm.run("squeue", "-h"), "all jobs have ended")
    words = ["sacct", "-a", "-X", "-n", "-P", "-S", "now-1hour", "-o", "State"]
    wait_until(lambda: slurm.run(*words).split().count("COMPLETED") >= 24, "accounting knows of all ends")
    past = repeat_daily(slurm, DAYS, stretch=STRETCH)
    assert past >= 24 * DAYS

    operator = Operator(tmp_path, slurm, own_mlflow_server.uri)
    lucid, of_cluster, days = operator.lucid, ("--cluster", "mini"), ("--hold-out-days", "2")
    since = (datetime.now(UTC) - timedelta(days=DAYS + 1)).isoformat()
    ingested = lucid("ingest", "--format", "slurm", *of_cluster, "--start", since)
    assert ingested["rows_kept"] >= past
    assert ingested["nodes"]["nodes"] == {"vc1": 2, "vc2": 1}

    with operator.daemon() as state:
        wait_until(lambda: (state / "endpoint.json").exists(), "the daemon answers")
        assert lucid("live", "status", *of_cluster)["release"]["version"] is None
        lucid("train", "packing", "--simulated", *of_cluster)
        lucid("train", "throughput", *of_cluster, *days)
        lucid("train", "duration", *of_cluster, *days)
        built = lucid("release", "build", *of_cluster, *days, "--setting", "allow_simulated_profiles=true")
        operator.environment["LUCID_GATE_RULES"] = json.dumps(
            {**dict.fromkeys(LENIENT, 100), "worst_grade": "D"}
        )
        verdict = lucid("release", "validate", *of_cluster, *days, "--job-types", "log", refused=True)
        assert verdict["approved"], verdict["sentence"]
        published = lucid("release", "publish")
        assert published["version"] == built["version"]

        blocker = fill(slurm)
        large = sbatch(slurm, "sleep 4", "-p", "vc2", "--gres=gpu:2", "-J", "large_61")
        tiny = sbatch(slurm, "sleep 1", "-p", "vc2", "--gres=gpu:2", "-J", "tiny_62")
        fresh = [sbatch(slurm, "true", "-p", "vc2", "--gres=gpu:1", "-J", "fresh") for _ in range(4)]
        believed = first_sight(state, fresh[0]).estimated_duration_s
        assert first_sight(state, tiny).release_version == published["version"]
        assert lucid("live", "status", *of_cluster)["release"]["version"] == published["version"]

        def in_order() -> bool:
            shown = slurm.run("squeue", "-h", "-t", "PD", "-o", "%i %Q").split()
            priority = dict(zip(shown[::2], map(int, shown[1::2]), strict=True))
            return priority[tiny] > priority[large]

        wait_until(in_order, "the shorter job is in front of the one that came before it")
        slurm.run("scancel", blocker)
        wait_until(lambda: not slurm.run("squeue", "-h"), "they have run")
        fill(slurm)
        assert believed is not None

        def all_learnt() -> bool:
            """Accounting has told the daemon of every end, with its run time."""
            events = Journal(state / "journal.jsonl").read()
            ends = {event.job_id for event in events if event.kind is JobEventKind.ENDED}
            return ends >= {large, tiny, *fresh}

        wait_until(all_learnt, "the daemon knows of all ends")
        later = sbatch(slurm, "true", "-p", "vc2", "--gres=gpu:1", "-J", "fresh")
        # By how much, and which way, is the model's affair: it has learnt from a minute of jobs.
        assert first_sight(state, later).estimated_duration_s != believed
    again = lucid("ingest", "--format", "slurm", *of_cluster)
    assert again["rows_in"] == again["rows_kept"] + again["rows_quarantined"] + again["rows_skipped"]
    assert again["rows_kept"] >= 7
