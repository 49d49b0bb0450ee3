"""Workloads of milliseconds, for workers of real runs: what each does follows from the model's name.

Every step is noted in the folder that STEP_LOG names, if any: in `<model>` the time (monotonic) and
the processor time after it.
"""

import os
import time
from pathlib import Path

TURNS = 20_000  # of a loop in Python: a step of about a millisecond


class Spinning:
    """Takes processor time; after `last_step` steps, does what `ending` does."""

    examples_per_step = 4

    def __init__(self, name, ending=None, last_step=0):
        self._steps = 0
        self._ending = ending
        self._last_step = last_step
        folder = os.environ.get("STEP_LOG")
        self._log = (Path(folder) / name).open("a") if folder else None

    def step(self):
        if self._ending and self._steps >= self._last_step:
            self._ending()
        self._steps += 1
        total = 0
        for turn in range(TURNS):
            total += turn
        if self._log:
            print(time.monotonic(), time.process_time(), file=self._log, flush=True)


def _crash():
    raise ValueError("the loss is not a number\nand more lines")


def _run_out_of_memory():
    import torch

    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


def _hang():
    time.sleep(3_600)


def _leave():
    print("last words", flush=True)
    os._exit(7)


def _be_killed():
    os.kill(os.getpid(), 9)


_ENDINGS = {"PPO": _crash, "TD3": _run_out_of_memory, "LSTM": _hang, "PointNet": _leave, "DCGAN": _be_killed}


def load_build(job_type):
    """Return the build of the workload that the model's name stands for."""
    name = job_type.model.name

    def build(*, batch_size, amp, device, seed):
        if name == "BERT":
            raise MemoryError
        return Spinning(name, _ENDINGS.get(name), last_step=15)

    return build
