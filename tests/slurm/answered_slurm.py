"""A Slurm whose users ask the live scheduler about their jobs."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from live_scheduler.service.schema import Status
from tests.live_scheduler.live_release import AWAY
from tests.slurm.private_slurm import PrivateSlurm

LUCID = [sys.executable, "-c", "from lucid_cli.main import main; main()"]


@dataclass
class Answered:
    """A Slurm on which `lucid live slurm` follows a release, and `lucid live ...` beside it."""

    slurm: PrivateSlurm
    home: Path

    @property
    def environment(self) -> dict[str, str]:
        return self.slurm.environment() | {"LUCID_STATE_DIR": str(self.home), "LUCID_TRACKING_URI": AWAY}

    def ask(self, *question: str) -> Any:
        done = self.run(*question)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def run(self, *question: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*LUCID, "live", *question, "--json"],
            env=os.environ | self.environment,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def status(self) -> Status | None:
        done = self.run("status")
        return None if done.returncode else Status.model_validate_json(done.stdout)

    @contextmanager
    def daemon(self, mode: str) -> Iterator[None]:
        """`lucid live slurm` in this mode, once it has decided."""
        with (self.home / f"{mode}.log").open("wb") as log:
            process = subprocess.Popen(
                [*LUCID, "live", "slurm", "--cluster", "small", "--mode", mode],
                env=os.environ | self.environment,
                stdout=log,
                stderr=log,
            )
        try:
            self.slurm.wait_for(
                lambda: (told := self.status()) and told.decided,
                f"the daemon's first decision in mode {mode}",
            )
            yield
        except BaseException as error:
            error.add_note((self.home / f"{mode}.log").read_text()[-4_000:])
            raise
        finally:
            process.terminate()
            try:
                process.wait(timeout=300)
            finally:
                process.kill()

    def submit(self, *options: str) -> str:
        said = self.slurm.run("sbatch", "--parsable", "-o", "/dev/null", *options, "--wrap", "exec sleep 600")
        return said.strip()


def tell_place_and_time(answered: Answered) -> str:
    """Ask about jobs that wait behind others and compare the answers with Slurm; returns the large one."""
    slurm = answered.slurm
    runs = [answered.submit("--gres=gpu:4", "-N1", "-p", "vc1", "-J", "train_u0") for _ in range(2)]
    slurm.wait_for(
        lambda: all(slurm.run("squeue", "-h", "-o", "%T", "-j", job).strip() == "RUNNING" for job in runs),
        "both nodes to be taken",
    )
    large = answered.submit("--gres=gpu:4", "-N1", "-p", "vc1", "-J", "train_u5", "--time=60")
    array = answered.submit("--gres=gpu:1", "-N1", "-p", "vc1", "-J", "train_u5", "--array=1-3")
    held = answered.submit("--gres=gpu:1", "-p", "vc1", "-H")
    after = answered.submit("--gres=gpu:1", "-p", "vc1", f"--dependency=afterok:{large}")

    def all_seen() -> bool:
        told = answered.status()
        return told is not None and told.in_charge and (told.ranked_jobs, told.left_alone_jobs) == (2, 2)

    slurm.wait_for(all_seen, "the daemon to see all jobs")
    queue = answered.ask("queue", "--pool", "vc1")["queues"][0]
    assert [job["job_id"] for job in queue["jobs"]] == [array, large]
    assert set(queue["left_alone"]) == {held, after}
    # What it says is what Slurm has: the array of small jobs, though younger, was given the higher priority.
    slurm.wait_for(
        lambda: (
            int(slurm.run("squeue", "-h", "-o", "%Q", "-j", array).split()[0])
            > int(slurm.run("squeue", "-h", "-o", "%Q", "-j", large))
        ),
        "the order in Slurm",
    )
    told = answered.ask("explain", f"{array}_2")
    assert (told["job_id"], told["place"], told["queue_length"], told["tasks"]) == (array, 1, 2, 3)
    second = answered.ask("explain", large)
    assert (second["place"], second["jobs_ahead"], second["gpus_free"]) == (2, 1, 0)
    assert second["gpu_seconds_ahead"] == pytest.approx(3 * told["estimated_duration_s"])
    assert "version 7" in second["note"]
    assert "held" in " ".join(answered.ask("explain", held)["sentences"])
    assert "Dependency" in " ".join(answered.ask("explain", after)["sentences"])
    assert answered.ask("explain", runs[0])["state"] == "running"
    expected = answered.ask("when", large)
    assert expected["at_s"] < expected["start_p50_s"] <= expected["start_p90_s"]
    assert "You asked for 60 min; keep that" in expected["limit_advice"]
    missing = answered.run("explain", "999999")
    assert missing.returncode == 1
    assert "999999" in missing.stderr
    return large
