"""The worker's GPU branch end to end, against a stand-in for PyTorch whose device is a queue in time.

No number of it says anything about a GPU: it shows that the calls fit together, and what happens when they
fail.
"""

from dataclasses import replace

import pytest

from profiler_jobs.devices.device import DeviceKind, DeviceWindow, OutOfMemory, RunFailure
from profiler_jobs.devices.host_cpu import HostCpu
from profiler_jobs.devices.processes import ProcessDevice
from profiler_jobs.workloads import list_job_types

UUID = "1b2c3d4e-0000-1111-2222-333344445555"
STEP_S = 0.01

TORCH = """
import os, time
from types import SimpleNamespace
IMPORTED_BY = os.getpid()
__version__ = "0.0"
class OutOfMemoryError(RuntimeError): pass
class Event:
    def __init__(self, enable_timing=False): assert enable_timing
    def record(self): self.at_s = max(time.monotonic(), cuda.free_at_s)
    def query(self): return time.monotonic() >= self.at_s
    def synchronize(self): time.sleep(max(0.0, self.at_s - time.monotonic()))
    def elapsed_time(self, later):
        assert later.query()
        return (later.at_s - self.at_s) * 1e3
def launch(seconds):
    assert cuda.ready
    cuda.free_at_s = max(time.monotonic(), cuda.free_at_s) + seconds
def init():
    broken = os.environ.get("BROKEN")
    if broken == "always" or broken == "in forks" and os.getpid() != IMPORTED_BY:
        raise RuntimeError("CUDA error: initialization error")
    cuda.ready = True
cuda = SimpleNamespace(
    ready=False, free_at_s=0.0, Event=Event, init=init, device_count=lambda: 1, set_device=lambda index: None,
    get_device_properties=lambda index: SimpleNamespace(uuid=os.environ["CUDA_VISIBLE_DEVICES"][4:]),
    synchronize=lambda: time.sleep(max(0.0, cuda.free_at_s - time.monotonic())),
    memory_reserved=lambda: 3 * 2**30,
)
def manual_seed(seed): pass
def device(name):
    assert name == "cuda:0"
    return name
"""

CATALOGUE = f"""
import torch
class Queueing:
    examples_per_step = 10
    steps = 0
    def __init__(self, limit): self.limit = limit
    def step(self):
        self.steps += 1
        if self.steps > self.limit:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        torch.launch({STEP_S})
def load_build(job_type):
    return lambda **options: Queueing(12 if job_type.model.name == "BERT" else 10**9)
"""


class _Gpu(HostCpu):
    def describe(self):
        return replace(super().describe(), kind=DeviceKind.GPU, uuid=f"GPU-{UUID}", memory_mib=80_000.0)


@pytest.fixture
def device(tmp_path, monkeypatch):
    (tmp_path / "torch.py").write_text(TORCH)
    (tmp_path / "queueing_catalogue.py").write_text(CATALOGUE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with ProcessDevice(_Gpu(), catalogue="queueing_catalogue", settle_s=0.05) as device:
        yield device


def _run(device, *models):
    job_types = [next(each for each in list_job_types() if each.model.name == model) for model in models]
    windows = [DeviceWindow(tuple(range(len(models))), 0.5), DeviceWindow((len(models) - 1,), 0.5)]
    return device.run(job_types, windows, warmup_s=0.0)


def test_steps_are_timed_on_the_device_and_not_where_they_are_queued(device):
    records = _run(device, "NeuMF", "PPO")
    assert not isinstance(records, OutOfMemory | RunFailure), records
    for record in records:
        for own in record.window.active:
            # Each worker has a device of its own here: no queueing is faster than its steps.
            assert 0.0 < record.speeds[own] <= 10 / STEP_S * 1.02
            assert 0 < record.steps[own] <= record.seconds / STEP_S + 1
    assert max(max(filter(None, record.speeds)) for record in records) > 0.3 * 10 / STEP_S


def test_out_of_memory_says_what_was_held(device):
    outcome = _run(device, "BERT")
    assert isinstance(outcome, OutOfMemory)
    assert "failed while it trained: OutOfMemoryError: CUDA out of memory. Tried" in outcome.detail
    assert outcome.detail.endswith("(PyTorch held 3,072 MiB)")
    assert outcome.capacity_mib == 80_000.0


@pytest.mark.slow
def test_where_forks_cannot_use_cuda_workers_import_pytorch_themselves(device, monkeypatch):
    monkeypatch.setenv("BROKEN", "in forks")
    for _ in range(2):
        records = _run(device, "NeuMF")
        assert not isinstance(records, OutOfMemory | RunFailure), records


def test_where_cuda_never_works_the_run_fails_and_says_so(device, monkeypatch):
    monkeypatch.setenv("BROKEN", "always")
    outcome = _run(device, "NeuMF")
    assert isinstance(outcome, RunFailure)
    assert (
        "PyTorch 0.0 cannot use the GPU (RuntimeError: CUDA error: initialization error)." in outcome.reason
    )
