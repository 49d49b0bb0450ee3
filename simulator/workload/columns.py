"""The jobs of a workload as columns, and as the `Job`s that are made of them when one is asked for."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self, overload

import numpy as np
from numpy.typing import NDArray

from simulator.workload.job import Job

Floats = NDArray[np.float64]
NO_TEXT = -1  # the code of a job without such a text


@dataclass(frozen=True, eq=False)
class Texts:
    """A text a job, of few that recur: `names[code]`, each name once; NO_TEXT: none."""

    codes: NDArray[np.int32]
    names: tuple[str, ...]

    @classmethod
    def of(cls, texts: Iterable[str | None]) -> Self:
        """Return these texts, one a job."""
        codes: dict[str | None, int] = {None: NO_TEXT}
        found = np.array([codes.setdefault(text, len(codes) - 1) for text in texts], dtype=np.int32)
        return cls(found, tuple(name for name in codes if name is not None))

    @classmethod
    def none(cls, jobs: int) -> Self:
        """Return no text for so many jobs."""
        return cls(np.full(jobs, NO_TEXT, dtype=np.int32), ())

    def __getitem__(self, rows: Any) -> "Texts":
        """Return those of some jobs."""
        return Texts(self.codes[rows], self.names)

    def tolist(self) -> list[Any]:
        """Return one text a job; None: none."""
        texts: list[Any] = self.objects().tolist()
        return texts

    def array(self) -> Any:
        """Return one text a job as an array of pandas, of the dtype str."""
        import pandas as pd
        import pyarrow as pa

        codes = pa.array(self.codes, mask=self.codes == NO_TEXT)
        texts = pa.DictionaryArray.from_arrays(codes, pa.array(self.names, pa.large_string()))
        dtype: Any = pd.StringDtype(na_value=np.nan)
        return dtype.__from_arrow__(texts.cast(pa.large_string()))

    def objects(self) -> NDArray[np.object_]:
        """Return one text a job as an array; None: none."""
        return np.array([*self.names, None], dtype=object)[self.codes]

    def groups(self) -> Iterator[tuple[str, NDArray[np.intp]]]:
        """Return each text that some job has, with the rows of its jobs in ascending order."""
        rows = np.argsort(self.codes, kind="stable")
        ends = np.searchsorted(self.codes[rows], np.arange(len(self.names) + 1))
        for name, begin, end in zip(self.names, ends[:-1].tolist(), ends[1:].tolist(), strict=True):
            if begin < end:
                yield name, rows[begin:end]


@dataclass(frozen=True, eq=False)
class WorkloadColumns:
    """One value a job in each column, by the names of the fields of `Job`, in the workload's order.

    Shape (jobs,) each. NaN stands for an estimate, a time limit or a time of leaving that there is not.
    Columns of objects are None where no job has one. `job_id` is an array of NumPy, or of pandas where the
    jobs are of a table: a million texts take an eighth of the memory.
    """

    job_id: Any
    virtual_cluster: Texts
    user: Texts
    gpus: NDArray[np.int64]
    submit_time_s: Floats
    duration_s: Floats
    estimated_duration_s: Floats
    order: NDArray[np.int64]
    profile: NDArray[np.object_] | None
    cpus: NDArray[np.int64]
    template: Texts
    cancel_time_s: Floats
    phase: NDArray[np.object_] | None
    long_cold_start: NDArray[np.bool_]
    elasticity: NDArray[np.object_] | None
    workers: NDArray[np.object_] | None
    time_limit_s: Floats
    withdrawn: NDArray[np.bool_]
    timed_out: NDArray[np.bool_]
    account: Texts
    qos: Texts

    def __len__(self) -> int:
        return len(self.job_id)

    @classmethod
    def of(cls, jobs: Sequence[Job]) -> Self:
        """Return the columns of jobs that there are."""
        return cls(*(_column(name, [getattr(job, name) for job in jobs]) for name in _NAMES))

    def __getitem__(self, rows: Any) -> "WorkloadColumns":
        """Return the columns of some jobs: a slice, a mask, or positions."""
        return WorkloadColumns(*(of_rows(getattr(self, name), rows) for name in _NAMES))

    def jobs(self) -> tuple[Job, ...]:
        """Make the jobs."""
        columns = (_values(getattr(self, name), len(self)) for name in _NAMES)
        return tuple([Job(*row) for row in zip(*columns, strict=True)])


_NAMES = tuple(field.name for field in fields(WorkloadColumns))
assert tuple(field.name for field in fields(Job)) == _NAMES  # noqa: S101 - jobs are made by position
_OBJECTS = {"profile", "phase", "elasticity", "workers"}
_TYPES = {
    **dict.fromkeys(("submit_time_s", "duration_s", "estimated_duration_s"), np.float64),
    **dict.fromkeys(("cancel_time_s", "time_limit_s"), np.float64),
    **dict.fromkeys(("gpus", "order", "cpus"), np.int64),
    **dict.fromkeys(("long_cold_start", "withdrawn", "timed_out"), np.bool_),
}


def of_rows(column: Any, rows: Any) -> Any:
    """Return a column of some jobs: a slice, a mask, or positions; None of None."""
    return None if column is None else column[rows]


def objects_or_none(values: Sequence[Any]) -> NDArray[np.object_] | None:
    """Return a column of objects; None where all are None."""
    if all(value is None for value in values):
        return None
    column = np.empty(len(values), dtype=object)
    for row, value in enumerate(values):  # a sequence of sequences would make more axes
        column[row] = value
    return column


def objects_in(
    column: NDArray[np.object_] | None, rows: NDArray[np.bool_] | None = None
) -> Iterator[tuple[int, Any]]:
    """Return the objects of a column (of some rows), each with its row."""
    if column is not None:
        for row in range(len(column)) if rows is None else np.flatnonzero(rows).tolist():
            if column[row] is not None:
                yield row, column[row]


def _column(name: str, values: list[Any]) -> Any:
    """Return a column of what jobs have by this name."""
    if name in _TYPES:
        return np.array(values, dtype=_TYPES[name])  # None becomes NaN
    if name in _OBJECTS:
        return objects_or_none(values)
    return np.array(values, dtype=object) if name == "job_id" else Texts.of(values)


def _values(column: Any, jobs: int) -> list[Any]:
    """Return what jobs have of a column."""
    if column is None:
        return [None] * jobs
    values: list[Any] = column.tolist()
    if isinstance(column, np.ndarray) and column.dtype == np.float64 and np.isnan(column).any():
        return [None if value != value else value for value in values]  # NaN is not itself
    return values


class JobSequence(Sequence[Job]):
    """A workload's jobs: `columns`, of which jobs are made when one is asked for, or the other way round.

    It is equal to any sequence of equal jobs.
    """

    __slots__ = ("_columns", "_jobs")

    def __init__(self, jobs: Iterable[Job] | None = None, *, columns: WorkloadColumns | None = None) -> None:
        """Give either."""
        self._jobs = None if jobs is None else tuple(jobs)
        self._columns = columns

    @property
    def columns(self) -> WorkloadColumns:
        """The same as columns."""
        if self._columns is None:
            self._columns = WorkloadColumns.of(self._jobs or ())
        return self._columns

    def made(self) -> tuple[Job, ...]:
        """Return all jobs; they are kept."""
        if self._jobs is None:
            self._jobs = self.columns.jobs()
        return self._jobs

    def taken(self, rows: NDArray[np.intp]) -> "JobSequence":
        """Return the jobs at these positions."""
        jobs = self._jobs
        return JobSequence(
            None if jobs is None else [jobs[row] for row in rows.tolist()],
            columns=self.columns[rows],
        )

    def __len__(self) -> int:
        return len(self.columns) if self._jobs is None else len(self._jobs)

    @overload
    def __getitem__(self, index: int) -> Job: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Job, ...]: ...
    def __getitem__(self, index: int | slice) -> Job | tuple[Job, ...]:
        return self.made()[index]

    def __iter__(self) -> Iterator[Job]:
        return iter(self.made())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JobSequence | tuple | list) and self.made() == tuple(other)

    def __hash__(self) -> int:
        return hash(self.made())

    def __repr__(self) -> str:
        return f"<{len(self)} jobs>"

    def __reduce__(self) -> Any:
        return _of_columns, (self.columns,)


def _of_columns(columns: WorkloadColumns) -> JobSequence:
    return JobSequence(columns=columns)
