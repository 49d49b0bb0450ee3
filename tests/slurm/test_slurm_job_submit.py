"""job_submit.lua in a real slurmctld: new jobs of shared partitions wait to be seen while a daemon lives."""

import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from importlib import resources
from pathlib import Path

import pytest

from live_scheduler.safety.heartbeat import Heartbeat, Moment, write_heartbeat
from live_scheduler.slurm.adapter import SlurmAdapter
from live_scheduler.slurm.shared_partitions import NEW_JOBS_WAIT_S
from tests.slurm.adapter_jobs import submit
from tests.slurm.conftest import commands_talk_to, skip_without_slurm
from tests.slurm.private_slurm import Node, Partition, PrivateSlurm, short_folder

pytestmark = pytest.mark.slow

PLUGIN = "/usr/lib/*/slurm-wlm/job_submit_lua.so"


def installed(heartbeat: Path, *shared: str) -> str:
    """The shipped file with its two names set, as an admin would set them."""
    text = resources.files("live_scheduler.slurm").joinpath("job_submit.lua").read_text(encoding="utf-8")
    names = ", ".join(f'"{name}"' for name in shared)
    for before, after in (
        ('"STATE/live/CLUSTER/heartbeat.json"', f'"{heartbeat}"'),
        ("local shared_partitions = {}", f"local shared_partitions = {{ {names} }}"),
    ):
        assert text.count(before) == 1
        text = text.replace(before, after)
    return text


@pytest.fixture(scope="module")
def guarded() -> Iterator[PrivateSlurm]:
    """A cluster whose default partition and another are shared."""
    skip_without_slurm()
    if not list(Path("/").glob(PLUGIN.lstrip("/"))):
        pytest.skip("job_submit_lua.so is not installed (Debian: slurm-wlm-basic-plugins)")
    folder = short_folder()
    cluster = PrivateSlurm(
        folder,
        nodes=(Node("s1", gpus=1, shards=2), Node("n1")),
        partitions=(Partition("s-a", ("s1",)), Partition("s-b", ("s1",)), Partition("vc1", ("n1",))),
        job_submit=installed(folder / "heartbeat.json", "s-a", "s-b"),
    )
    try:
        with cluster:
            yield cluster
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def slurm(guarded: PrivateSlurm, monkeypatch: pytest.MonkeyPatch) -> Iterator[PrivateSlurm]:
    yield from commands_talk_to(guarded, monkeypatch)


ALIVE = Heartbeat(0.0, 0.0, "boot", dead_after_s=600.0, controls=True, pid=1)


def beat(slurm: PrivateSlurm, age_s: float = 0.0, alive: Heartbeat = ALIVE) -> None:
    now = Moment.now()
    at = replace(alive, at_s=now.at_s - age_s, monotonic_s=now.monotonic_s, boot_id=now.boot_id)
    write_heartbeat(slurm.folder / "heartbeat.json", at)


def test_a_new_job_waits_to_be_seen_and_no_other(slurm: PrivateSlurm) -> None:
    beat(slurm)
    seen = [submit(slurm, f"--partition={name}", "--gres=shard:1") for name in ("s-a", "s-b")]
    script = "#!/bin/sh\nsleep 300\n"
    seen.append(slurm.run("sbatch", "--parsable", "--output=/dev/null", input_text=script).strip())
    later = submit(slurm, "--partition=s-a", "--begin=now+1hour")
    held = submit(slurm, "--partition=s-a", "--hold")
    other = submit(slurm, "--gres=gpu:1")
    slurm.wait_for(lambda: not SlurmAdapter().read().by_id[other].waiting, "the other one runs")
    jobs = SlurmAdapter().read().by_id
    for job_id in seen:
        job = jobs[job_id]
        assert (job.waits_for, job.held) == ("BeginTime", False)
        assert abs((job.begin_time_s or 0) - job.submit_time_s - NEW_JOBS_WAIT_S) <= 1
        assert job.priority is not None
        assert job.priority > 4_000_000_000  # Slurm's own
    assert (jobs[later].begin_time_s or 0) > time.time() + 3000
    assert (jobs[held].held, jobs[held].priority) == (True, 0)
    # Who is let go starts.
    slurm.run("scontrol", "update", f"JobId={seen[0]}", "StartTime=now")
    slurm.wait_for(lambda: not SlurmAdapter().read().by_id[seen[0]].waiting, "it runs")


@pytest.mark.parametrize(
    "state", ["no file", "too old", "from the future", "looks on", "has left", "torn", "not JSON"]
)
def test_without_a_living_daemon_slurm_does_as_ever(slurm: PrivateSlurm, state: str) -> None:
    path = slurm.folder / "heartbeat.json"
    path.unlink(missing_ok=True)
    match state:
        case "too old":
            beat(slurm, age_s=601.0)
        case "from the future":
            beat(slurm, age_s=-3600.0)
        case "looks on":
            beat(slurm, alive=replace(ALIVE, controls=False))
        case "has left":
            beat(slurm, alive=replace(ALIVE, left=True))
        case "torn":
            beat(slurm)
            path.write_text(path.read_text()[:20])
        case "not JSON":
            path.write_bytes(b'\xff\x00"at_s": 1e999, "dead_after_s": -, nan')
    job_id = submit(slurm, "--partition=s-a", "--gres=shard:1")
    assert SlurmAdapter().read().by_id[job_id].begin_time_s is None
    slurm.wait_for(lambda: not SlurmAdapter().read().by_id[job_id].waiting, "it runs")
