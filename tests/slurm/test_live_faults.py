"""Whatever becomes of the live scheduler, the queue of a real Slurm moves, and every job runs once.

Faults of the daemon and of what it stands on; those of Slurm itself are in test_live_faults_slurm.py.
"""

import json
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from foundation.process_lock import holder
from live_scheduler.memory.journal import Journal
from live_scheduler.safety.dead_mans_switch import WATCH_LOCK
from live_scheduler.safety.heartbeat import HEARTBEAT_FILE, read_heartbeat
from live_scheduler.safety.touched import TOUCHED_FILE
from tests.evidence import Evidence
from tests.slurm.conftest import private_slurm
from tests.slurm.live_cluster import NAME, NAMES, LiveCluster, queue_up
from tests.slurm.private_slurm import Node, Partition, PrivateSlurm

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def one_slurm() -> Iterator[PrivateSlurm]:
    with private_slurm(
        nodes=(Node("n1"),), partitions=(Partition("vc1", ("n1",)),), accounting=True
    ) as slurm:
        yield slurm


# It ends, however it ends


@pytest.mark.parametrize("at", ["1", "3", "last"])
def test_killed_before_within_and_after_its_changes(cluster: LiveCluster, at: str) -> None:
    cluster.keep_release()
    block, jobs = queue_up(cluster)
    cluster.fault("kill", f"{at}\n")
    daemon = cluster.start()
    daemon.process.wait(timeout=300)
    assert daemon.process.returncode == -signal.SIGKILL
    assert (cluster.folder / "faults" / "killed").exists()
    # Word of all was left first, whatever became of it.
    assert (cluster.state / TOUCHED_FILE).read_text().count('"ordered"') >= len(jobs)
    log = cluster.state / "watch.log"
    if at != "1":
        cluster.wait(lambda: cluster.ranked() or "returned" in log.read_text(), "some are ranked")
    cluster.wait_returned(jobs)
    cluster.free(block)
    cluster.assert_each_ran_once()
    cluster.wait(cluster.quiet, "the switch ends")


def test_killed_at_random_moments_again_and_again(cluster: LiveCluster) -> None:
    cluster.keep_release()
    moments = random.Random(0)
    block, jobs = queue_up(cluster)
    for _ in range(3):
        daemon = cluster.started()
        for _ in range(4):
            jobs.append(cluster.submit(moments.choice(NAMES), seconds=0.2))
        time.sleep(moments.uniform(0.0, 0.8))
        daemon.kill()
        cluster.free(block)
        jobs.append(cluster.submit("train_u3", seconds=0.2, gpus=4))
        cluster.wait_ended(jobs[:3])
        block = cluster.block()
        cluster.submit("train_u1")
    cluster.free(block)
    cluster.assert_each_ran_once()


def test_a_daemon_that_comes_back_takes_over(cluster: LiveCluster) -> None:
    cluster.keep_release()
    block, jobs = queue_up(cluster)
    cluster.started().kill()
    cluster.wait_returned(jobs)
    cluster.started()
    cluster.wait_ranked(jobs[::-1])
    cluster.free(block)
    cluster.assert_each_ran_once()


def test_told_to_end_it_returns_the_order_itself(cluster: LiveCluster) -> None:
    cluster.keep_release()
    block, jobs = queue_up(cluster)
    daemon = cluster.started()
    assert daemon.end() == 0
    assert cluster.order() == jobs
    assert not cluster.ranked()
    cluster.wait(cluster.quiet, "the switch ends")
    cluster.free(block)
    cluster.assert_each_ran_once()


def test_one_that_hangs_is_stood_in_for_and_takes_over_when_it_wakes(cluster: LiveCluster) -> None:
    cluster.keep_release()
    block, jobs = queue_up(cluster)
    daemon = cluster.started()
    daemon.signal(signal.SIGSTOP)
    cluster.wait_returned(jobs)
    daemon.signal(signal.SIGCONT)
    cluster.wait_ranked(jobs[::-1])
    cluster.free(block)
    cluster.assert_each_ran_once()


@pytest.mark.evidence(table="faults", rows=("51",))
def test_a_second_daemon_is_refused_and_the_first_goes_on(cluster: LiveCluster, evidence: Evidence) -> None:
    cluster.keep_release()
    block, jobs = queue_up(cluster)
    first = cluster.started()
    second = cluster.start()
    assert second.process.wait(timeout=300) == 1
    assert f"already (process {first.pid})" in second.said()
    late = cluster.submit("train_u0")
    cluster.wait(lambda: late in cluster.ranked(), "the first goes on")
    cluster.free(block)
    cluster.assert_each_ran_once()
    assert len(jobs) == 3
    evidence(
        "faults",
        "51",
        "The second is refused with the process id of the first, which goes on (one state folder).",
    )


def test_a_switch_that_is_killed_is_armed_again(cluster: LiveCluster) -> None:
    cluster.keep_release()
    block, jobs = queue_up(cluster)
    daemon = cluster.started()
    lock = cluster.state / WATCH_LOCK
    cluster.wait(lambda: holder(lock) is not None, "the switch watches")
    first = holder(lock)
    assert first is not None
    os.kill(first, signal.SIGKILL)
    cluster.wait(lambda: holder(lock) not in (None, first), "another watches")
    daemon.kill()
    cluster.wait_returned(jobs)
    cluster.free(block)
    cluster.assert_each_ran_once()


def test_a_switch_of_the_service_managers_serves_every_daemon_and_stays(cluster: LiveCluster) -> None:
    cluster.keep_release()
    block, jobs = queue_up(cluster)
    switch = cluster.start_switch()
    lock = cluster.state / WATCH_LOCK
    cluster.wait(lambda: holder(lock) == switch.pid, "it watches")
    for _ in range(2):
        daemon = cluster.started()
        cluster.wait_ranked(jobs[::-1])
        assert holder(lock) == switch.pid
        daemon.kill()
        cluster.wait_returned(jobs)
    assert switch.process.poll() is None
    assert switch.end() == 0
    cluster.wait(cluster.quiet, "the switch ends")
    cluster.free(block)
    cluster.assert_each_ran_once()


# What it stands on


def test_without_a_release_nothing_is_changed(cluster: LiveCluster) -> None:
    block, jobs = queue_up(cluster)
    before = cluster.priorities()
    daemon = cluster.start()
    cluster.wait(lambda: "No release" in daemon.said(), "it says that there is none")
    late = cluster.submit("train_u0")
    assert {job: cluster.priorities()[job] for job in before} == before
    cluster.wait(lambda: not cluster.beats(), "it does not beat")
    assert cluster.order() == [*jobs, late]
    cluster.free(block)
    cluster.assert_each_ran_once()


def damage_pointer(state: Path) -> None:
    (state / "releases" / NAME / "current-champion.json").write_text('{"format_version": 1, "ver')


def damage_model(state: Path) -> None:
    (path,) = (state / "releases" / NAME).glob("releases/*/duration.json")
    path.write_bytes(path.read_bytes()[:-100])


def damage_manifest(state: Path) -> None:
    (path,) = (state / "releases" / NAME).glob("releases/*/manifest.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "format_version": 99}))


@pytest.mark.parametrize("damage", [damage_pointer, damage_model, damage_manifest])
def test_a_release_that_is_torn_corrupt_or_too_new_is_none(cluster: LiveCluster, damage: object) -> None:
    cluster.keep_release()
    damage(cluster.state)  # type: ignore[operator]
    block, _jobs = queue_up(cluster)
    before = cluster.priorities()
    daemon = cluster.start()
    cluster.wait(lambda: "No release" in daemon.said(), "it says that there is none")
    assert cluster.priorities() == before
    cluster.free(block)
    cluster.assert_each_ran_once()
    assert daemon.process.poll() is None


def test_estimates_that_are_no_numbers_change_nothing_and_the_order_returns(cluster: LiveCluster) -> None:
    cluster.keep_release()
    block, jobs = queue_up(cluster)
    daemon = cluster.started()
    cluster.wait_ranked(jobs[::-1])
    fault = cluster.fault("nan")
    cluster.wait_returned(jobs)
    assert "nan" in daemon.said()
    late = cluster.submit("train_u0")
    fault.unlink()
    cluster.wait(lambda: late in cluster.ranked() and len(cluster.ranked()) == 4, "it recovers")
    cluster.free(block)
    cluster.assert_each_ran_once()


@pytest.mark.evidence(table="faults", rows=("44",))
@pytest.mark.parametrize("by_s", [3_600, -3_600])
def test_a_clock_that_jumps_changes_nothing(cluster: LiveCluster, by_s: int, evidence: Evidence) -> None:
    cluster.keep_release()
    block, jobs = queue_up(cluster)
    daemon = cluster.started()
    cluster.wait_ranked(jobs[::-1])
    fault = cluster.fault("clock", str(by_s))
    cluster.wait(lambda: "clock" in daemon.said(), "it notices")
    # A clock that is not the cluster's is not to be decided by: Slurm's order returns.
    cluster.wait_returned(jobs)
    fault.unlink()
    cluster.wait_ranked(jobs[::-1])
    cluster.free(block)
    cluster.assert_each_ran_once()
    evidence(
        "faults",
        "44",
        f"By {by_s:+,} s beside the cluster's: no pass changes anything, Slurm's order returns, and ours when"
        " the clock is right again. Leases and heartbeats go by the monotonic clock.",
    )


@pytest.mark.evidence(table="faults", rows=("50",))
def test_a_disk_that_is_full_stops_all_changes_and_the_order_returns(
    cluster: LiveCluster, evidence: Evidence
) -> None:
    import psutil

    cluster.keep_release()
    block, jobs = queue_up(cluster)
    daemon = cluster.started()
    cluster.wait_ranked(jobs[::-1])
    # Every write of the daemon's to a file fails from now on; the switch is another process.
    psutil.Process(daemon.pid).rlimit(psutil.RLIMIT_FSIZE, (0, psutil.RLIM_INFINITY))
    cluster.wait_returned(jobs)
    late = cluster.submit("train_u0")
    beat = read_heartbeat(cluster.state / HEARTBEAT_FILE)
    assert beat is not None
    assert beat.left
    assert daemon.process.poll() is None
    assert late not in cluster.ranked()
    psutil.Process(daemon.pid).rlimit(psutil.RLIMIT_FSIZE, (psutil.RLIM_INFINITY, psutil.RLIM_INFINITY))
    cluster.wait(lambda: len(cluster.ranked()) == 4, "it recovers")
    cluster.free(block)
    cluster.assert_each_ran_once()
    evidence(
        "faults",
        "50",
        "Nothing more is changed, the dead man's switch gives Slurm's order back, and the daemon, which"
        " lives, takes over again when there is room.",
    )


def test_a_state_folder_that_cannot_be_one_is_refused_at_once(cluster: LiveCluster) -> None:
    block, _jobs = queue_up(cluster)
    before = cluster.priorities()
    cluster.state.parent.mkdir(parents=True)
    cluster.state.write_text("a file")
    daemon = cluster.start()
    assert daemon.process.wait(timeout=300) == 1
    assert "Traceback" not in daemon.said()
    assert cluster.priorities() == before
    cluster.state.unlink()
    cluster.free(block)
    cluster.assert_each_ran_once()


def test_records_that_were_torn_are_read_as_far_as_they_go(cluster: LiveCluster) -> None:
    cluster.keep_release()
    block, jobs = queue_up(cluster)
    cluster.started().kill()
    for name in ("journal.jsonl", "touched.jsonl", "decisions.jsonl", HEARTBEAT_FILE):
        with (cluster.state / name).open("ab") as stream:
            stream.write(b'{"job_id": "1", "at_s\xff')
    cluster.started()
    cluster.wait_ranked(jobs[::-1])
    cluster.free(block)
    cluster.assert_each_ran_once()
    cluster.wait(lambda: {"ended"} <= {event.kind for event in journal(cluster)}, "the journal goes on")


def journal(cluster: LiveCluster) -> list[object]:
    return list(Journal(cluster.state / "journal.jsonl").read())
