"""The profiling stage killed with -9 at each of its steps: no job is held, stuck or started twice."""

import os
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from live_scheduler.cluster_state import ClusterState
from live_scheduler.safety.restoring import restore
from live_scheduler.safety.touched import TouchedJobs
from live_scheduler.slurm.adapter import SlurmAdapter
from live_scheduler.slurm.scontrol_session import ScontrolSession
from parts.live_profiling.tests.profiling_stand import Stand, profiling_slurm, stand_of
from tests.slurm.private_slurm import PrivateSlurm
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.slow

STEPS = 10  # what the stage does to one job, counted by `die_after`, and one more


@pytest.fixture(scope="module")
def own_slurm() -> Iterator[PrivateSlurm]:
    with profiling_slurm(credential_s=30) as slurm:
        yield slurm


@pytest.fixture
def slurm(own_slurm: PrivateSlurm, monkeypatch: pytest.MonkeyPatch) -> Iterator[PrivateSlurm]:
    environment = own_slurm.environment()
    monkeypatch.setenv("SLURM_CONF", environment["SLURM_CONF"])
    monkeypatch.setenv("PATH", environment["PATH"])
    yield own_slurm
    own_slurm.clear()


def die_after(steps: int) -> None:
    """From now on, end this process as kill -9 does before its next step: a line to scontrol, a write."""
    done = 0
    tell, fsync = ScontrolSession.tell, os.fsync

    def step() -> None:
        nonlocal done
        if done == steps:
            os.kill(os.getpid(), signal.SIGKILL)
        done += 1

    def tell_one_by_one(self: ScontrolSession, lines: Sequence[str]) -> list[str]:
        said = []
        for line in lines:
            step()
            said += tell(self, [line])
        return said

    def counted_fsync(handle: int) -> None:
        step()
        fsync(handle)

    ScontrolSession.tell = tell_one_by_one  # type: ignore[method-assign]
    os.fsync = counted_fsync


def daemon_that_dies(stand: Stand, steps: int) -> int:
    """Fork a daemon that dies after so many steps (or leaves when its job is home); return its pid."""
    pid = os.fork()
    if pid:
        return pid
    # Whatever happens, the child never goes on with the tests.
    try:
        die_after(steps)
        (job_id,) = stand.enters
        stand.only = frozenset(stand.enters)
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            stand.one_pass()
            home = stand.state(job_id, "%P %T") == "vc1 PENDING"
            if home and stand.runs(job_id) and not stand.stage.intents.values:
                os._exit(0)
            time.sleep(0.2)
    finally:
        os._exit(1)


@pytest.mark.parametrize("by", ["a new daemon", "the dead man's switch"])
def test_killed_at_any_step_no_job_is_held_stuck_or_started_twice(
    slurm: PrivateSlurm, tmp_path: Path, by: str
) -> None:
    filler = stand_of(slurm, tmp_path).fill()
    stands: dict[int, Stand] = {}
    for steps in range(STEPS):
        stand = stand_of(slurm, tmp_path / str(steps))
        stand.submit()
        stands[daemon_that_dies(stand, steps)] = stand
    ends: dict[int, int] = {}
    orphans: list[Stand] = []

    def home(stand: Stand) -> bool:
        (job_id,) = stand.enters
        return stand.state(job_id, "%P %T") == "vc1 PENDING" and (
            by != "a new daemon" or bool(stand.runs(job_id))
        )

    def look() -> bool:
        for pid in set(stands) - set(ends):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                ends[pid] = os.waitstatus_to_exitcode(status)
                orphans.append(successor(stands[pid]))
        for stand in orphans:
            if by == "a new daemon":
                stand.one_pass()
            else:
                restore(OnlySome(stand), TouchedJobs(stand.folder), stage=stand.stage)
        return len(ends) == STEPS and all(home(stand) for stand in orphans)

    slurm.wait_for(look, "all are home")
    # The last one was not to die: it shows that the steps are all of them.
    assert sorted(ends.values()) == [-signal.SIGKILL] * (STEPS - 1) + [0]
    slurm.run("scancel", filler)
    for stand in orphans:
        (job_id,) = stand.enters
        slurm.wait_for(lambda s=stand, j=job_id: s.state(j) == "COMPLETED", f"job {job_id} ends")
        runs = stand.runs(job_id)
        assert runs in (["vc1"], ["prof", "vc1"])
        assert by != "a new daemon" or len(runs) == 2


def successor(stand: Stand) -> Stand:
    """What a new process knows: the folder."""
    heir = stand_of(stand.slurm, stand.folder)
    heir.enters, heir.only, heir.logs = stand.enters, frozenset(stand.enters), stand.logs
    return heir


class OnlySome(SlurmAdapter):
    """An adapter that sees some jobs only."""

    def __init__(self, stand: Stand) -> None:
        super().__init__(profiling_partition=stand.partition)
        self._jobs = stand.enters

    def read(self) -> ClusterState:
        cluster = super().read()
        return replace(cluster, jobs=tuple(job for job in cluster.jobs if job.job_id in self._jobs))
