"""Whoever takes the lease on writing writes alone: nothing of an earlier holder's goes on."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from foundation.errors import BadInputError, ServiceUnavailableError
from live_scheduler.write_lease import WRITER_FOLDER, LeaseLostError, WriteLease, present_lease
from tests.waiting import wait_until


@pytest.fixture
def writes(tmp_path: Path) -> Path:
    """What `program` writes: each line that it is told."""
    return tmp_path / "written"


@pytest.fixture(autouse=True)
def program(tmp_path: Path, writes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program `tool` on PATH, which runs as long as it is told something."""
    path = tmp_path / "bin" / "tool"
    path.parent.mkdir()
    path.write_text(f'#!/bin/sh\nwhile read -r line; do echo "$line" >> {writes}; done\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{path.parent}{os.pathsep}{os.environ['PATH']}")


def start(command: list[str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def tell(process: "subprocess.Popen[str]", text: str) -> None:
    assert process.stdin is not None
    print(text, file=process.stdin, flush=True)


def test_a_program_of_an_earlier_holder_is_ended(tmp_path: Path, writes: Path) -> None:
    daemon, switch = WriteLease(tmp_path), WriteLease(tmp_path)
    daemon.take()
    process = start(daemon.command(["tool"]))
    tell(process, "in time")
    wait_until(writes.exists, "it writes")
    switch.take(patience_s=0.2)
    assert process.wait(timeout=60) == -signal.SIGKILL
    with pytest.raises(BrokenPipeError):  # noqa: PT012
        for _ in range(10):
            tell(process, "late")
    assert writes.read_text() == "in time\n"
    assert switch.held
    assert not daemon.held


def test_a_program_that_ends_by_itself_is_waited_for(tmp_path: Path, writes: Path) -> None:
    daemon, switch = WriteLease(tmp_path), WriteLease(tmp_path)
    daemon.take()
    process = start(daemon.command(["tool"]))
    tell(process, "first")
    wait_until(writes.exists, "it writes")
    tell(process, "told before its daemon was killed")
    assert process.stdin is not None
    process.stdin.close()
    switch.take(patience_s=60.0)
    assert process.wait(timeout=60) == 0
    assert writes.read_text() == "first\ntold before its daemon was killed\n"


def test_two_programs_of_one_holder_run_beside_each_other(tmp_path: Path, writes: Path) -> None:
    daemon = WriteLease(tmp_path)
    daemon.take()
    session, second = start(daemon.command(["tool"])), start(daemon.command(["tool"]))
    second.communicate("at once\n", timeout=60)
    assert session.poll() is None
    assert writes.read_text() == "at once\n"
    session.communicate("", timeout=60)


def test_a_stopped_program_is_ended(tmp_path: Path) -> None:
    daemon = WriteLease(tmp_path)
    daemon.take()
    process = start(daemon.command(["tool"]))
    wait_until(lambda: psutil.Process(process.pid).name() == "tool", "it runs")
    process.send_signal(signal.SIGSTOP)
    WriteLease(tmp_path).take(patience_s=0.0)
    assert process.wait(timeout=60) == -signal.SIGKILL


def test_a_command_that_was_made_before_starts_nothing_afterwards(tmp_path: Path, writes: Path) -> None:
    daemon = WriteLease(tmp_path)
    daemon.take()
    command = daemon.command(["tool"])  # and now it is stopped
    WriteLease(tmp_path).take()
    process = start(command)
    _, words = process.communicate("late\n", timeout=60)
    assert process.returncode != 0
    assert "tool" in words
    assert not writes.exists()
    with pytest.raises(LeaseLostError):
        daemon.command(["tool"])
    with pytest.raises(LeaseLostError):
        daemon.check()


def test_the_lease_goes_to_and_fro(tmp_path: Path, writes: Path) -> None:
    leases = [WriteLease(tmp_path) for _ in range(2)]
    for turn in range(6):
        lease, other = leases[turn % 2], leases[1 - turn % 2]
        lease.take()
        assert (lease.held, other.held) == (True, False)
        start(lease.command(["tool"])).communicate(f"{turn}\n", timeout=60)
    assert writes.read_text().split() == list("012345")
    assert len(list((tmp_path / WRITER_FOLDER).iterdir())) == 1


def test_a_full_disk_is_no_hindrance_where_one_was_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon, switch = WriteLease(tmp_path), WriteLease(tmp_path)
    daemon.take()
    daemon.command(["tool"])

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.mkdir", full)
    monkeypatch.setattr("os.symlink", full)
    switch.take()
    assert switch.command(["tool"])
    assert not daemon.held
    switch.token = ""
    with pytest.raises(OSError, match="No space"):
        WriteLease(tmp_path / "other").take()


def test_what_cannot_be_written_down_is_not_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lease = WriteLease(tmp_path)
    lease.take()

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.symlink", full)
    with pytest.raises(ServiceUnavailableError, match="No space left"):
        lease.command(["tool"])


def test_a_program_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    lease = WriteLease(tmp_path)
    lease.take()
    with pytest.raises(BadInputError, match="no_such_tool is not on this machine's PATH"):
        lease.command(["no_such_tool"])


def test_it_is_renewed_where_it_is_held_and_present_while_it_is_written(tmp_path: Path) -> None:
    renewed: list[int] = []
    lease = WriteLease(tmp_path, renew=lambda: renewed.append(1))
    lease.take()
    lease.check()
    assert renewed == [1]
    assert present_lease() is None
    with lease.writing():
        assert present_lease() is lease
    assert present_lease() is None


TAKE = """
import sys
from pathlib import Path
from live_scheduler.write_lease import LeaseLostError, WriteLease
lease = WriteLease(Path(sys.argv[1]))
sys.stdin.readline()
for _ in range(20):
    try:
        lease.take()
    except LeaseLostError:
        pass
print(lease.token)
"""


def test_of_many_who_take_it_at_once_one_has_it(tmp_path: Path) -> None:
    command = [sys.executable, "-c", TAKE, str(tmp_path)]
    takers = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    for taker in takers:
        assert taker.stdin is not None
        taker.stdin.write("\n")
        taker.stdin.flush()
    tokens = [taker.communicate(timeout=300)[0].strip() for taker in takers]
    assert [taker.returncode for taker in takers] == [0] * 4
    (present,) = (each.name for each in (tmp_path / WRITER_FOLDER).iterdir())
    assert tokens.count(present) == 1
