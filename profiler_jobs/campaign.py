"""Measure tasks on one device, one after another, into the measurement table; a run that was killed goes
on.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pandas as pd

from foundation.errors import BadInputError
from foundation.progress import Progress, Work, silent
from profiler_jobs.devices.device import OutOfMemory, ProfilingDevice, RunFailure, RunOutcome, WindowRecord
from profiler_jobs.devices.simulated import SimulatedGpu
from profiler_jobs.measurement_table import (
    FAILED,
    MEASURED,
    OUT_OF_MEMORY,
    as_measurement_frame,
    method_id,
    origin_columns,
    read_measurements,
    write_measurements,
)
from profiler_jobs.method import Method
from profiler_jobs.profile_table import ProfileSet
from profiler_jobs.summary import summarise
from profiler_jobs.tasks import MeasurementTask, pair_tasks, solo_tasks
from profiler_jobs.workloads import JobType, list_job_types

Clock = Callable[[], float]


@dataclass
class CampaignReport:
    """What became of every task, by name: asked = measured + out_of_memory + failed + already_done + left."""

    measured: list[str] = field(default_factory=list)
    out_of_memory: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    already_done: list[str] = field(default_factory=list)
    beyond_budget: list[str] = field(default_factory=list)  # the budget was spent before them


def run_campaign(
    device: ProfilingDevice,
    tasks: Sequence[MeasurementTask],
    table_uri: str,
    *,
    method: Method | None = None,
    budget_s: float | None = None,
    progress: Progress = silent,
    clock: Clock = time.monotonic,
) -> CampaignReport:
    """Measure the tasks in their order into the table, which is written anew after each.

    A task that the table already holds for this device and method is not run again, unless it failed. No task
    is begun that would not end within `budget_s` by its expected time. Raises BadInputError when the table
    holds another device's measurements.
    """
    method = method or Method()
    rows = read_measurements(table_uri)
    settled = set(settled_tasks(rows, device.description.name, method_id(method)))
    report = CampaignReport()
    began_s = clock()
    for position, task in enumerate(tasks):
        progress(position, len(tasks), Work("measuring", "tasks"))
        if task.name in settled:
            report.already_done.append(task.name)
            continue
        expected_s = method.expected_s(task, overhead_s=device.run_overhead_s())
        if budget_s is not None and clock() - began_s + expected_s > budget_s:
            report.beyond_budget.append(task.name)
            continue
        measured = _measure(device, task, method)
        rows = with_runs(rows, [measured])
        write_measurements(table_uri, rows)
        settled.add(task.name)
        {MEASURED: report.measured, OUT_OF_MEMORY: report.out_of_memory, FAILED: report.failed}[
            measured[0]["outcome"]
        ].append(task.name)
    progress(len(tasks), len(tasks), Work("measuring", "tasks"))
    return report


def settled_tasks(rows: pd.DataFrame, device: str, method: str) -> tuple[str, ...]:
    """Return the tasks that a table holds a result of by this device and method (`method_id`), as measured.

    What failed is to be tried again. Raises BadInputError when the table is another device's.
    """
    others = sorted(set(rows["device"]) - {device})
    if others:
        raise BadInputError(
            f"The table holds measurements of {', '.join(others)}, and the device is {device}.",
            remedy="Measure every kind of device into a table of its own.",
        )
    ours = rows[(rows["method_id"] == method) & (rows["outcome"] != FAILED)]
    return tuple(dict.fromkeys(ours["task"].astype(str)))


def outcome_rows(
    task: MeasurementTask,
    outcome: RunOutcome,
    origin: Mapping[str, Any],
    method: Method,
    began: datetime,
    repeats: int | None = None,
) -> list[dict[str, Any]]:
    """Return a run's rows of the measurement table: a row a window, or one that says why there is none.

    `repeats` is how often the windows were gone through, where that is not as the method says.
    """
    first, second = task.job_types[0].name, task.job_types[1].name if task.is_pair else None
    shared = {"task": task.name, "job_type_1": first, "job_type_2": second, **origin}
    if isinstance(outcome, OutOfMemory):
        reason = {"outcome": OUT_OF_MEMORY, "detail": outcome.detail, "needed_mib": outcome.needed_mib}
        return [{**shared, **reason, "started": began}]
    if isinstance(outcome, RunFailure):
        reason = {"outcome": FAILED, "detail": outcome.reason, "last_words": outcome.last_words or None}
        return [{**shared, **reason, "started": began}]
    windows_a_repeat = len(outcome) // (repeats or method.repeats)
    rows = []
    for position, record in enumerate(outcome):
        telemetry = record.telemetry
        rows.append(
            {
                **shared,
                "outcome": MEASURED,
                "repeat": position // windows_a_repeat,
                "active": "".join(str(index + 1) for index in record.window.active),
                "started": record.started,
                "window_s": record.seconds,
                "speed_1": record.speeds[0],
                "speed_2": record.speeds[1] if task.is_pair else None,
                "steps_1": record.steps[0],
                "steps_2": record.steps[1] if task.is_pair else None,
                "overlap": record.overlap,
                **_host_probes(record),
                "gpu_util_pct": telemetry.gpu_util_pct,
                "gpu_mem_util_pct": telemetry.gpu_mem_util_pct,
                "gpu_mem_mib": telemetry.gpu_mem_mib,
                "samples": telemetry.samples,
                "utilisation_source": telemetry.utilisation_source,
                "power_w": telemetry.power_w,
                "energy_j": telemetry.energy_j,
                "sm_clock_mhz": telemetry.sm_clock_mhz,
                "mem_clock_mhz": telemetry.mem_clock_mhz,
                "throttle_reasons": ",".join(telemetry.throttle_reasons),
            }
        )
    return rows


def _host_probes(record: WindowRecord) -> dict[str, float]:
    return {
        f"host_probe_{position}_us": 1e6 * probe_s
        for position, probe_s in enumerate(record.host_probes_s, start=1)
        if probe_s is not None
    }


def measure_profiles(
    device: ProfilingDevice,
    job_types: Sequence[JobType] | None = None,
    *,
    method: Method | None = None,
    progress: Progress = silent,
) -> ProfileSet:
    """Measure configurations (default: Table 1) alone and in all pairs, in memory; for devices that are fast.

    What runs out of memory alone is not paired.
    """
    wanted = list_job_types() if job_types is None else tuple(job_types)
    method = method or Method()
    rows: list[dict[str, Any]] = []
    fitting: list[JobType] = []
    for done, task in enumerate(solo_tasks(wanted), start=1):
        measured = _measure(device, task, method)
        rows += measured
        if measured[0]["outcome"] == MEASURED:
            fitting += task.job_types
        progress(done, len(wanted), "configurations measured alone")
    pairs = pair_tasks(fitting)
    for done, task in enumerate(pairs, start=1):
        rows += _measure(device, task, method)
        progress(done, len(pairs), "pairs measured")
    return summarise(as_measurement_frame(rows))


def measure_simulated_profiles(seed: int, progress: Progress = silent) -> ProfileSet:
    """Measure Table 1 on the simulated GPU: 66 configurations alone, and all pairs that fit."""
    return measure_profiles(SimulatedGpu(seed), progress=progress)


def _measure(device: ProfilingDevice, task: MeasurementTask, method: Method) -> list[dict[str, Any]]:
    began = datetime.now(UTC)
    outcome = device.run(task.job_types, method.windows(task), warmup_s=method.warmup_s)
    # How processes share the device shows only while they hold it, so the description comes after the run.
    return outcome_rows(task, outcome, origin_columns(device.description, method), method, began)


def with_runs(rows: pd.DataFrame, runs: Sequence[Sequence[Mapping[str, Any]]]) -> pd.DataFrame:
    """Return the table with the rows of tasks by one method, instead of those that it had of them."""
    tasks = {measured[0]["task"] for measured in runs}
    others = rows[~rows["task"].isin(tasks) | (rows["method_id"] != runs[0][0]["method_id"])]
    added = as_measurement_frame([row for measured in runs for row in measured])
    return added if others.empty else pd.concat([others, added], ignore_index=True)
