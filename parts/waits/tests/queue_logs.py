"""A small queue for tests: two partitions of servers that start jobs by priority, seen once a day."""

import heapq
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from cluster_logs.queue_log import QueueLog
from cluster_logs.queue_log_files import read_queue_log
from lucid_models.model_format import save_model
from parts.waits.model.fitting import BOOSTING, WaitSettings
from parts.waits.model.model import WaitModel
from parts.waits.model.wait_table import WaitTable

DAY_S = 86_400
FAST_WAITS = WaitSettings(
    boosting=replace(BOOSTING, max_rounds=25, learning_rate=0.1, min_samples_leaf=10, smoothing_rounds=0)
)


def make_queue_tables(days: int = 12, seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The two tables that a site exports: jobs, and snapshots of all that waits at noon."""
    rng = np.random.default_rng(seed)
    jobs: list[dict[str, object]] = []
    for partition, servers, load in (("cpu", 12, 0.95), ("gpu", 6, 0.95)):
        backlog = 25 * servers
        span_s = (days + 5) * DAY_S  # jobs come after the last snapshot too
        count = backlog + int(span_s * servers * load / 5_000)
        submit = np.sort(rng.integers(0, span_s, count))
        submit[:backlog] = 0
        run = rng.lognormal(8.2, 0.8, count).clip(60, 40_000).astype(int)
        account = rng.integers(0, 6, count)
        priority = 1_000 * (account % 3) + rng.integers(0, 900, count)
        start = _starts(submit, run, priority, servers)
        for row in range(count):
            jobs.append(
                {
                    "job_unique_id": len(jobs) + 1,
                    "submit_time": submit[row],
                    "eligible_time": submit[row],
                    "start_time": start[row],
                    "end_time": start[row] + run[row],
                    "partition_id": partition,
                    "account_id": f"a{account[row]}",
                    "priority_y": priority[row],
                    "req_cpus": int(1 + account[row]),
                    "req_mem_total": 1_024,
                    "time_limit_sec": 3_600 * (1 + run[row] // 3_600),
                    "gpus": int(partition == "gpu"),
                }
            )
    table = pd.DataFrame(jobs)
    noons = [
        table[(table["submit_time"] <= noon) & (table["start_time"] > noon)].assign(poll_time=noon)
        for noon in range(DAY_S // 2, days * DAY_S, DAY_S)
    ]
    snapshots = pd.concat(noons, ignore_index=True)
    return snapshots.drop_duplicates("job_unique_id"), snapshots


def make_queue_log(days: int = 12, seed: int = 0) -> QueueLog:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        return write_queue_log(Path(folder), days, seed)


def save_wait_model(folder: Path) -> Path:
    """A small wait model as a release holds it."""
    log, path = make_queue_log(), folder / "waits.json"
    save_model(WaitModel(FAST_WAITS).fit(WaitTable.of(log), log.partition_name).to_data(), path)
    return path


def write_queue_log(folder: Path, days: int = 12, seed: int = 0, without: Sequence[str] = ()) -> QueueLog:
    """Write both files, less some columns, and read them."""
    for name, table in zip(("jobs", "snapshots"), make_queue_tables(days, seed), strict=True):
        table.drop(columns=list(without)).to_csv(folder / f"{name}.csv", index=False)
    return read_queue_log(str(folder / "jobs.csv"), str(folder / "snapshots.csv"))


def _starts(submit: np.ndarray, run: np.ndarray, priority: np.ndarray, servers: int) -> np.ndarray:
    """When each job starts: a free server takes the waiting job of the highest priority."""
    start = np.zeros(submit.size, dtype=int)
    free = [0] * servers
    waiting: list[tuple[int, int]] = []
    next_row = 0
    while next_row < submit.size or waiting:
        now = heapq.heappop(free)
        if not waiting and next_row < submit.size:
            now = max(now, int(submit[next_row]))
        while next_row < submit.size and submit[next_row] <= now:
            heapq.heappush(waiting, (-int(priority[next_row]), next_row))
            next_row += 1
        if waiting:
            _, row = heapq.heappop(waiting)
            start[row] = max(now, int(submit[row]))
            now = int(start[row] + run[row])
        heapq.heappush(free, now)
    return start
