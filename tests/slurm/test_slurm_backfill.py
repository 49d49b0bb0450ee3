"""A real Slurm's backfill writes priorities back that it read; what is given back stays all the same.

Yields are forced (each job's turn is one), so a cycle takes seconds with eight jobs, as with thousands at a
site; `bf_continue` lets it go on with what it read at its beginning.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from foundation.process_lock import is_held
from live_scheduler.adapter import SetPriority
from live_scheduler.live_settings import LiveSettings, Mode
from live_scheduler.safety.control_lease import ControlLease
from live_scheduler.safety.dead_mans_switch import WATCH_LOCK, WATCH_LOG
from live_scheduler.safety.restore_command import restore_cluster
from live_scheduler.safety.restoring import restore
from live_scheduler.safety.touched import TouchedJobs
from live_scheduler.slurm.adapter import SlurmAdapter
from tests.slurm.adapter_jobs import FULL, submit, until_reads
from tests.slurm.conftest import commands_talk_to, private_slurm
from tests.slurm.private_slurm import Node, Partition, PrivateSlurm

pytestmark = pytest.mark.slow

JOBS = 8
PARAMETERS = "bf_continue,bf_interval=3,bf_max_time=5,bf_yield_interval=1,bf_yield_sleep=150000"
SETTINGS = LiveSettings("c", Mode.CONTROL)


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> Iterator[PrivateSlurm]:
    nodes, partitions = (Node("n1"),), (Partition("vc1", ("n1",)),)
    with private_slurm(nodes=nodes, partitions=partitions, SchedulerParameters=PARAMETERS) as slurm:
        yield from commands_talk_to(slurm, monkeypatch)


@dataclass
class Queue:
    """Some jobs behind one that fills the cluster, ranked the other way round, each of it written down."""

    slurm: PrivateSlurm
    folder: Path
    adapter: SlurmAdapter = field(default_factory=SlurmAdapter)
    own: dict[str, int | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        full = submit(self.slurm, FULL)
        until_reads(self.slurm, self.adapter, lambda state: not state.by_id[full].waiting, "the node is full")
        for job_id in [submit(self.slurm, FULL, "--time=1") for _ in range(JOBS)]:
            self.own[job_id] = self.adapter.read().by_id[job_id].priority
        least = self.adapter.priorities.least
        self.changes = [SetPriority(job_id, least + at) for at, job_id in enumerate(self.own)]
        TouchedJobs(self.folder).note(self.changes, self.adapter.read(), self.adapter.priorities)
        self.slurm.wait_for(self._in_a_cycle, "a cycle runs that began with our numbers")

    def _in_a_cycle(self) -> bool:
        if self.ranked() < JOBS:
            self.adapter.apply(self.changes)
            return False
        return "in the middle of backfilling" in self.slurm.run("sdiag")

    def ranked(self) -> int:
        return sum(self.adapter.priorities.ours(job.priority) for job in self.adapter.read().jobs)

    def now(self) -> dict[str, int | None]:
        jobs = self.adapter.read().by_id
        return {job_id: jobs[job_id].priority for job_id in self.own}

    def cycles(self) -> int:
        write_back = self.adapter.write_backs()
        assert write_back is not None
        assert write_back.cycles is not None
        return write_back.cycles

    def cycles_with_work(self) -> int:
        """The cycles that have ended; in a queue to which nothing happens none begins."""
        self.slurm.run("scontrol", "update", f"JobId={max(self.own, key=int)}", "Comment=something new")
        return self.cycles()


def test_what_is_given_back_while_a_cycle_runs_stays_so(slurm: PrivateSlurm, tmp_path: Path) -> None:
    queue = Queue(slurm, tmp_path)
    # What this is about: all were given back, and some are ours again a moment later.
    assert restore(queue.adapter, TouchedJobs(tmp_path), remember=True).complete
    slurm.wait_for(queue.ranked, "Slurm has written numbers of ours back")
    said: list[str] = []
    done = restore_cluster(tmp_path, SETTINGS, limit_s=60, say=said.append)
    assert (done.unsettled, done.restoration.left) == ("", ())
    assert "bf_continue, a cycle each 3 s" in said[0]
    assert queue.now() == queue.own
    assert len(TouchedJobs(tmp_path)) == 0
    began = queue.cycles()
    slurm.wait_for(lambda: queue.cycles_with_work() >= began + 2, "two more cycles have ended")
    assert queue.now() == queue.own


def test_a_daemon_that_leaves_lets_its_switch_watch(slurm: PrivateSlurm, tmp_path: Path) -> None:
    lease = ControlLease(tmp_path, SETTINGS)
    lease.take()
    queue = Queue(slurm, tmp_path)
    assert lease.leave().complete
    assert is_held(tmp_path / WATCH_LOCK)
    assert len(TouchedJobs(tmp_path)) >= JOBS
    # Who does not wait leaves it to the same process, and is told so.
    done = restore_cluster(tmp_path, SETTINGS, limit_s=60, wait=False)
    assert "a process of its own does that now" in done.unsettled
    slurm.wait_for(lambda: not is_held(tmp_path / WATCH_LOCK), "it is over, and the process has ended")
    assert len(TouchedJobs(tmp_path)) == 0
    assert queue.now() == queue.own
    assert "looked at until two cycles have ended" in (tmp_path / WATCH_LOG).read_text()
