"""Goodput of an elastic job on each number of workers, as far as measurements without gradient noise say it.

Pollux (OSDI '21, section 3) defines goodput as throughput times statistical efficiency. The throughput is
modelled here, by the measured speed-ups (`speed_up_table`). The efficiency is not: it follows from
the gradient noise of a training run, which no trace of jobs holds. It is taken as 1, as for a batch size that
stays what its user chose, so that neither larger batches nor learning rates that follow them are tuned.
"""

from functools import cache
from zlib import crc32

import numpy as np

from simulator.workload.speed_up import SpeedUp
from simulator.workload.speed_up_table import measured_speed_ups


def goodputs(curve: SpeedUp, gpus_each: int, least: int, most: int) -> tuple[float, ...]:
    """Return the goodput on `least`, `least + 1`, ..., `most` workers as a multiple of that on `least`.

    `curve` counts GPUs; each worker has `gpus_each`.
    """
    base = curve.at(least * gpus_each)
    return tuple(curve.at(workers * gpus_each) / base for workers in range(least, most + 1))


def drawn_goodputs(job_id: str, gpus_each: int, least: int, most: int, *, seed: int) -> tuple[float, ...]:
    """Return the goodputs of a job of an unknown model: one of the measured models is drawn.

    Each job has its own draw from its id and the seed, so that no other job changes it.
    """
    models = _measured_models()
    drawn = np.random.default_rng([seed, crc32(job_id.encode())]).integers(len(models))
    return goodputs(measured_speed_ups()[models[drawn]], gpus_each, least, most)


@cache
def _measured_models() -> tuple[str, ...]:
    return tuple(sorted(measured_speed_ups()))
