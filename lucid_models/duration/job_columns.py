"""Reads the mappings of many jobs as columns: their times, facts and keys, each distinct value once."""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from cluster_logs.job_facts import JOB_FACTS
from lucid_models.duration.key_statistics import exactly_where
from lucid_models.duration.levels import AMOUNTS, PARTS, Level, facts_of_part
from lucid_models.duration.name_buckets import (
    UNNAMED,
    amount_key,
    join_key,
    name_family,
    number_or_nan,
    size_key,
    text_or_none,
)

Floats = NDArray[np.float64]
Jobs = Sequence[Mapping[str, Any]]
_Value = TypeVar("_Value", bound=Hashable)

# Up to here keys are read job by job: columns cost some NumPy calls for each level.
_FEW_JOBS = 16
_DAY_S = 86_400.0
_EPOCH_DAY_OF_WEEK = 3
# Plain facts of a job that may serve as features: the key of the job mapping, and whether it is a logarithm.
PLAIN_FACTS = {
    "log_gpus": ("gpus", True),
    "log_cpus": ("cpus", True),
    "nodes": ("nodes", False),
    "log_time_limit": ("time_limit_s", True),
    "gpu_util_pct": ("gpu_util_pct", False),
    "gpu_mem_util_pct": ("gpu_mem_util_pct", False),
    "log_gpu_mem_mib": ("gpu_mem_mib", True),
}
FACTS = (*PLAIN_FACTS, "hour", "day_of_week")
_READ = {
    "job_id",
    *(fact for part in PARTS for fact in facts_of_part(part)),
    *(fact for fact, _ in PLAIN_FACTS.values()),
}
# What the model reads of a job, beside its submission.
MODEL_FACTS = tuple(fact for fact in JOB_FACTS if fact.name in _READ)
# Parts of keys that are a text as it stands.
_TEXT_PARTS = tuple(part for part in PARTS if part != "name" and facts_of_part(part) == (part,))


@dataclass(frozen=True)
class KeyColumn:
    """The keys of jobs in one level: each once (None: unknown), and which a job has, shape (jobs,)."""

    keys: Sequence[str | None]
    of: NDArray[np.intp]

    def each(self) -> list[str | None]:
        """Every job's key."""
        return list(map(self.keys.__getitem__, self.of.tolist()))


def keys_of(
    job: Mapping[str, Any], levels: Sequence[Level], bucket_of: Callable[[str], str | None]
) -> tuple[str | None, ...]:
    """A job's key in each level; None where a part of the key is unknown."""
    parts = _parts_of(job, bucket_of)
    return tuple([join_key([parts[part] for part in level.parts]) for level in levels])


def _parts_of(job: Mapping[str, Any], bucket_of: Callable[[str], str | None]) -> dict[str, str | None]:
    """All parts that keys are made of; None for one that is unknown."""
    # Jobs without a name are alike in that: they share one.
    name = text_or_none(job.get("name")) or UNNAMED
    cpus, gpus = number_or_nan(job.get("cpus")), number_or_nan(job.get("gpus"))
    return {
        "size": size_key(0.0 if math.isnan(gpus) else gpus, None if math.isnan(cpus) else cpus),
        **{part: amount_key(number_or_nan(job.get(fact))) for part, fact in AMOUNTS.items()},
        "name": name,
        "family": name_family(name),
        "bucket": bucket_of(name),
        **{part: text_or_none(job.get(part)) for part in _TEXT_PARTS},
    }


class JobColumns:
    """Jobs (mappings as in `DurationFeatureState`) by column; what is missing or no number is unknown."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._numbers: dict[str, Floats] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    def ids(self) -> list[str]:
        """The jobs' ids as texts."""
        return [str(job.get("job_id")) for job in self._jobs]

    def submit_s(self, otherwise_s: float) -> Floats:
        """When each job was submitted (Unix time), shape (jobs,); `otherwise_s` where that is unknown."""
        submit_s = self._number("submit_time_s")
        return np.where(np.isnan(submit_s), otherwise_s, submit_s)

    def facts(self, names: Sequence[str], local_s: Floats) -> Floats:
        """The plain facts of these names, shape (facts, jobs); NaN where unknown. `local_s` are the times of
        submission on the clock of the cluster.
        """
        facts = np.full((len(names), len(self)), np.nan)
        for row, name in zip(facts, names, strict=True):
            if name in PLAIN_FACTS:
                field, is_logarithm = PLAIN_FACTS[name]
                numbers = self._number(field)
                row[:] = exactly_where(numbers >= 0, math.log1p, numbers) if is_logarithm else numbers
                continue
            timed = np.isfinite(local_s)
            days, seconds = np.divmod(local_s[timed], _DAY_S)
            row[timed] = seconds / 3_600.0 if name == "hour" else (days + _EPOCH_DAY_OF_WEEK) % 7
        return facts

    def keys(self, levels: Sequence[Level], bucket_of: Callable[[str], str | None]) -> list[KeyColumn]:
        """`keys_of` of all jobs, one column a level."""
        if 0 < len(self) <= _FEW_JOBS:
            each, of = [keys_of(job, levels, bucket_of) for job in self._jobs], np.arange(len(self))
            return [KeyColumn(keys, of) for keys in zip(*each, strict=True)]
        parts: dict[str, KeyColumn] = {}
        columns = []
        for level in levels:
            for part in level.parts:
                if part not in parts:
                    parts[part] = self.part(part, bucket_of)
            columns.append(_joined([parts[part] for part in level.parts], len(self)))
        return columns

    def part(self, part: str, bucket_of: Callable[[str], str | None]) -> KeyColumn:
        """One part of the keys."""
        if part == "size":
            # No number is infinite here, and NaN would differ from NaN.
            cpus = np.nan_to_num(self._number("cpus"), nan=np.inf).tolist()
            sizes, of = _distinct(list(zip(np.nan_to_num(self._number("gpus")).tolist(), cpus, strict=True)))
            return KeyColumn([size_key(gpu, None if cpu == np.inf else cpu) for gpu, cpu in sizes], of)
        if part in AMOUNTS:
            amounts, of = _distinct(np.nan_to_num(self._number(AMOUNTS[part])).tolist())
            return KeyColumn([amount_key(amount) for amount in amounts], of)
        if part in _TEXT_PARTS:
            return self._texts(part)
        column = self._texts("name")
        # Jobs without a name are alike in that: they share one.
        names = [UNNAMED if name is None else name for name in column.keys]
        if part == "name":
            return KeyColumn(names, column.of)
        if part == "family":
            return KeyColumn([name_family(name) for name in names], column.of)
        return KeyColumn([bucket_of(name) for name in names], column.of)

    def _texts(self, field: str) -> KeyColumn:
        values = [job.get(field) for job in self._jobs]
        if not set(map(type, values)) <= {str, type(None)}:  # 1, 1.0 and True are equal, their texts are not
            values = [text_or_none(value) for value in values]
        texts, of = _distinct(values)
        return KeyColumn([text_or_none(text) for text in texts], of)

    def _number(self, field: str) -> Floats:
        if field not in self._numbers:
            self._numbers[field] = _as_numbers([job.get(field) for job in self._jobs])
        return self._numbers[field]


def _as_numbers(values: Sequence[object]) -> Floats:
    """`number_or_nan` of each value."""
    kinds = set(map(type, values))
    if kinds == {type(None)}:
        return np.full(len(values), np.nan)
    if kinds <= {int, float, type(None)}:
        try:
            numbers = np.array(values, dtype=np.float64)
        except OverflowError:  # an integer beyond any float: one by one
            pass
        else:
            return np.where(np.isinf(numbers), np.nan, numbers)
    return np.array([number_or_nan(value) for value in values], dtype=np.float64)


def _distinct(values: Sequence[_Value]) -> tuple[list[_Value], NDArray[np.intp]]:
    """Each value once, and which of them is where."""
    distinct = list(dict.fromkeys(values))
    place = dict(zip(distinct, range(len(distinct)), strict=True))
    return distinct, np.fromiter(map(place.__getitem__, values), np.intp, len(values))


def _joined(parts: Sequence[KeyColumn], jobs: int) -> KeyColumn:
    """Keys of several parts; parts may share texts, so a key may come twice."""
    if len(parts) == 1:
        return parts[0]
    codes = np.zeros(jobs, dtype=np.intp)
    for part in parts:
        codes = codes * len(part.keys) + part.of
    _, first, of = np.unique(codes, return_index=True, return_inverse=True)
    texts = [map(part.keys.__getitem__, part.of[first].tolist()) for part in parts]
    return KeyColumn([join_key(key) for key in zip(*texts, strict=True)] if parts else [""], of)
