"""Speed-up curves by model: the measured ones that come with the simulator, and those of a file.

`measured_speed_ups.csv` holds the time of a training iteration (s) on 1, 2, ... GPUs of nine models of
vision and language, as measured for PCS (OSDI '24; the artifact's figures, MIT licence). `LinearModel`
scales perfectly, on as many GPUs as a job has.

Times become seconds before they are divided, as in PCS' simulator: jobs with equal remaining GPU time are
told apart by the last binary digit of a speed-up, which differs where microseconds are divided.
"""

import csv
import gzip
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foundation.errors import BadInputError, UnknownNameError
from simulator.workload.columns import Floats, Texts, objects_in
from simulator.workload.speed_up import Elasticity, SpeedUp

MEASURED_FILE = Path(__file__).with_name("measured_speed_ups.csv")
LINEAR_MODEL = "LinearModel"
LONG_COLUMNS = ("model", "gpus")  # and a time
LONG_TIMES = {"time_us": 1e6, "time_ms": 1e3, "time_s": 1.0}  # of these a second has so many


@cache
def measured_speed_ups() -> Mapping[str, SpeedUp]:
    """Return the measured curves that come with the simulator; flat beyond what was measured."""
    return read_speed_ups(MEASURED_FILE)


@cache
def speed_ups_for(largest_gpus: int) -> Mapping[str, SpeedUp]:
    """Return all curves that come with the simulator, for jobs of at most so many GPUs."""
    # Tabulated from times, as PCS' simulator does: the last binary digit decides ties here, too.
    linear = {gpus: 1 / gpus / 1e6 for gpus in range(1, max(1, largest_gpus) + 1)}  # an iteration of 1 us
    return {**measured_speed_ups(), LINEAR_MODEL: SpeedUp.tabulated(linear)}


def read_speed_ups(path: Path) -> dict[str, SpeedUp]:
    """Read curves by model from a CSV (also `.gz`).

    Either one row a model, `model,1,2,4,...`, the times on so many GPUs in any unit, a blank where nothing
    was measured; or one row a measurement, `model,gpus,time_us` (or time_ms, time_s). Gaps are filled
    linearly (`SpeedUp.tabulated`). Raises BadInputError with the row of what cannot be used.
    """
    opened: Callable[..., Any] = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", newline="") as file:
        rows = csv.reader(file, skipinitialspace=True)
        header = [name.strip() for name in next(rows, [])]
        times: dict[str, dict[int, float]] = {}
        measurements = _measurements(header, str(path))
        for number, row in enumerate((row for row in rows if row), start=1):
            try:
                for model, gpus, time in measurements(row):
                    times.setdefault(model, {})[gpus] = time
            except (ValueError, IndexError) as error:
                raise BadInputError(f"{path}, row {number} is no speed-up: {error}") from error
    if not times:
        raise BadInputError(f"{path} holds no speed-up curve.", remedy="Check how it was exported.")
    speed_ups = {}
    for model, time_by_gpus in times.items():
        try:
            speed_ups[model] = SpeedUp.tabulated(time_by_gpus)
        except BadInputError as error:
            raise BadInputError(f"{path}, model {model!r}: {error}") from error
    return speed_ups


def _measurements(
    header: Sequence[str], path: str
) -> Callable[[list[str]], Iterable[tuple[str, int, float]]]:
    """Return what takes a row apart into (model, GPUs, time)."""
    if all(name in header for name in LONG_COLUMNS):
        time = next((name for name in LONG_TIMES if name in header), None)
        if time is not None:
            at = [header.index(name) for name in (*LONG_COLUMNS, time)]
            a_second = LONG_TIMES[time]
            return lambda row: [(row[at[0]].strip(), int(row[at[1]]), float(row[at[2]]) / a_second)]
    elif header[:1] == ["model"] and len(header) > 1 and all(name.isdecimal() for name in header[1:]):
        sizes = [int(name) for name in header[1:]]
        return lambda row: [
            (row[0].strip(), gpus, float(value))
            for gpus, value in zip(sizes, row[1:], strict=False)
            if value.strip()
        ]
    raise BadInputError(
        f"{path} holds no speed-up curves; its first line reads: {','.join(header)[:200]}.",
        remedy="It reads model,1,2,4,... (a row a model) or model,gpus,time_us (a row a measurement).",
    )


def elasticities(
    single_gpu_s: Floats, models: Texts, gpus: np.ndarray, speed_ups: Mapping[str, SpeedUp] | None
) -> NDArray[np.object_] | None:
    """Return what each elastic job is; None where it has no run time on one GPU: it is rigid.

    `speed_ups` None: those that come with the simulator. Returns None if all are rigid; raises
    UnknownNameError for a model without a curve.
    """
    rows = np.flatnonzero(np.isfinite(single_gpu_s))
    if not len(rows):
        return None
    curves = speed_ups_for(int(gpus[rows].max())) if speed_ups is None else speed_ups
    per_job = np.empty(len(single_gpu_s), dtype=object)
    for row, model in zip(rows.tolist(), models[rows].tolist(), strict=True):
        curve = curves.get(model or "")
        if curve is None:
            raise UnknownNameError("model without a speed-up curve (--speed-ups FILE):", str(model), curves)
        per_job[row] = Elasticity(float(single_gpu_s[row]), curve)
    return per_job


def run_times_s(elastic: NDArray[np.object_] | None, gpus: np.ndarray, otherwise_s: np.ndarray) -> Floats:
    """Return the run times (s) of elastic jobs on all of their GPUs, and of the rigid ones `otherwise_s`."""
    times = otherwise_s.astype(np.float64)
    for row, found in objects_in(elastic):
        times[row] = found.service_s / found.speed_up.at(max(1, int(gpus[row])))
    return times
