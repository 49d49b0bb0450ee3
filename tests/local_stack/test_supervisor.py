"""The supervisor: what dies comes back, what is told to stop leaves nothing behind."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from local_stack.stack import down
from local_stack.supervisor import (
    STATUS_FILE,
    ProcessSpec,
    read_json,
    running_supervisor,
    write_private,
    write_processes,
)
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

# A process that starts another one in a session of its own, which ignores SIGTERM; both write their number.
STUBBORN = """
import os, signal, subprocess, sys, time
if len(sys.argv) == 2:
    subprocess.Popen([sys.executable, __file__, sys.argv[1], "child"], start_new_session=True)
else:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open(sys.argv[1], "a") as file:
    file.write(f"{os.getpid()}\\n")
time.sleep(600)
"""


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def pids_in(file: Path) -> list[int]:
    return [int(line) for line in file.read_text().split()] if file.exists() else []


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Callable[[list[ProcessSpec]], subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []

    def start(specs: list[ProcessSpec]) -> subprocess.Popen[bytes]:
        run_dir = tmp_path / "run"
        write_processes(run_dir, specs)
        with (tmp_path / "supervisor.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "local_stack.supervisor", str(run_dir)],
                env={**os.environ, "LUCID_STACK": str(tmp_path)},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        started.append(process)
        wait_until(lambda: running_supervisor(run_dir))
        return process

    yield start
    down(tmp_path, tell=lambda line: None)
    for process in started:
        process.wait(timeout=300)


@pytest.fixture
def stubborn(tmp_path: Path) -> tuple[ProcessSpec, Path]:
    script, numbers = tmp_path / "stubborn.py", tmp_path / "numbers"
    script.write_text(STUBBORN)
    spec = ProcessSpec(
        "stubborn", (sys.executable, str(script), str(numbers)), str(tmp_path / "stubborn.log")
    )
    return spec, numbers


def test_down_ends_processes_that_left_their_group_and_ignore_sigterm(stack, stubborn, tmp_path) -> None:
    spec, numbers = stubborn
    stack([spec])
    wait_until(lambda: len(pids_in(numbers)) == 2)
    assert all(alive(pid) for pid in pids_in(numbers))
    assert down(tmp_path, tell=lambda line: None)
    assert not any(alive(pid) for pid in pids_in(numbers))
    assert not list((tmp_path / "run").glob("s*.json"))


def test_down_cleans_up_after_a_supervisor_that_was_killed(stack, stubborn, tmp_path) -> None:
    spec, numbers = stubborn
    supervisor = stack([spec])
    wait_until(lambda: len(pids_in(numbers)) == 2)
    wait_until(lambda: read_json(tmp_path / "run" / STATUS_FILE))
    supervisor.kill()
    supervisor.wait()
    assert down(tmp_path, tell=lambda line: None)
    assert not any(alive(pid) for pid in pids_in(numbers))


def test_a_dead_process_comes_back(stack, stubborn, tmp_path) -> None:
    spec, _ = stubborn
    stack([spec])
    status_file = tmp_path / "run" / STATUS_FILE
    wait_until(lambda: (read_json(status_file) or {}).get("stubborn", {}).get("pid"))
    first = read_json(status_file)["stubborn"]["pid"]
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: (read_json(status_file) or {}).get("stubborn", {}).get("pid") not in (None, first))
    assert read_json(status_file)["stubborn"]["restarts"] == 1
    assert read_json(status_file)["stubborn"]["last_exit"] == -signal.SIGKILL


def test_a_program_that_is_not_there_is_reported_and_tried_again(stack, tmp_path) -> None:
    log = tmp_path / "missing.log"
    stack([ProcessSpec("missing", ("/nowhere/program",), str(log))])
    wait_until(
        lambda: (
            ((read_json(tmp_path / "run" / STATUS_FILE) or {}).get("missing") or {}).get("restarts", 0) >= 2
        )
    )
    assert "could not start" in log.read_text()


def test_a_process_waits_for_its_file(stack, stubborn, tmp_path) -> None:
    spec, numbers = stubborn
    gate = tmp_path / "gate"
    stack([ProcessSpec(spec.name, spec.argv, spec.log, waits_for=str(gate))])
    time.sleep(1.0)
    assert not numbers.exists()
    gate.touch()
    wait_until(lambda: len(pids_in(numbers)) == 2)


def test_a_process_waits_for_its_port(stack, stubborn, tmp_path) -> None:
    spec, numbers = stubborn
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        stack([ProcessSpec(spec.name, spec.argv, spec.log, waits_for_port=server.getsockname()[1])])
        time.sleep(1.0)
        assert not numbers.exists()
        server.listen()
        wait_until(lambda: len(pids_in(numbers)) == 2)


def test_a_reused_process_number_is_not_a_supervisor(tmp_path) -> None:
    me = psutil.Process()
    record = tmp_path / "supervisor.json"
    write_private(record, json.dumps({"pid": me.pid, "created_s": me.create_time()}))
    assert running_supervisor(tmp_path) == me
    write_private(record, json.dumps({"pid": me.pid, "created_s": me.create_time() - 100}))
    assert running_supervisor(tmp_path) is None
    record.write_text('{"pid": 1')
    assert running_supervisor(tmp_path) is None


def test_a_log_that_grows_without_end_stays_small_and_its_process_alive(
    stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LUCID_RETENTION", '{"process_log_mib": 0.05, "process_log_files": 2}')
    talk = (
        "import itertools, time\n"
        "for n in itertools.count(): print(f'{n:063d}', flush=True); time.sleep(0.0005)"
    )
    stack([ProcessSpec("talker", (sys.executable, "-c", talk), str(tmp_path / "talker.log"))])
    oldest = tmp_path / "talker.log.2"
    wait_until(oldest.exists)
    first = oldest.read_bytes()
    wait_until(lambda: oldest.read_bytes() != first)
    status = read_json(tmp_path / "run" / STATUS_FILE)["talker"]
    assert status["restarts"] == 0
    assert alive(status["pid"])
    assert not (tmp_path / "talker.log.3").exists()
    for log in tmp_path.glob("talker.log*"):
        assert log.stat().st_mode & 0o077 == 0 or log.name == "talker.log"
    # What a rotation may lose is what was written in its last microseconds.
    newest = tmp_path / "talker.log.1"
    numbers = [int(line) for log in (oldest, newest) for line in log.read_text().split()]
    assert len(numbers) > 100
    assert numbers == sorted(set(numbers))


def test_a_process_by_the_clock_ends_and_runs_again(stack, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    write = f"open({str(ran)!r}, 'a').write('x')"
    stack([ProcessSpec("upkeep", (sys.executable, "-c", write), str(tmp_path / "upkeep.log"), every_s=0.5)])
    wait_until(lambda: ran.exists() and len(ran.read_text()) >= 3)
    assert read_json(tmp_path / "run" / STATUS_FILE)["upkeep"]["restarts"] == 0
