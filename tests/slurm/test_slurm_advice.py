"""What users see beside their jobs on a real Slurm, and that nothing of it stays."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live_scheduler.live_release import AWAY, keep_release
from tests.slurm.private_slurm import PrivateSlurm

LUCID = [sys.executable, "-c", "from lucid_cli.main import main; main()"]
TOLD = r"told \d{4}-\d\d-\d\d \d\d:\d\d:\d\d: ends \d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
SETTINGS = 'cluster = "small"\nmode = "advise"\nadvise_interval_s = 1.0\npass_interval_s = 0.5\n'


@pytest.fixture
def advised(
    slurm: PrivateSlurm, small_model_files: dict[str, list[Path]], tmp_path: Path
) -> Iterator["subprocess.Popen[bytes]"]:
    """`lucid live slurm` in the mode advise."""
    keep_release(tmp_path / "live" / "small" / "releases", small_model_files)
    settings = tmp_path / "live.toml"
    settings.write_text(SETTINGS)
    environment = slurm.environment() | {"LUCID_STATE_DIR": str(tmp_path), "LUCID_TRACKING_URI": AWAY}
    with (tmp_path / "log").open("wb") as log:
        daemon = subprocess.Popen(
            [*LUCID, "live", "slurm", "--settings", str(settings)],
            env=os.environ | environment,
            stdout=log,
            stderr=log,
        )
    try:
        yield daemon
    except BaseException as error:
        error.add_note((tmp_path / "log").read_text()[-4_000:])
        raise
    finally:
        daemon.terminate()
        try:
            daemon.wait(timeout=300)
        finally:
            daemon.kill()


@pytest.mark.slow
def test_users_read_when_their_jobs_start_and_end_and_keep_their_own_words(
    slurm: PrivateSlurm, advised: "subprocess.Popen[bytes]"
) -> None:
    def submit(*options: str) -> str:
        wrapped = ("--gres=gpu:4", "-N1", "-p", "vc1", "-o", "/dev/null", "--wrap", "exec sleep 600")
        return slurm.run("sbatch", "--parsable", *options, *wrapped).strip()

    def shown(job: str, what: str = "Comment") -> str:
        return slurm.run("squeue", "-h", "-j", job, "-O", f"{what}:200").strip().replace("\u00a0", " ")

    running = [submit("-J", "train_u0", "--comment", "mine") for _ in range(2)]
    waiting = submit("-J", "train_u5", "--comment", "fine-tuning, second try")
    plain = submit("-J", "train_u1")
    priorities = {job: shown(job, "PriorityLong") for job in (waiting, plain)}
    slurm.wait_for(lambda: "; starts about" in shown(plain), "a waiting job's text")
    slurm.wait_for(lambda: "; ends about" in shown(running[0]), "a running job's text")
    words, _, ours = shown(waiting).partition(" | ")
    assert words == "fine-tuning, second try"
    assert re.fullmatch(rf"lucid: {TOLD}; starts about .*, ends about .*", ours)
    assert re.match(rf"mine \| lucid: {TOLD}; ends about ", shown(running[1]))
    told = {job: shown(job).partition(";")[0] for job in (*running, waiting, plain)}
    # Slurm's own order stands.
    assert {job: shown(job, "PriorityLong") for job in (waiting, plain)} == priorities

    # What they were told stays, whatever is expected later.
    slurm.run("scancel", running[1])
    slurm.wait_for(lambda: "starts about" not in shown(waiting), "the text of a job that has started")
    assert {job: shown(job).partition(";")[0] for job in told if job != running[1]} == {
        job: text for job, text in told.items() if job != running[1]
    }

    advised.terminate()
    assert advised.wait(timeout=300) == 0
    assert shown(waiting) == "fine-tuning, second try"
    assert shown(running[0]) == "mine"
    assert shown(plain) in ("", "(null)")
