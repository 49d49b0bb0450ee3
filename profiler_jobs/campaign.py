"""Measure a set of configurations alone and in all pairs on one device."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from itertools import combinations_with_replacement
from typing import Any

import pandas as pd

from cluster_logs.progress import Progress, silent
from profiler_jobs.devices.device import OutOfMemory, ProfilingDevice
from profiler_jobs.profile_table import PAIR_SCHEMA, PROFILE_SCHEMA, ProfileSet, as_profile_frame
from profiler_jobs.workloads import JobType, list_job_types


def measure_profiles(
    device: ProfilingDevice, job_types: Sequence[JobType] | None = None, progress: Progress = silent
) -> ProfileSet:
    """Measure every configuration alone and every unordered pair (also with itself).

    What runs out of memory alone is not paired. Rows follow the order of `job_types`
    (default: the whole zoo).
    """
    wanted = list_job_types() if job_types is None else tuple(job_types)
    solo: list[dict[str, Any]] = []
    pairs: list[dict[str, Any]] = []
    too_big: list[dict[str, Any]] = []
    fitting: list[JobType] = []
    origin = {"device": device.name, "simulated": device.simulated}
    for done, job_type in enumerate(wanted, start=1):
        found = device.measure_solo(job_type)
        if isinstance(found, OutOfMemory):
            too_big.append({"job_type_1": job_type.name, "job_type_2": None, **asdict(found)})
        else:
            fitting.append(job_type)
            identity = {
                "job_type": job_type.name,
                "model": job_type.model.name,
                "dataset": job_type.model.dataset,
                "batch_size": job_type.batch_size,
                "amp": int(job_type.amp),
            }
            solo.append({**identity, **asdict(found), **origin})
        progress(done, len(wanted), "configurations measured alone")
    for done, (first, second) in enumerate(combinations_with_replacement(fitting, 2), start=1):
        together = device.measure_pair(first, second)
        names = {"job_type_1": first.name, "job_type_2": second.name}
        if isinstance(together, OutOfMemory):
            too_big.append({**names, **asdict(together)})
        else:
            pairs.append({**names, **asdict(together), **origin})
        progress(done, len(fitting) * (len(fitting) + 1) // 2, "pairs measured")
    return ProfileSet(
        as_profile_frame(_frame(solo, PROFILE_SCHEMA.names), PROFILE_SCHEMA),
        as_profile_frame(_frame(pairs, PAIR_SCHEMA.names), PAIR_SCHEMA),
        _frame(too_big, ["job_type_1", "job_type_2", "needed_mib", "capacity_mib"]),
    )


def _frame(rows: Iterable[dict[str, Any]], columns: Sequence[str]) -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=list(columns))
