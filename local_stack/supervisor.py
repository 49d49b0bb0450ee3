"""A small supervisor: keeps a few processes running and leaves nothing behind when it ends.

`python -m local_stack.supervisor RUN_DIR` reads `RUN_DIR/processes.json`, starts each process as a group of
its own and starts a dead one again after a pause that doubles up to half a minute. On SIGTERM or SIGINT every
group gets SIGTERM, after a grace period SIGKILL. On Linux the supervisor adopts orphaned grandchildren
(PR_SET_CHILD_SUBREAPER), so that processes which left their group are ended too.

Logs are rotated by size while their processes write on (`process_logs.py`).

Files in RUN_DIR: `processes.json` (what to run), `supervisor.json` (the supervising process), `status.json`
(how each process fares).
"""

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import psutil

from foundation import strict_json
from foundation.private_files import private_folder
from foundation.replaced_files import replace_file
from foundation.retention_settings import retention_settings
from local_stack.process_logs import rotate_logs

PROCESSES_FILE = "processes.json"
SUPERVISOR_FILE = "supervisor.json"
STATUS_FILE = "status.json"
STACK_VARIABLE = "LUCID_STACK"  # every process of a stack carries it; its value names the stack's folder

GRACE_S = 8.0
POLL_S = 0.5
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0
FIRST_UPKEEP_S = 600.0
STEADY_AFTER_S = 60.0  # a process that lived this long starts with a short pause again

_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class ProcessSpec:
    """One process: its name, its command line and its log.

    `environment` is added to the supervisor's, and so are `secrets`: variables, each with the contents
    of files, so that they stand in no list of processes to run. Before it starts the file `waits_for` must
    exist, and a process listen on `waits_for_port` of loopback. One with `every_s` ends by itself and is
    started again so many seconds later, for the first time when the others have had time to come up.
    """

    name: str
    argv: tuple[str, ...]
    log: str
    waits_for: str | None = None
    waits_for_port: int | None = None
    every_s: float | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)

    def surroundings(self) -> dict[str, str]:
        """Its environment; raises OSError for a secret that cannot be read."""
        secrets = {name: Path(file).read_text(encoding="utf-8") for name, file in self.secrets.items()}
        return {**os.environ, **self.environment, **secrets}

    def may_start(self) -> bool:
        """Whether what it waits for is there."""
        if self.waits_for is not None and not Path(self.waits_for).exists():
            return False
        return self.waits_for_port is None or _listens(self.waits_for_port)


@dataclass
class _Managed:
    spec: ProcessSpec
    process: subprocess.Popen[bytes] | None = None
    started_s: float = 0.0
    start_after_s: float = 0.0
    pause_s: float = FIRST_PAUSE_S
    restarts: int = 0
    last_exit: int | None = None


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(POLL_S)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, all of it or nothing, and its folder."""
    private_folder(path.parent, tighten=False)
    replace_file(path, text)


def read_json(path: Path) -> Any:
    """Return a JSON file's document, or None when it is missing or was cut off."""
    try:
        return strict_json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        return None


def write_processes(run_dir: Path, specs: Sequence[ProcessSpec]) -> None:
    """Say what a supervisor of `run_dir` shall run."""
    write_private(run_dir / PROCESSES_FILE, json.dumps([asdict(spec) for spec in specs], indent=2))


def running_supervisor(run_dir: Path) -> psutil.Process | None:
    """Return the supervisor of `run_dir`, or None; a number that another process got since does not count."""
    record = read_json(run_dir / SUPERVISOR_FILE)
    if not isinstance(record, dict):
        return None
    try:
        process = psutil.Process(record["pid"])
        same = abs(process.create_time() - record["created_s"]) < 1.0
        return process if same and process.status() != psutil.STATUS_ZOMBIE else None
    except (psutil.Error, KeyError):
        return None


def end_processes(processes: Sequence[psutil.Process], grace_s: float) -> list[psutil.Process]:
    """Send SIGTERM, wait, then SIGKILL; return what is alive even then."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.terminate()
    _, alive = psutil.wait_procs(processes, timeout=grace_s)
    for process in alive:
        with contextlib.suppress(psutil.Error):
            process.kill()
    _, alive = psutil.wait_procs(alive, timeout=3.0)
    return list(alive)


def processes_of_stack(mark: str, status: Any = None) -> list[psutil.Process]:
    """Find processes that carry the stack's mark, the recorded ones and all that descend from them.

    The mark alone is not enough: a process that sets its title overwrites its environment on Linux.
    """
    processes: dict[int, psutil.Process] = {}
    recorded = {
        entry["pid"]: entry.get("created_s")
        for entry in (status or {}).values()
        if isinstance(entry, dict) and entry.get("pid")
    }
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            marked = process.environ().get(STACK_VARIABLE) == mark
            is_ours = (
                process.pid in recorded and abs(process.create_time() - (recorded[process.pid] or 0)) < 1.0
            )
            if not (marked or is_ours):
                continue
            for one in (process, *process.children(recursive=True)):
                if one.status() != psutil.STATUS_ZOMBIE:
                    processes[one.pid] = one
    own = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    return [process for pid, process in processes.items() if pid not in own]


class Supervisor:
    """Runs the processes of one folder until it is told to stop."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        document = read_json(run_dir / PROCESSES_FILE)
        if document is None:
            raise FileNotFoundError(run_dir / PROCESSES_FILE)
        self._managed = [
            _Managed(ProcessSpec(**{**entry, "argv": tuple(entry["argv"])})) for entry in document
        ]
        for managed in self._managed:
            if managed.spec.every_s is not None:
                managed.start_after_s = time.monotonic() + min(managed.spec.every_s, FIRST_UPKEEP_S)
        self._stopping = False
        self._retention = retention_settings()

    def run(self) -> None:
        """Keep everything running until SIGTERM or SIGINT."""
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, self._stop)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        _adopt_orphans()
        me = psutil.Process()
        write_private(
            self.run_dir / SUPERVISOR_FILE, json.dumps({"pid": me.pid, "created_s": me.create_time()})
        )
        try:
            while not self._stopping:
                changed = [self._tend(managed) for managed in self._managed]
                if any(changed):
                    self._write_status()
                self._reap_adopted()
                self._rotate_logs()
                time.sleep(POLL_S)
        finally:
            self._end_all()
            (self.run_dir / STATUS_FILE).unlink(missing_ok=True)
            (self.run_dir / SUPERVISOR_FILE).unlink(missing_ok=True)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._stopping = True

    def _tend(self, managed: _Managed) -> bool:
        """Start what is due, notice what died; say whether anything changed."""
        now_s = time.monotonic()
        if managed.process is None:
            if now_s < managed.start_after_s or not managed.spec.may_start():
                return False
            self._start(managed, now_s)
            return True
        code = managed.process.poll()
        if code is None:
            return False
        if code == 0 and managed.spec.every_s is not None:
            managed.process, managed.last_exit = None, code
            managed.start_after_s = now_s + managed.spec.every_s
            return True
        # The rest of a dead group would hold the port that its successor needs.
        _signal_group(managed.process.pid, signal.SIGKILL)
        if now_s - managed.started_s > STEADY_AFTER_S:
            managed.pause_s = FIRST_PAUSE_S
        print(f"{managed.spec.name} ended with {code}; starting again in {managed.pause_s:g} s", flush=True)
        managed.process, managed.last_exit = None, code
        managed.restarts += 1
        managed.start_after_s = now_s + managed.pause_s
        managed.pause_s = min(2 * managed.pause_s, LONGEST_PAUSE_S)
        return True

    def _start(self, managed: _Managed, now_s: float) -> None:
        log = Path(managed.spec.log)
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            try:
                managed.process = subprocess.Popen(
                    managed.spec.argv,
                    env=managed.spec.surroundings(),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                output.write(f"could not start: {error}\n".encode())
                managed.last_exit = 127
                managed.restarts += 1
                managed.start_after_s = now_s + managed.pause_s
                managed.pause_s = min(2 * managed.pause_s, LONGEST_PAUSE_S)
                return
        managed.started_s = now_s

    def _rotate_logs(self) -> None:
        folders = {Path(managed.spec.log).parent for managed in self._managed}
        for folder in folders:
            with contextlib.suppress(OSError):  # tried again at the next look
                rotate_logs(folder, self._retention.process_log_bytes, self._retention.process_log_files)

    def _write_status(self) -> None:
        status: dict[str, Any] = {}
        for managed in self._managed:
            pid = managed.process.pid if managed.process else None
            created_s = None
            if pid is not None:
                with contextlib.suppress(psutil.Error):
                    created_s = psutil.Process(pid).create_time()
            status[managed.spec.name] = {
                "pid": pid,
                "created_s": created_s,
                "restarts": managed.restarts,
                "last_exit": managed.last_exit,
            }
        write_private(self.run_dir / STATUS_FILE, json.dumps(status, indent=2))

    def _reap_adopted(self) -> None:
        mine = {managed.process.pid for managed in self._managed if managed.process}
        for child in psutil.Process().children():
            with contextlib.suppress(psutil.Error, ChildProcessError):
                if child.pid not in mine and child.status() == psutil.STATUS_ZOMBIE:
                    os.waitpid(child.pid, os.WNOHANG)

    def _end_all(self) -> None:
        groups = [managed.process.pid for managed in self._managed if managed.process]
        for group in groups:
            _signal_group(group, signal.SIGTERM)
        deadline_s = time.monotonic() + GRACE_S
        while time.monotonic() < deadline_s and any(
            managed.process and managed.process.poll() is None for managed in self._managed
        ):
            self._reap_adopted()
            time.sleep(0.1)
        for managed in self._managed:
            if managed.process:
                if managed.process.poll() is None:
                    print(f"{managed.spec.name} ignored SIGTERM for {GRACE_S:g} s; killing it", flush=True)
                _signal_group(managed.process.pid, signal.SIGKILL)
                managed.process.wait()
        # What left its group was adopted by this process when its parent ended.
        for _ in range(5):
            still_running = [
                child
                for child in psutil.Process().children(recursive=True)
                if child.is_running() and child.status() != psutil.STATUS_ZOMBIE
            ]
            if not still_running:
                break
            end_processes(still_running, grace_s=2.0)
        self._reap_adopted()


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _adopt_orphans() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


if __name__ == "__main__":
    Supervisor(Path(sys.argv[1])).run()
