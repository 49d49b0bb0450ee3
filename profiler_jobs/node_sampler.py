"""An agent for a node of a cluster: `python3 -m profiler_jobs.node_sampler --out URI [--every-s 5]`.

It writes what all of the node's GPUs do, and which Slurm jobs are on them, into Parquet files that `lucid
metrics` joins to jobs: production then measures utilisation and memory by itself. A row speaks of the
`--every-s` seconds after its `time`: mean utilisation from the driver's samples, mean power from the energy
counter, the most memory in use.

Each file is of this agent alone and holds up to an hour; it is replaced as a whole once a minute, so an agent
that is killed loses at most a minute, and one that is started again goes on in a file of its own. The driver
is asked once a second, and nothing of it is changed. A process's job is known by its control group (Slurm's
own, with cgroups on), else by its environment, which root may read and others only of their own processes.
"""

import os
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from types import FrameType
from typing import Any

import pyarrow as pa

from cluster_logs.metrics.gpu_samples import JOB_SEPARATOR, SAMPLE_SCHEMA
from foundation.errors import BadInputError, LucidError, ServiceUnavailableError
from foundation.exit_codes import CommandLine
from foundation.storage import write_parquet
from profiler_jobs.devices.nvidia_library import NvidiaCard, all_cards, library
from profiler_jobs.devices.nvidia_polls import utilisation
from profiler_jobs.devices.nvidia_processes import slurm_job
from profiler_jobs.devices.nvidia_samples import SampleSeries, counter_increase, read_clocks

ASK_EVERY_S = 1.0  # rings of 72 samples or more, one every 1/6 s: none is lost
# The driver may report a sample a little after its period has ended.
LATE_S = 1.5
FLUSH_EVERY_S = 60.0
FILE_LASTS_S = 3_600.0
WAITING_MOST = 24
_COLUMNS = (
    "time",
    "host",
    "gpu_uuid",
    "gpu_util_pct",
    "gpu_mem_util_pct",
    "gpu_mem_mib",
    "power_w",
    "job_ids",
)
ROW_SCHEMA = pa.schema([SAMPLE_SCHEMA.field(name) for name in _COLUMNS])

Row = dict[str, Any]
JobOf = Callable[[int], str | None]


class CardWatch:
    """What one GPU was seen to do, second by second, and the row of an interval."""

    def __init__(self, card: NvidiaCard, job_of: JobOf = slurm_job) -> None:
        self.card = card
        self._job_of = job_of
        self._series = {"gpu": SampleSeries(), "memory": SampleSeries()}
        self._rates: list[tuple[float, tuple[float, float] | None]] = []
        self._energy: list[tuple[float, float]] = []
        self._power: list[tuple[float, float]] = []
        self._memory: list[tuple[float, float]] = []
        self._jobs: list[tuple[float, frozenset[str] | None]] = []

    def ask(self) -> None:
        """Ask the driver once. Raises ServiceUnavailableError when the GPU is gone."""
        energy_j = self.card.energy_j()
        now_s, clocks = read_clocks()
        if energy_j is not None:
            self._energy.append((now_s, energy_j))
        elif (power_w := self.card.power_w()) is not None:
            self._power.append((now_s, power_w))
        self._rates.append((now_s, self.card.utilisation()))
        memory = self.card.memory()
        if memory is not None:
            self._memory.append((now_s, memory.used_mib))
        for name, series in self._series.items():
            fetched = self.card.utilisation_samples(series.after_us, memory=name == "memory")
            series.add(fetched or (), now_s, clocks)
        self._jobs.append((now_s, self._jobs_now()))

    def _jobs_now(self) -> frozenset[str] | None:
        """Return the jobs whose processes compute on the GPU; None: processes do, of no job seen."""
        processes = self.card.processes()
        if processes is None:
            return None
        jobs = frozenset(job for each in processes if (job := self._job_of(each.process_id)) is not None)
        return jobs if jobs or not processes else None

    def row(self, begin_s: float, end_s: float) -> Row:
        """Return the row of [begin_s, end_s), monotonic, but for time and host; forget what lies before."""
        self._forget(begin_s)
        means = [
            utilisation(
                self._series[name].samples,
                [(time_s, None if rates is None else rates[at]) for time_s, rates in self._rates],
                begin_s,
                end_s,
            )[0]
            for at, name in enumerate(("gpu", "memory"))
        ]
        energy_j = counter_increase(self._energy, begin_s, end_s)
        power = _inside(self._power, begin_s, end_s)
        seen_jobs = _inside(self._jobs, begin_s, end_s)
        jobs = frozenset[str]().union(*(each for each in seen_jobs if each is not None))
        is_attributed = any(each is not None for each in seen_jobs) and (bool(jobs) or None not in seen_jobs)
        return {
            "gpu_uuid": self.card.uuid,
            "gpu_util_pct": means[0].value if means[0] else None,
            "gpu_mem_util_pct": means[1].value if means[1] else None,
            "gpu_mem_mib": max(_inside(self._memory, begin_s, end_s), default=None),
            "power_w": _mean(power) if energy_j is None else energy_j / (end_s - begin_s),
            "job_ids": JOB_SEPARATOR.join(sorted(jobs, key=int)) if is_attributed else None,
        }

    def _forget(self, begin_s: float) -> None:
        # Some readings before it stay: a counter lies between two; the usual period is taken from samples.
        before_s = begin_s - 2 * ASK_EVERY_S - LATE_S
        for series in self._series.values():
            series.forget_before(before_s)
        for readings in (self._rates, self._energy, self._power, self._memory, self._jobs):
            while readings and readings[0][0] < before_s:
                del readings[0]


def _inside(readings: Sequence[tuple[float, Any]], begin_s: float, end_s: float) -> list[Any]:
    return [value for time_s, value in readings if begin_s <= time_s < end_s]


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


class RowFiles:
    """Writes rows into files of up to an hour of one day (UTC): `date=2026-01-31/node7-031500-4711.parquet`.

    The name says the node, when the first row begins, and the agent's process.
    """

    def __init__(self, out: str, host: str, process_id: int) -> None:
        self._out, self._host, self._process_id = out, host, process_id
        self._waiting: list[list[Row]] = []  # full files that could not be written yet
        self._rows: list[Row] = []
        self._written = 0

    def add(self, rows: Sequence[Row]) -> None:
        """Take rows of one time in. Raises ServiceUnavailableError when none could be written for a day."""
        if self._rows and rows and _is_full(self._rows, rows[0]["time"]):
            if len(self._rows) > self._written:
                self._waiting.append(self._rows)
            self._rows, self._written = [], 0
        if len(self._waiting) > WAITING_MOST:
            raise ServiceUnavailableError(f"Nothing could be written into {self._out} for a day.")
        self._rows.extend(rows)

    def flush(self) -> None:
        """Write what is new, each file as a whole."""
        while self._waiting:
            self._write(self._waiting[0])
            del self._waiting[0]
        if len(self._rows) > self._written:
            self._write(self._rows)
            self._written = len(self._rows)

    def _write(self, rows: Sequence[Row]) -> None:
        first: datetime = rows[0]["time"]
        name = f"{re.sub(r'[^A-Za-z0-9.-]', '_', self._host)}-{first:%H%M%S}-{self._process_id}.parquet"
        table = pa.Table.from_pylist(rows, schema=ROW_SCHEMA)
        write_parquet(f"{self._out.rstrip('/')}/date={first:%Y-%m-%d}/{name}", table)


def _is_full(rows: Sequence[Row], time: datetime) -> bool:
    first: datetime = rows[0]["time"]
    return (time - first).total_seconds() >= FILE_LASTS_S or time.date() != first.date()


def sample_node(
    watches: Sequence[CardWatch],
    files: RowFiles,
    *,
    host: str,
    every_s: float,
    duration_s: float | None,
    stopping: threading.Event,
    report: Callable[[str], object],
) -> int:
    """Sample until `stopping` is set or the time is over; return the number of rows written.

    A file that cannot be written now is tried again a minute later. Raises ServiceUnavailableError when no
    GPU is left, and what the storage said when the last write fails.
    """
    watches = list(watches)
    began_s = time.monotonic()
    row_from_s, next_ask_s, flushed_s = began_s, began_s, began_s
    rows = 0
    while True:
        told_to_stop = stopping.wait(max(0.0, next_ask_s - time.monotonic()))
        now_s = time.monotonic()
        next_ask_s = max(next_ask_s + ASK_EVERY_S, now_s)
        ending = told_to_stop or (duration_s is not None and now_s - began_s >= duration_s + LATE_S)
        watches = _ask_all(watches, report)
        while row_from_s + every_s + (0.0 if ending else LATE_S) <= now_s:
            if duration_s is not None and row_from_s + every_s > began_s + duration_s + 1e-6:
                break
            start = datetime.fromtimestamp(time.time() - (time.monotonic() - row_from_s), UTC)
            of_all = [
                {"time": start, "host": host} | watch.row(row_from_s, row_from_s + every_s)
                for watch in watches
            ]
            files.add(of_all)
            rows += len(of_all)
            row_from_s += every_s
        if ending or not watches:
            files.flush()
            if not watches:
                raise ServiceUnavailableError("No GPU of this node answers any more.")
            return rows
        if now_s - flushed_s >= FLUSH_EVERY_S:
            flushed_s = now_s
            try:
                files.flush()
            except (OSError, LucidError) as error:
                report(f"Nothing could be written, trying again in a minute: {error}")


def _ask_all(watches: Sequence[CardWatch], report: Callable[[str], object]) -> list[CardWatch]:
    answering = []
    for watch in watches:
        try:
            watch.ask()
        except ServiceUnavailableError as error:
            report(f"{watch.card} is not sampled any more. {error}")
        else:
            answering.append(watch)
    return answering


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the agent until SIGTERM, SIGINT or the end of its time; return the exit code."""
    parser = CommandLine(prog="python3 -m profiler_jobs.node_sampler", description=__doc__.split("\n")[0])
    parser.add_argument("--out", required=True, help="folder or URI for the files")
    parser.add_argument("--every-s", type=float, default=5.0, help="seconds a row (default 5)")
    parser.add_argument("--duration-s", type=float, help="stop by itself after so long (default: never)")
    parser.add_argument("--host", default=socket.gethostname().split(".")[0], help="name of the node")
    options = parser.parse_args(arguments)
    stopping = threading.Event()
    before = _stop_on_signals(stopping)
    try:
        if not 1.0 <= options.every_s <= 600.0:
            raise BadInputError(
                f"--every-s is {options.every_s:g}.",
                remedy="Give 1 to 600 seconds: a GPU is sampled in 1/6 to 1 s.",
            )
        with library() as nvml:
            cards = all_cards(nvml)
            if not cards:
                raise ServiceUnavailableError("No NVIDIA GPU: the driver shows this process none.")
            every = f"every {options.every_s:g} s"
            _say(f"Sampling {len(cards)} GPUs of {options.host} {every} into {options.out}.")
            rows = sample_node(
                [CardWatch(card) for card in cards],
                RowFiles(options.out, options.host, os.getpid()),
                host=options.host,
                every_s=options.every_s,
                duration_s=options.duration_s,
                stopping=stopping,
                report=_say,
            )
        _say(f"Stopped; {rows} rows written.")
    except (LucidError, OSError) as error:
        _say(str(error))
        return 1
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return 0


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def _stop_on_signals(stopping: threading.Event) -> Mapping[signal.Signals, Any]:
    def stop(_number: int, _frame: FrameType | None) -> None:
        stopping.set()

    return {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}


if __name__ == "__main__":
    sys.exit(main())
