"""The windows that are replayed: days of Philly with drawn flags, beside a drawn inference load.

One draw decides nothing: the comparison's fortnight stands beside the same jobs with other flags and another
load, and beside other fortnights. Jobs are tables in the layout of `data/lyra/jobs.csv.gz`.
"""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd

from foundation.errors import BadInputError

FOLDER = Path("data") / "lyra"
PHILLY_FILE = Path("data") / "philly" / "philly_jobs.csv.gz"
DAY_S = 86_400
GPUS_PER_SERVER = 8
# Of the comparison's fortnight, which stand in for the shares of the paper's section 2.
ELASTIC_GPU_TIME, FUNGIBLE_GPU_TIME, HETEROGENEOUS_JOBS = 0.36, 0.21, 0.10
_DRAWS = ("u_checkpoint", "u_elastic", "u_hetero", "u_wrong")


@dataclass(frozen=True)
class LyraWindow:
    """Which jobs are replayed, whose flags, on how many servers, and beside which load.

    `begins` is a day of Philly (ISO); "": the comparison's fortnight, 4 to 17 October 2017. `seed` draws
    flags and puts days of the load in another order, drawn with replacement; None: both as they are given.
    `days_seed` draws the days of the jobs, with replacement, likewise.
    """

    name: str
    training_servers: int
    inference_servers: int
    days: int = 14
    begins: str = ""
    seed: int | None = None
    days_seed: int | None = None


def window_jobs(data: Path, window: LyraWindow) -> pd.DataFrame:
    """Return the window's jobs in the layout of the comparison, in the order of submission."""
    jobs = _comparison_jobs(data) if not window.begins else _philly(data, window.begins, window.days)
    if window.seed is not None:
        jobs = with_drawn_flags(jobs, window.seed)
    if window.days_seed is not None:
        return _days_drawn(jobs, window.days, window.days_seed)
    return jobs[jobs["submit_s"] < window.days * DAY_S]


def window_load(data: Path, window: LyraWindow) -> pd.DataFrame:
    """Return the inference load (`time_s`, `usage` 0 to 1) of five-minute bins, for the window's days."""
    load = _read(data / FOLDER / "inference_load.csv.gz")[["time_s", "usage"]]
    if window.seed is None:
        return load
    bins = int((load["time_s"] < DAY_S).sum())
    by_day = load["usage"].to_numpy().reshape(-1, bins)
    drawn = np.random.default_rng([window.seed, 1]).integers(len(by_day), size=len(by_day))
    return load.assign(usage=by_day[drawn].ravel())


def with_drawn_flags(jobs: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Return the same jobs (submit_s, duration_s, gpus) with flags of another draw.

    Elastic are jobs of several GPUs without some of the largest, so that they hold 36 % of the GPU time;
    fungible are jobs in a random order that hold 21 %; one job in ten is heterogeneous. An elastic job has at
    least two workers of one or two GPUs, and runs on up to twice as many; any other one worker a server.
    """
    rng = np.random.default_rng([seed, 0])
    gpus = jobs["gpus"].to_numpy()
    gpu_time = gpus * jobs["duration_s"].to_numpy()
    several = np.flatnonzero(gpus > 1)
    # Large ones are dropped first: each with a chance that its GPU time gives it.
    elastic = _drawn_up_to(
        gpu_time,
        several[np.argsort(-rng.exponential(size=len(several)) / gpu_time[several])],
        ELASTIC_GPU_TIME,
    )
    fungible = _drawn_up_to(gpu_time, rng.permutation(len(jobs)), FUNGIBLE_GPU_TIME)
    gpus_each = np.where(elastic, np.where(gpus >= 8, 2, 1), np.minimum(gpus, GPUS_PER_SERVER))
    least = gpus // gpus_each
    drawn = {name: rng.random(len(jobs)).round(4) for name in _DRAWS}
    return jobs.assign(
        elastic=elastic.astype(int),
        gpus_per_worker=gpus_each,
        workers_min=least,
        workers_max=np.where(elastic, 2 * least, least),
        fungible=fungible.astype(int),
        heterogeneous=(rng.random(len(jobs)) < HETEROGENEOUS_JOBS).astype(int),
        **drawn,
        u_err=rng.uniform(-1, 1, len(jobs)).round(4),
    )


def _drawn_up_to(gpu_time: np.ndarray, order: np.ndarray, share: float) -> np.ndarray:
    """Say which jobs are drawn, shape (jobs,): in the order given, each that stays within the share."""
    drawn = np.zeros(len(gpu_time), dtype=bool)
    room = share * float(gpu_time.sum())
    for i in order:
        if gpu_time[i] <= room:
            drawn[i] = True
            room -= float(gpu_time[i])
    return drawn


def _days_drawn(jobs: pd.DataFrame, days: int, seed: int) -> pd.DataFrame:
    """Put days of the jobs one after another, drawn with replacement (the paper's Figure 12)."""
    day = jobs["submit_s"].to_numpy() // DAY_S
    drawn = np.random.default_rng(seed).integers(int(day.max()) + 1, size=days)
    parts = []
    for i, of_day in enumerate(drawn):
        part = jobs[day == of_day]
        parts.append(part.assign(submit_s=part["submit_s"] + (i - of_day) * DAY_S))
    together: pd.DataFrame = pd.concat(parts, ignore_index=True)
    return together.assign(job_id=np.arange(len(together)))


def _comparison_jobs(data: Path) -> pd.DataFrame:
    return _read(data / FOLDER / "jobs.csv.gz")


def _philly(data: Path, begins: str, days: int) -> pd.DataFrame:
    """Return the jobs that Philly's users submitted on some days; without flags."""
    log = _read(data / PHILLY_FILE)
    since = (pd.to_datetime(log["timestamp"]) - pd.Timestamp(begins)).dt.total_seconds()
    inside = (since >= 0) & (since < days * DAY_S) & (log["duration"] > 0) & (log["num_gpus"] > 0)
    jobs = pd.DataFrame(
        {
            "submit_s": since[inside].astype(int),
            "duration_s": log["duration"][inside].astype(int),
            "gpus": log["num_gpus"][inside].astype(int),
        }
    ).sort_values(["submit_s", "duration_s", "gpus"], ignore_index=True)
    jobs.insert(0, "job_id", jobs.index)
    return jobs


@lru_cache(maxsize=4)
def _read(path: Path) -> pd.DataFrame:
    if not path.is_file():
        raise BadInputError(
            f"{path} is not there.",
            remedy="Name the public reference data: --data DIR or LUCID_REFERENCE_DATA.",
        )
    return pd.read_csv(path)
