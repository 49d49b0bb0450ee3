"""The run harness over real processes, on the processor: what a run says, and that nothing of it stays."""

import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest

from foundation.errors import BadInputError, ServiceUnavailableError
from profiler_jobs.devices import processes
from profiler_jobs.devices.device import DeviceKind, DeviceWindow, OutOfMemory, RunFailure
from profiler_jobs.devices.host_cpu import HostCpu
from profiler_jobs.devices.processes import ProcessDevice, worker_environment
from profiler_jobs.workloads import list_job_types

pytest.importorskip("torch")
pytestmark = [pytest.mark.slow, pytest.mark.thorough("PyTorch")]

HERE = Path(__file__).parent
PATIENCE_S = 60.0
EXAMPLES_PER_STEP = 4
ALONE = (DeviceWindow((0,), 0.2),)
BOTH = (DeviceWindow((0,), 0.4), DeviceWindow((0, 1), 0.4), DeviceWindow((1,), 0.4))


def _job_type(model):
    return next(job_type for job_type in list_job_types() if job_type.model.name == model)


@contextmanager
def _device(step_log=None):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(HERE))
        if step_log:
            patch.setenv("STEP_LOG", str(step_log))
        with ProcessDevice(HostCpu(), catalogue="tiny_workloads", settle_s=0.05) as device:
            yield device


@pytest.fixture(scope="module")
def device():
    with _device() as device:
        yield device


def _run(device, *models, windows=ALONE):
    return device.run([_job_type(model) for model in models], windows, warmup_s=0.0)


def _children(pid):
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        found.setdefault(int(fields[1]), []).append((int(stat.parent.name), int(fields[19])))
    tree = list(found.get(pid, []))
    for child, _ in tree:
        tree += found.get(child, [])
    return tree


def _workers(pid):
    return [process for process in _children(pid) if _is_worker(process)]


def _parent(process):
    return int(Path(f"/proc/{process[0]}/stat").read_text().rpartition(")")[2].split()[1])


def _is_worker(process):
    try:
        return b"workers.fork_server" in Path(f"/proc/{_parent(process)}/cmdline").read_bytes()
    except OSError:
        return False


def _exists(process):
    pid, started = process
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return int(fields[19]) == started and fields[0] != "Z"


def _wait_until(condition, what):
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s, f"waited in vain: {what}"
        time.sleep(0.05)


@contextmanager
def _one_core():
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def test_on_one_core_a_pair_shares_it_and_what_is_paused_does_not_step(tmp_path):
    with _one_core(), _device(step_log=tmp_path) as device:
        records = _run(device, "NeuMF", "VGG", windows=BOTH * 2)
        assert 0.0 < device.run_overhead_s() < PATIENCE_S
    assert not isinstance(records, OutOfMemory | RunFailure), records
    assert [record.window for record in records] == list(BOTH * 2)
    logs = [_Log(tmp_path / name) for name in ("NeuMF", "VGG")]
    for record in records:
        busy = 0.0
        for own, log in enumerate(logs):
            steps, cpu_s = log.inside(record)
            assert (steps > 0) == (own in record.window.active)
            if own not in record.window.active:
                assert record.speeds[own] is None
                assert record.steps[own] == 0
                continue
            # Speeds and whole steps are those of the log, but for steps at the edges.
            assert abs(record.steps[own] - steps) <= 2
            assert abs(record.speeds[own] * record.seconds / EXAMPLES_PER_STEP - steps) <= 2
            busy += record.speeds[own] / (EXAMPLES_PER_STEP * steps / cpu_s)
        # Each one's speed relative to a core of its own: a core is not enough for both, however busy it is.
        assert busy < 1.25
        assert record.telemetry.gpu_util_pct < 125.0
        assert record.overlap > 0.5
    assert all(before.started < after.started for before, after in pairwise(records))
    pairs = [record for record in records if len(record.window.active) == 2]
    assert max(record.overlap for record in pairs) > 0.9
    # The two do the same. Other work on the machine may spoil one window.
    assert any(0.5 < pair.speeds[0] / pair.speeds[1] < 2.0 for pair in pairs)


class _Log:
    """What the workload itself noted of its steps: the time and its processor time after each."""

    def __init__(self, path):
        self._steps = [[float(word) for word in line.split()] for line in path.read_text().splitlines()]
        self._now = datetime.now(UTC), time.monotonic()

    def inside(self, record):
        """Return how many steps ended in the record's window, and the processor time they took."""
        now, now_s = self._now
        begin_s = now_s - (now - record.started).total_seconds()
        inside = [cpu_s for at_s, cpu_s in self._steps if begin_s <= at_s < begin_s + record.seconds]
        return len(inside), (inside[-1] - inside[0]) * len(inside) / max(
            1, len(inside) - 1
        ) if inside else 0.0


def test_every_run_has_workers_of_its_own_and_leaves_none(device):
    for _ in range(2):
        assert len(_run(device, "NeuMF")) == 1
        assert not _workers(os.getpid())
        assert device.description.kind is DeviceKind.CPU


@pytest.mark.parametrize(
    ("models", "said"),
    [
        (["PPO"], "PPO/.* failed while it trained: ValueError: the loss is not a number$"),
        (["NeuMF", "PPO"], "PPO/.* failed while it trained: ValueError: the loss is not a number$"),
        (["PointNet"], "PointNet/.* ended by itself with status 7"),
        (["NeuMF", "DCGAN"], "DCGAN/.* was killed"),
    ],
)
def test_a_worker_that_breaks_off_fails_the_run_with_its_last_words(device, models, said):
    outcome = _run(device, *models, windows=(DeviceWindow((len(models) - 1,), 1.0),))
    assert isinstance(outcome, RunFailure)
    assert re.match(said, outcome.reason), outcome.reason
    assert not _workers(os.getpid())
    if "PPO" in models:
        assert outcome.last_words.startswith("Traceback")
        assert outcome.last_words.endswith("and more lines")
    if "PointNet" in models:
        assert outcome.last_words == "last words"


def test_a_worker_that_stands_still_fails_the_run(device, monkeypatch):
    monkeypatch.setattr(device, "_silence_limit_s", 3.0)
    outcome = _run(device, "NeuMF", "LSTM", windows=(DeviceWindow((1,), 1.0),))
    assert isinstance(outcome, RunFailure)
    assert re.match(r"LSTM/.* stood still for \d+ s", outcome.reason), outcome.reason
    assert not _workers(os.getpid())


@pytest.mark.parametrize(
    ("models", "said"),
    [
        (["NeuMF", "TD3"], "TD3/.* failed while it trained: OutOfMemoryError: CUDA out of memory. Tried"),
        (["BERT"], "BERT/.* failed while it was built: MemoryError"),
    ],
)
def test_out_of_memory_is_a_finding(device, models, said):
    outcome = _run(device, *models, windows=(DeviceWindow((len(models) - 1,), 1.0),))
    assert isinstance(outcome, OutOfMemory)
    assert re.match(said, outcome.detail), outcome.detail
    assert outcome.needed_mib is None
    assert outcome.capacity_mib == device.description.memory_mib > 0.0
    assert not _workers(os.getpid())


COORDINATOR = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in what shells start behind them
from profiler_jobs.devices.device import DeviceWindow
from profiler_jobs.devices.host_cpu import HostCpu
from profiler_jobs.devices.processes import ProcessDevice
from profiler_jobs.workloads import find_job_type
device = ProcessDevice(HostCpu(), catalogue="tiny_workloads")
device.run([find_job_type(name) for name in sys.argv[1:]], [DeviceWindow((0, 1), 3_600.0)], warmup_s=0.0)
"""


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_outlives_its_coordinator_whatever_ends_it(tmp_path, ending):
    names = [_job_type("NeuMF").name, _job_type("VGG").name]
    environment = {
        **os.environ,
        "PYTHONPATH": f"{HERE}{os.pathsep}{HERE.parents[1]}",
        "STEP_LOG": str(tmp_path),
    }
    with subprocess.Popen(
        [sys.executable, "-c", COORDINATOR, *names], env=environment, stderr=subprocess.DEVNULL
    ) as coordinator:
        try:
            logs = [tmp_path / "NeuMF", tmp_path / "VGG"]
            _wait_until(lambda: all(log.exists() and log.stat().st_size for log in logs), "steps of both")
            left = _children(coordinator.pid)
            assert len(left) == 3  # the fork server and two workers
            coordinator.send_signal(ending)
            coordinator.wait(PATIENCE_S)
            _wait_until(lambda: not any(map(_exists, left)), f"{left} to end")
        finally:
            coordinator.kill()


class _Haunted:
    """Telemetry of a device that a process which is not ours holds all the time, another from the run on."""

    def __init__(self, telemetry):
        self._telemetry = telemetry
        self._held = (1,)

    def __getattr__(self, name):
        return getattr(self._telemetry, name)

    def watch(self, process_ids):
        self._telemetry.watch(process_ids)
        self._held = (1, 2)

    def process_ids(self):
        return self._held


def test_a_process_that_stays_on_the_device_fails_the_run(device, monkeypatch):
    monkeypatch.setattr(processes, "_RELEASE_LIMIT_S", 0.2)
    monkeypatch.setattr(device, "_telemetry", _Haunted(HostCpu()))
    assert _run(device, "NeuMF") == RunFailure("Processes 2 hold the device after the run.")


def test_a_fork_server_that_is_killed_fails_the_run_and_the_next_run_has_another(device):
    with ThreadPoolExecutor() as elsewhere:
        run = elsewhere.submit(_run, device, "NeuMF", "VGG", windows=(DeviceWindow((0, 1), PATIENCE_S),))
        _wait_until(lambda: len(_workers(os.getpid())) == 2, "two workers")
        left = _workers(os.getpid())
        os.kill(_parent(left[0]), signal.SIGKILL)
        outcome = run.result(PATIENCE_S)
    assert isinstance(outcome, RunFailure)
    assert "was killed" in outcome.reason
    _wait_until(lambda: not any(map(_exists, left)), f"{left} to end")
    assert len(_run(device, "NeuMF")) == 1


def test_what_cannot_be_imported_ends_the_start_with_its_words(monkeypatch):
    monkeypatch.setattr(processes, "PRELOAD", ("no_such_module",))
    with (
        _device() as device,
        pytest.raises(ServiceUnavailableError, match="No module named 'no_such_module'"),
    ):
        _run(device, "NeuMF")


def test_a_worker_sees_one_gpu_and_its_share_of_the_cores():
    cpu = HostCpu().describe()
    shown = worker_environment(replace(cpu, kind=DeviceKind.GPU, uuid="GPU-123"), threads=3)
    assert shown["CUDA_VISIBLE_DEVICES"] == "GPU-123"
    assert shown["OMP_NUM_THREADS"] == "3"
    assert worker_environment(cpu, threads=1)["CUDA_VISIBLE_DEVICES"] == ""
    with pytest.raises(BadInputError, match="no UUID"):
        worker_environment(replace(cpu, kind=DeviceKind.GPU), threads=1)


@pytest.mark.parametrize(
    "window",
    [DeviceWindow((), 1.0), DeviceWindow((1,), 1.0), DeviceWindow((0, 0), 1.0), DeviceWindow((0,), 0.0)],
)
def test_a_window_must_name_what_trains(device, window):
    with pytest.raises(BadInputError, match="A window"):
        _run(device, "NeuMF", windows=(window,))
