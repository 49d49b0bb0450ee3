"""One configuration in a process of its own: builds it, trains while told to, says when steps were complete.

It runs in a fork of the fork server, speaks `worker_protocol`, and ends when its coordinator does.
"""

import importlib
import math
import os
import random
import time
import traceback
from typing import Any

from foundation.errors import LucidError
from profiler_jobs.workers.host_speed import PROBE_EVERY_S, Probe, probe_core
from profiler_jobs.workers.step_timer import CudaTimer, HostTimer, StepTimer
from profiler_jobs.workers.worker_protocol import Channel, ChannelClosedError, Message
from profiler_jobs.workloads import find_job_type
from profiler_jobs.zoo.training_step import TrainingStep

ALIVE_EVERY_S = 1.0
_IDLE_WAIT_S = 60.0
# How the libraries under PyTorch name a failed allocation where they do not raise its OutOfMemoryError.
_OUT_OF_MEMORY_WORDS = (
    "out of memory",
    "cudaerrormemoryallocation",
    "alloc_failed",  # CUBLAS_STATUS_ALLOC_FAILED, CUDNN_STATUS_ALLOC_FAILED
    "allocation_failed",  # CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED
    "can't allocate memory",
    "not enough memory",
)


def run_worker(channel: Channel, task: Message) -> int:
    """Run `{job_type, catalogue, device, uuid, seed, probe}` until told to stop; return the exit status."""
    worker = _Worker(channel, task)
    try:
        worker.run()
    except ChannelClosedError:
        return 0
    except Exception as error:
        traceback.print_exc()
        channel.send(
            {
                "said": "failed",
                "out_of_memory": is_out_of_memory(error),
                "no_cuda": isinstance(error, CudaUnusableError),
                "error": first_line(error),
                "stage": worker.stage,
                "held_mib": worker.held_mib(),
            }
        )
        return 1
    return 0


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that memory, of the device or of the host, could not be had."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    message = str(error).lower()
    return isinstance(error, RuntimeError) and any(words in message for words in _OUT_OF_MEMORY_WORDS)


def first_line(error: BaseException) -> str:
    """Return `ValueError: what it says first`."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


class CudaUnusableError(LucidError):
    """CUDA cannot be initialised in this process."""


def check_gpu(torch: Any, uuid: str | None) -> None:
    """Initialise CUDA, and see that PyTorch sees one GPU, the one of this UUID.

    Raises CudaUnusableError when CUDA cannot be had, LucidError when it is not that GPU's.
    """
    cuda = torch.cuda
    try:
        cuda.init()
    except Exception as error:  # by cause and build: RuntimeError, AssertionError, AcceleratorError
        if is_out_of_memory(error):
            raise
        raise CudaUnusableError(
            f"PyTorch {torch.__version__} cannot use the GPU ({first_line(error)}).",
            remedy="Install a build with CUDA that fits the driver.",
        ) from error
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if cuda.device_count() != 1:
        raise LucidError(f"PyTorch sees {cuda.device_count()} GPUs with CUDA_VISIBLE_DEVICES={visible}.")
    cuda.set_device(0)
    visible_uuid = str(getattr(cuda.get_device_properties(0), "uuid", ""))  # PyTorch before 2.5 does not say
    if (
        uuid
        and uuid.startswith("GPU-")
        and visible_uuid
        and visible_uuid.removeprefix("GPU-") != uuid.removeprefix("GPU-")
    ):
        raise LucidError(f"PyTorch sees the GPU {visible_uuid} with CUDA_VISIBLE_DEVICES={visible}.")


class _Worker:
    def __init__(self, channel: Channel, task: Message) -> None:
        self.stage = "while it was built"
        self._channel = channel
        self._task = task
        self._torch: Any = importlib.import_module("torch")
        self._on_gpu = str(task["device"]).startswith("cuda")
        self._timer: StepTimer = CudaTimer(self._torch) if self._on_gpu else HostTimer()
        self._said_s = time.monotonic()

    def run(self) -> None:
        training = self._build()
        self._say({"said": "built", "examples_per_step": training.examples_per_step})
        while True:
            command = self._channel.receive(_IDLE_WAIT_S)
            if command is None:
                continue
            if command["do"] == "stop":
                return
            if command["do"] == "train" and not self._train(training, command):
                return

    def held_mib(self) -> float | None:
        """Return how much of the device's memory PyTorch has taken; None off a GPU or when it cannot say."""
        if not self._on_gpu:
            return None
        try:
            return float(self._torch.cuda.memory_reserved()) / 2**20
        except Exception:
            return None  # an error is being reported already

    def _build(self) -> TrainingStep:
        task, torch = self._task, self._torch
        if self._on_gpu:
            check_gpu(torch, task["uuid"])
        random.seed(task["seed"])
        importlib.import_module("numpy").random.seed(task["seed"])
        torch.manual_seed(task["seed"])
        job_type = find_job_type(task["job_type"])
        build = importlib.import_module(task["catalogue"]).load_build(job_type)
        training: TrainingStep = build(
            batch_size=job_type.batch_size,
            amp=job_type.amp,
            device=torch.device(task["device"]),
            seed=task["seed"],
        )
        if self._on_gpu:
            torch.cuda.synchronize()
        return training

    def _train(self, training: TrainingStep, command: Message | None) -> bool:
        """Train until paused; False when told to stop. `command` is a goal, said once it is reached."""
        self.stage = "while it trained"
        timer, goal = self._timer, command
        probes: list[Probe] = []
        next_probe_s = 0.0 if self._task["probe"] else math.inf
        timer.start()
        while True:
            training.step()
            timer.step_done()
            if time.monotonic() >= next_probe_s:
                probes.append(probe_core())
                next_probe_s = probes[-1][0] + PROBE_EVERY_S
            done = timer.completions_s
            if goal and len(done) >= goal["steps"] and done and done[-1] >= goal["until_s"]:
                self._say({"said": "reached"})
                goal = None
            elif time.monotonic() - self._said_s >= ALIVE_EVERY_S:
                self._say({"said": "alive"})
            command = self._channel.receive(0.0)
            if command is None:
                continue
            if command["do"] == "train":
                goal = command
                continue
            timer.finish()
            if command["do"] == "stop":
                return False
            self._say(
                {
                    "said": "paused",
                    "begin_s": timer.begin_s,
                    "completions_s": list(timer.completions_s),
                    "probes": probes,
                }
            )
            return True

    def _say(self, message: Message) -> None:
        self._said_s = time.monotonic()
        self._channel.send(message)
