"""The worker's own parts: which errors mean memory, which GPU it accepts, completion times from events."""

from types import SimpleNamespace

import pytest

from foundation.errors import LucidError
from profiler_jobs.workers import step_timer
from profiler_jobs.workers.step_timer import STEPS_IN_FLIGHT, CudaTimer
from profiler_jobs.workers.worker import CudaUnusableError, check_gpu, first_line, is_out_of_memory


class OutOfMemoryError(RuntimeError):
    """Named as PyTorch's is."""


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB."),
        RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be reported later"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"),
        RuntimeError(
            "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes."
        ),
    ],
)
def test_memory_that_could_not_be_had(error):
    assert is_out_of_memory(error)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("CUDA error: an illegal memory access was encountered"),
        RuntimeError("CUDA error: unspecified launch failure"),
        ValueError("out of memory"),
        LucidError("no GPU"),
    ],
)
def test_other_errors_are_no_finding_about_memory(error):
    assert not is_out_of_memory(error)


def test_an_error_in_one_line():
    assert first_line(ValueError("\nfirst\nsecond")) == "ValueError: first"
    assert first_line(KeyError()) == "KeyError"


UUID = "1b2c3d4e-0000-1111-2222-333344445555"


def _torch(**changes):
    answers = {"init": lambda: None, "count": 1, "uuid": UUID} | changes
    cuda = SimpleNamespace(
        init=answers["init"],
        device_count=lambda: answers["count"],
        set_device=lambda index: None,
        get_device_properties=lambda index: SimpleNamespace(uuid=answers["uuid"]),
    )
    return SimpleNamespace(cuda=cuda, __version__="2.11")


def _raise(error):
    raise error


def test_the_gpu_that_was_asked_for_is_accepted():
    check_gpu(_torch(), f"GPU-{UUID}")


@pytest.mark.parametrize(
    ("changes", "kind", "said"),
    [
        (
            {"init": lambda: _raise(RuntimeError("No CUDA GPUs are available"))},
            CudaUnusableError,
            "2.11 cannot use",
        ),
        (
            {"init": lambda: _raise(AssertionError("not compiled"))},
            CudaUnusableError,
            "Install a build with CUDA",
        ),
        ({"init": lambda: _raise(RuntimeError("CUDA error: out of memory"))}, RuntimeError, "out of memory"),
        ({"count": 2}, LucidError, "sees 2 GPUs"),
        ({"uuid": "ffffffff-0000-1111-2222-333344445555"}, LucidError, "sees the GPU ffffffff"),
    ],
)
def test_any_other_gpu_is_refused(changes, kind, said):
    with pytest.raises(kind, match=said):
        check_gpu(_torch(**changes), f"GPU-{UUID}")


class _Stream:
    """A device that runs queued kernels one after another, on a clock that the test moves."""

    def __init__(self):
        self.now_s = 100.0
        self.free_at_s = 0.0
        self.waited = 0
        self.Event = lambda enable_timing: _Event(self)

    def launch(self, host_s, device_s):
        self.now_s += host_s
        self.free_at_s = max(self.now_s, self.free_at_s) + device_s

    def synchronize(self):
        self.now_s = max(self.now_s, self.free_at_s)


class _Event:
    def __init__(self, stream):
        self._stream = stream
        self.at_s = None

    def record(self):
        self.at_s = max(self._stream.now_s, self._stream.free_at_s)

    def query(self):
        return self.at_s <= self._stream.now_s

    def synchronize(self):
        self._stream.waited += not self.query()
        self._stream.now_s = max(self._stream.now_s, self.at_s)

    def elapsed_time(self, later):
        assert later.query(), "an event that is not complete has no time"
        return (later.at_s - self.at_s) * 1e3


@pytest.mark.parametrize(("host_s", "device_s"), [(0.001, 0.010), (0.010, 0.001), (0.005, 0.005)])
def test_completion_times_are_the_devices_and_the_queue_stays_short(monkeypatch, host_s, device_s):
    stream = _Stream()
    monkeypatch.setattr(step_timer.time, "monotonic", lambda: stream.now_s)
    timer = CudaTimer(SimpleNamespace(cuda=stream))
    for _ in range(2):  # two stretches, with a pause between
        timer.start()
        ends_s = []
        for step in range(50):
            stream.launch(host_s, device_s)
            ends_s.append(stream.free_at_s)
            timer.step_done()
            assert step + 1 - len(timer.completions_s) <= STEPS_IN_FLIGHT
        behind = stream.free_at_s - stream.now_s
        assert behind <= STEPS_IN_FLIGHT * device_s + 1e-9
        timer.finish()
        assert timer.completions_s == pytest.approx(ends_s, abs=1e-9)
        assert timer.begin_s <= ends_s[0] - device_s
        stream.now_s += 5.0
    if host_s > device_s:
        assert stream.waited <= 2 * STEPS_IN_FLIGHT  # what its host holds up never waits, but to pause
