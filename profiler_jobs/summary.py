"""From windows to results: what the measurement table says of every task, and what of it can be trusted.

The speed of a configuration in company is divided by its own speed alone in the windows before and after, so
a clock that drifts over minutes cancels. Nothing is dropped in silence: a task is in the solo table, in the
pair table, out of memory, or among the rejected with its reason.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foundation import strict_json
from foundation.errors import BadInputError
from profiler_jobs.devices.device import DeviceKind
from profiler_jobs.measurement_table import FAILED, OUT_OF_MEMORY
from profiler_jobs.method import Method
from profiler_jobs.profile_table import (
    OUT_OF_MEMORY_COLUMNS,
    PAIR_SCHEMA,
    PROFILE_SCHEMA,
    REJECTED_COLUMNS,
    ProfileSet,
    as_profile_frame,
)
from profiler_jobs.workloads import find_job_type

Floats = NDArray[np.float64]
Run = dict[str, NDArray[Any]]  # rows of the measurement table by column
# Columns that hold nothing but nulls when all tasks failed.
_NUMBERS = (
    "repeat",
    "window_s",
    "speed_1",
    "speed_2",
    "overlap",
    "host_probe_1_us",
    "host_probe_2_us",
    "gpu_util_pct",
    "gpu_mem_util_pct",
    "gpu_mem_mib",
)
_REPEATS_USUAL = 3  # for which `variation_max` is stated
_REPEATS_MIN = 2  # one repeat says nothing of its spread, unless no more were asked for


def summarise(measurements: pd.DataFrame) -> ProfileSet:
    """Return the profile tables of a measurement table (MEASUREMENT_SCHEMA), in the order of its tasks.

    A task measured by several methods counts with its latest run. Raises BadInputError when the table holds
    more than one kind of device: their speeds do not compare.
    """
    devices = measurements[["device", "device_kind"]].drop_duplicates()
    if len(devices) > 1:
        raise BadInputError(
            f"The measurements come from {len(devices)} devices: {', '.join(sorted(devices['device']))}.",
            remedy="Measure every kind of device into a table of its own.",
        )
    solo: list[dict[str, Any]] = []
    pairs: list[dict[str, Any]] = []
    too_big: list[dict[str, Any]] = []
    rejected: list[dict[str, Any]] = []
    for run in _latest_runs(measurements):
        first = {name: column[0] for name, column in run.items()}
        if first["outcome"] == OUT_OF_MEMORY:
            too_big.append({**first, "capacity_mib": first["device_memory_mib"]})
        elif first["outcome"] == FAILED:
            rejected.append({"task": first["task"], "reason": f"failed: {first['detail']}"})
        else:
            method = Method(**strict_json.loads(first["method"]))
            row = _solo(run, method) if first["job_type_2"] is None else _pair(run, method)
            if isinstance(row, str):
                rejected.append({"task": first["task"], "reason": row})
            else:
                (solo if first["job_type_2"] is None else pairs).append({**row, **_origin(first)})
    return ProfileSet(
        as_profile_frame(pd.DataFrame(solo, columns=PROFILE_SCHEMA.names), PROFILE_SCHEMA),
        as_profile_frame(pd.DataFrame(pairs, columns=PAIR_SCHEMA.names), PAIR_SCHEMA),
        pd.DataFrame(too_big, columns=list(OUT_OF_MEMORY_COLUMNS)),
        pd.DataFrame(rejected, columns=list(REJECTED_COLUMNS)),
    )


def colocated_speeds(run: Run) -> tuple[Floats, Floats]:
    """Return the normalised speeds of a pair's run, shape (repeats, 2), and each repeat's overlap.

    A configuration's speed alone at the time of a colocated window is interpolated between its windows alone
    before and after it; at the ends of the run the nearest one stands.
    """
    rounds = run["repeat"].astype(int)
    middle_s = np.array([time.timestamp() for time in run["started"]]) + run["window_s"] / 2
    together = np.flatnonzero(run["active"] == "12")
    speeds = np.full((int(rounds.max()) + 1, 2), np.nan)
    overlap = np.zeros(len(speeds))
    overlap[rounds[together]] = run["overlap"][together]
    for index, column in enumerate(("speed_1", "speed_2")):
        alone = np.flatnonzero((run["active"] == str(index + 1)) & (run[column] > 0))
        if len(alone):
            beside = np.interp(middle_s[together], middle_s[alone], run[column][alone])
            speeds[rounds[together], index] = run[column][together] / beside
    return speeds, overlap


def _solo(run: Run, method: Method) -> dict[str, Any] | str:
    counted = np.isfinite(run["speed_1"]) & (run["speed_1"] > 0) & (run["overlap"] >= method.overlap_min)
    reason = _too_few(counted, method)
    if reason:
        return reason
    speed, variation = _mean_and_variation(run["speed_1"][counted])
    if reason := _unsteady(variation, int(counted.sum()), method, run):
        return reason
    job_type = find_job_type(run["job_type_1"][0])
    return {
        "job_type": job_type.name,
        "model": job_type.model.name,
        "dataset": job_type.model.dataset,
        "batch_size": job_type.batch_size,
        "amp": int(job_type.amp),
        "speed": speed,
        "speed_cv": variation,
        **_metrics(run, counted),
    }


def _pair(run: Run, method: Method) -> dict[str, Any] | str:
    speeds, overlap = colocated_speeds(run)
    counted = (np.isfinite(speeds) & (speeds > 0)).all(axis=1) & (overlap >= method.overlap_min)
    reason = _too_few(counted, method)
    if reason:
        return reason
    (speed_1, variation_1), (speed_2, variation_2) = (
        _mean_and_variation(speeds[counted, index]) for index in (0, 1)
    )
    if reason := _unsteady(max(variation_1, variation_2), int(counted.sum()), method, run):
        return reason
    together = (run["active"] == "12") & counted[run["repeat"].astype(int)]
    return {
        "job_type_1": run["job_type_1"][0],
        "speed_1": speed_1,
        "job_type_2": run["job_type_2"][0],
        "speed_2": speed_2,
        "speed_cv_1": variation_1,
        "speed_cv_2": variation_2,
        "suspicious": max(speed_1, speed_2) > method.speed_suspicious,
        **_metrics(run, together),
    }


def _metrics(run: Run, counted: NDArray[np.bool_]) -> dict[str, float]:
    return {
        "gpu_util_pct": float(run["gpu_util_pct"][counted].mean()),
        "gpu_mem_util_pct": float(run["gpu_mem_util_pct"][counted].mean()),
        "gpu_mem_mib": float(run["gpu_mem_mib"][counted].max()),
    }


def _origin(first: dict[str, Any]) -> dict[str, Any]:
    made_up = first["device_kind"] == DeviceKind.SIMULATED
    return {
        "device": first["device"],
        # What a processor says of a GPU is no measurement of one either: no release may rest on it.
        "simulated": first["device_kind"] != DeviceKind.GPU,
        "measured_at": pd.NaT if made_up else first["started"],
    }


def _mean_and_variation(values: Floats) -> tuple[float, float]:
    mean = float(values.mean())
    return mean, float(values.std(ddof=1)) / mean if len(values) > 1 else float("nan")


def _too_few(counted: NDArray[np.bool_], method: Method) -> str | None:
    needed = min(_REPEATS_MIN, method.repeats)
    if int(counted.sum()) >= needed:
        return None
    return (
        f"only {int(counted.sum())} of {len(counted)} repeats count (overlap of {method.overlap_min:.0%} and "
        f"speeds above 0); {needed} are needed"
    )


def _unsteady(variation: float, repeats: int, method: Method, run: Run) -> str | None:
    limit = method.variation_max * (repeats / _REPEATS_USUAL) ** 0.5
    if not variation > limit:
        return None
    reason = f"speeds vary by {variation:.1%} between {repeats} repeats, more than {limit:.1%}"
    probes_us = np.concatenate([run["host_probe_1_us"], run["host_probe_2_us"]])
    probes_us = probes_us[np.isfinite(probes_us)]
    if len(probes_us) < _REPEATS_MIN:
        return reason
    return f"{reason} (the host's own cores by {_mean_and_variation(probes_us)[1]:.1%})"


def run_columns(measurements: pd.DataFrame) -> Run:
    """Return a measurement table as arrays by column: float64 (NaN) or objects (None)."""
    columns: Run = {}
    for name in measurements.columns:
        column = measurements[name]
        if column.dtype.kind in "fiu" or name in _NUMBERS:
            columns[name] = column.to_numpy(dtype="float64", na_value=np.nan)
        else:
            values = np.array(list(column), dtype=object)
            values[column.isna().to_numpy()] = None
            columns[name] = values
    return columns


def _latest_runs(measurements: pd.DataFrame) -> Iterator[Run]:
    """Yield the rows of each task's latest run, in the order of the tasks' first rows."""
    columns = run_columns(measurements)
    for task in measurements.groupby("task", sort=False).indices.values():
        methods = columns["method_id"][task]
        if len(set(methods)) > 1:
            latest = max(zip(columns["started"][task], methods, strict=True))[1]
            task = task[methods == latest]
        yield {name: column[task] for name, column in columns.items()}
