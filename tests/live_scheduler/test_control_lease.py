"""One daemon a state folder, and a switch beside it before it changes anything."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from foundation.errors import BadInputError, ServiceUnavailableError
from foundation.process_lock import ProcessLock, held_elsewhere, holder, is_held
from live_scheduler.adapter import SetPriority
from live_scheduler.live_settings import LiveSettings, Mode
from live_scheduler.safety.control_lease import ControlLease
from live_scheduler.safety.dead_mans_switch import (
    DAEMON_LOCK,
    WATCH_LOCK,
    watch_settings,
)
from live_scheduler.safety.heartbeat import HEARTBEAT_FILE
from live_scheduler.safety.restore_command import end_daemon
from live_scheduler.safety.touched import TouchedJobs
from tests.live_scheduler.memory_cluster import MemoryCluster
from tests.waiting import wait_until

SETTINGS = LiveSettings("c", Mode.CONTROL, dead_after_s=60.0)


@pytest.fixture
def lease(tmp_path: Path) -> Iterator[ControlLease]:
    lease = ControlLease(tmp_path / "live" / "c", SETTINGS)
    yield lease
    wait_until(lambda: all(map(has_words, psutil.Process().children())), "all have their command line")
    for pid in pids_of(tmp_path):
        psutil.Process(pid).kill()


def pids_of(folder: Path) -> list[int]:
    """The switches that watch below a folder."""
    found = []
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
        except psutil.Error:
            continue
        if "live_scheduler.safety.dead_mans_switch" in words and any(str(folder) in word for word in words):
            found.append(process.pid)
    return found


def has_words(process: psutil.Process) -> bool:
    """Whether a process is past its exec(), or gone."""
    try:
        return bool(process.cmdline())
    except psutil.Error:
        return True


def test_one_daemon_a_state_folder(lease: ControlLease) -> None:
    lease.take()
    assert lease.folder.stat().st_mode & 0o777 == 0o700
    with pytest.raises(BadInputError, match=rf"already \(process {os.getpid()}\)"):
        ControlLease(lease.folder, SETTINGS).take()
    assert watch_settings(lease.folder) == SETTINGS


def test_one_switch_a_daemon_and_another_when_it_is_gone(lease: ControlLease) -> None:
    lease.take()
    wait_until(lambda: is_held(lease.folder / WATCH_LOCK), "the switch watches")
    (pid,) = pids_of(lease.folder)
    assert holder(lease.folder / WATCH_LOCK) == pid
    assert os.getsid(pid) != os.getsid(0)  # what ends our terminal does not end it
    lease.beat()
    assert pids_of(lease.folder) == [pid]
    assert psutil.Process(pid).memory_info().rss < 60 * 2**20
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not is_held(lease.folder / WATCH_LOCK), "it is gone")
    lease.beat()
    wait_until(lambda: is_held(lease.folder / WATCH_LOCK), "another watches")
    assert pid not in pids_of(lease.folder)


def test_word_is_left_before_anything_is_changed(lease: ControlLease) -> None:
    cluster = MemoryCluster()
    job_id = cluster.submit()
    lease.take()
    lease.before([SetPriority(job_id, 20_000)], cluster.read(), cluster.priorities)
    assert job_id in TouchedJobs(lease.folder)


def test_where_no_word_can_be_left_nothing_may_be_changed(
    lease: ControlLease, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = MemoryCluster()
    job_id = cluster.submit()
    lease.take()

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.write", full)
    with pytest.raises(ServiceUnavailableError, match="No space left on device; nothing is changed"):
        lease.before([SetPriority(job_id, 20_000)], cluster.read(), cluster.priorities)
    monkeypatch.setattr("live_scheduler.safety.control_lease.write_heartbeat", full)
    with pytest.raises(ServiceUnavailableError):
        lease.before([], cluster.read(), cluster.priorities)
    with pytest.raises(ServiceUnavailableError):
        lease.beat()


def test_a_folder_that_cannot_be_written_is_refused_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInputError, match="cannot be written"):
        ControlLease(tmp_path / "file" / "live", SETTINGS).take()
    assert pids_of(tmp_path) == []


def test_who_only_looks_on_needs_no_switch(tmp_path: Path) -> None:
    lease = ControlLease(tmp_path, replace(SETTINGS, mode=Mode.OBSERVE))
    lease.take()
    assert pids_of(tmp_path) == []
    assert json.loads((tmp_path / HEARTBEAT_FILE).read_text())["controls"] is False


def test_a_switch_without_a_state_says_what_is_missing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "live_scheduler.safety.dead_mans_switch", str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert result.returncode == 1
    assert "There are no settings" in result.stdout


def test_a_lock_is_free_when_its_holder_is_gone(tmp_path: Path) -> None:
    path = tmp_path / DAEMON_LOCK
    code = (
        "import sys, time; from pathlib import Path;"
        "from foundation.process_lock import ProcessLock;"
        "lock = ProcessLock(Path(sys.argv[1])); print(lock.acquire(), flush=True); time.sleep(600)"
    )
    other = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        assert holder(path) == other.pid
        assert not ProcessLock(path).acquire()
    finally:
        other.kill()
        other.communicate()
    assert not is_held(path)
    with ProcessLock(path) as lock:
        assert lock.acquire()
        assert is_held(path)
    assert not is_held(path)


def test_a_daemon_of_another_machine_is_not_ended_by_its_number_here(tmp_path: Path) -> None:
    path = tmp_path / DAEMON_LOCK
    code = (
        "import os, sys, time, types; from pathlib import Path;"
        "from foundation.process_lock import ProcessLock;"
        "os.uname = lambda: types.SimpleNamespace(nodename='login7');"
        "lock = ProcessLock(Path(sys.argv[1])); print(lock.acquire(), flush=True); time.sleep(600)"
    )
    other = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        assert (holder(path), held_elsewhere(path)) == (None, "login7")
        with pytest.raises(BadInputError, match="runs on the machine 'login7'"):
            end_daemon(path)
        assert other.poll() is None
    finally:
        other.kill()
        other.communicate()
    assert held_elsewhere(path) is None
    assert end_daemon(path) is None


def test_a_lock_that_names_no_machine_is_of_this_one(tmp_path: Path) -> None:
    path = tmp_path / DAEMON_LOCK
    with ProcessLock(path) as lock:
        assert lock.acquire()
        path.write_text("4711\n")
        assert (holder(path), held_elsewhere(path)) == (4711, None)


def test_a_query_keeps_no_process_from_a_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / DAEMON_LOCK
    with path.open("w") as asker, ProcessLock(path) as lock:
        fcntl.flock(asker, fcntl.LOCK_SH)
        monkeypatch.setattr(time, "sleep", lambda _: asker.close())  # it has its answer
        assert lock.acquire()


def test_one_that_stays_takes_the_place_of_another_that_is_gone(lease: ControlLease) -> None:
    lease.take()
    lock = lease.folder / WATCH_LOCK
    wait_until(lambda: is_held(lock), "the daemon's own watches")
    first = holder(lock)
    assert first is not None
    command = [sys.executable, "-m", "live_scheduler.safety.dead_mans_switch", "--stay", str(lease.folder)]
    staying = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        os.kill(first, signal.SIGTERM)
        wait_until(lambda: holder(lock) == staying.pid, "it takes over")
        lease.beat()
        assert pids_of(lease.folder) == [staying.pid]
        staying.terminate()
        assert staying.wait(timeout=300) == 0
        assert not is_held(lock)
    finally:
        staying.kill()
        staying.wait()
