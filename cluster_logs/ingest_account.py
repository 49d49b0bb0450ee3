"""What becomes of the rows of one ingest: counted while they are read, judged, kept by part, and reported.

A log with too many bad rows is most likely read in the wrong format. The rows that count are those that were
judged as what the format holds: kept, quarantined, or whole and outside the window that was asked for. Rows
that a rule leaves out (a job's steps, another cluster's jobs) say nothing.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from hashlib import sha256
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc as ipc

from cluster_logs import quarantine as q
from cluster_logs.job_table import REFUSED_SCHEMA, JobState, group_by_key, is_finished
from cluster_logs.lake import Lake
from cluster_logs.lake_files import part_of
from cluster_logs.quarantine import Accounting
from cluster_logs.readers.base import JOB_ROWS_SCHEMA, ReadChunk, Reader, ReadOptions, read_raw_rows
from foundation.errors import BadInputError, BadRow, TooManyBadRowsError

# A share of a handful of rows says little: fewer rows than this must all be bad.
FEW_ROWS = 100
# Reading stops before the end of the file from so many rows on.
ENOUGH_TO_STOP = 10_000
_REASONS_SHOWN = 3
_CHARACTERS_SHOWN = 200

# The one format with rows that name the file which they come from.
LAKE_FORMAT = "lake"
CONFLICTS_AT_ONCE = 10_000
_CONFLICT_COLUMNS = ["job_id", "submit_time", "source_file", "source_row"]
KEPT = ""
_WHERE_READ = ("source_file", "source_row")

# Rows that wait on disk: of all parts together, then they are written.
FLUSH_BYTES = 96 * 1024 * 1024
_REFUSED_FLUSH_BYTES = 8 * 1024 * 1024

_DAY_US = 86_400 * 1_000_000
_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True)
class IngestReport:
    """What became of the rows of one file. `reasons` counts by reason of quarantine and by rule of
    skipping, `notes` what else was noticed (`quarantine.NOTES`), `unknown_values` by fact how many values of
    rows that are kept could not be used and are unknown.
    """

    cluster: str
    source_format: str
    rows_in: int
    rows_kept: int
    rows_quarantined: int
    rows_skipped: int
    reasons: dict[str, int]
    tables: tuple[str, ...]
    first_submit: datetime | None
    last_submit: datetime | None
    notes: dict[str, int] = field(default_factory=dict)
    unknown_values: dict[str, int] = field(default_factory=dict)

    @property
    def left_out(self) -> str:
        """Name the rows that are not kept, by reason; "" where all are."""
        if not self.rows_quarantined and not self.rows_skipped:
            return ""
        return ", ".join(f"{count:,} {name}" for name, count in sorted(self.reasons.items()))


def file_name(uri: str) -> str:
    """Return the last part of a path or URI."""
    return uri.rstrip("/").rpartition("/")[2]


def count_rows(account: Accounting, chunk: ReadChunk, limit: "BadRowLimit") -> None:
    """Count a chunk's rows; raises TooManyBadRowsError as soon as too many are bad."""
    account.rows_in += chunk.rows_in
    account.skipped.update(chunk.skipped)
    account.noted.update(chunk.noted)
    account.unknown_values.update(chunk.unknown_values)
    for counted in pc.value_counts(chunk.refused.column("reason")).to_pylist():
        account.quarantined[counted["values"]] += counted["counts"]
    limit.watch(account, chunk.refused)


def count_duplicates(account: Accounting, verdicts: Counter[str]) -> None:
    """Count what was kept of rows that came more than once, by `judge_duplicates`."""
    account.kept += verdicts.pop(KEPT, 0)
    account.quarantined[q.DUPLICATE_CONFLICT] += verdicts.pop(q.DUPLICATE_CONFLICT, 0)
    account.skipped.update(verdicts)


def write_quarantine(
    reader: Reader, uri: str, options: ReadOptions, lake: Lake, refused: "PartSpool"
) -> tuple[str, ...]:
    """Add the refused rows under a name made of the format and the file; the table's URI if there were
    any.
    """
    parts = refused.parts()
    if not parts:
        return ()
    name = file_name(uri)
    readable = re.sub(r"[^A-Za-z0-9._-]", "_", name)[:40]
    origin = f"{reader.name}-{readable}-{sha256(name.encode()).hexdigest()[:8]}"
    lake.add_quarantine_parts(options.cluster, origin, map(refused.read, parts))
    return (lake.table_uri("quarantine", options.cluster),)


def report_of(
    reader: Reader,
    options: ReadOptions,
    account: Accounting,
    tables: tuple[str, ...],
    times: tuple[datetime | None, datetime | None],
) -> IngestReport:
    """Return the report of an ingest; `times` are the first and last in its rows."""
    return IngestReport(
        cluster=options.cluster,
        source_format=reader.name,
        **account.totals(),
        reasons=account.reasons(),
        tables=tables,
        first_submit=times[0],
        last_submit=times[1],
        notes=dict(account.noted),
        unknown_values=dict(sorted(account.unknown_values.items())),
    )


# Too many bad rows --------------------------------------------------------------------------------------


def check_max_bad_share(share: float) -> float:
    """The share when it is one (0 to 1; 1: any number of bad rows is accepted); else BadInputError."""
    if not 0.0 <= share <= 1.0:
        raise BadInputError(f"A share of {share} bad rows.", remedy="Choose between 0 and 1.")
    return share


@dataclass
class BadRowLimit:
    """Watches the rows of one log go by, and ends its reading when too many of them are bad."""

    uri: str
    reader: Reader
    max_share: float
    examples: dict[str, BadRow] = field(default_factory=dict)

    def watch(self, account: Accounting, refused: pa.Table) -> None:
        """Take note of a chunk's refused rows (REFUSED_SCHEMA), which the account holds already.

        Raises TooManyBadRowsError once enough rows were read to judge.
        """
        for reason in pc.unique(refused.column("reason")).to_pylist():
            if reason not in self.examples:
                first = pc.index(refused.column("reason"), reason).as_py()
                row = refused.slice(first, 1).to_pylist()[0]
                self.examples[reason] = BadRow(
                    row["source_row"], reason, row["column"], row["value"], row["raw_row"]
                )
        if _judged(account) >= ENOUGH_TO_STOP:
            self._check(account, "so far")

    def check(self, account: Accounting) -> None:
        """Raise TooManyBadRowsError when the whole log has too many bad rows."""
        if _judged(account) >= FEW_ROWS or account.quarantined.total() == _judged(account):
            self._check(account, "")

    def check_some(self, account: Accounting) -> None:
        """Raise BadInputError when no row of the whole log was kept, and say where they all went.

        Where any number of bad rows is accepted, so is this.
        """
        if account.kept or self.max_share >= 1:
            return
        if not account.rows_in:
            raise BadInputError(
                f"{self.uri} holds no rows, read as {self.reader.name}.",
                remedy="Check how it was exported.",
            )
        reasons = {**q.REASONS, **q.SKIP_RULES}
        rules = "; ".join(
            f"{count:,} {name}: {reasons[name].rstrip('.')}"
            for name, count in (account.quarantined + account.skipped).most_common()
        )
        raise BadInputError(
            f"{self.uri}, read as {self.reader.name}: none of {account.rows_in:,} rows is kept. {rules}.",
            remedy="Check the file, its format and its cluster.",
        )

    def _check(self, account: Accounting, when: str) -> None:
        judged, bad = _judged(account), account.quarantined.total()
        if not bad or bad <= self.max_share * judged:
            return
        reasons = dict((+account.quarantined).most_common())
        example = self.examples.get(next(iter(reasons)))
        seen = f"{judged:,} rows {when}".rstrip()
        raise TooManyBadRowsError(
            f"{self.uri}, read as {self.reader.name}: {bad:,} of {seen} cannot be used "
            f"({100 * bad / judged:.3g} %, {100 * self.max_share:.3g} % allowed). {_in_words(reasons)}"
            f"{'' if example is None else _shown(example)} Nothing was written.",
            remedy=_remedy(self.reader, reasons, all_bad=bad == judged),
            judged=judged,
            quarantined=bad,
            reasons=reasons,
            example=example,
        )


def _judged(account: Accounting) -> int:
    return account.rows_in - account.skipped.total() + account.skipped[q.OUTSIDE_WINDOW]


def _remedy(reader: Reader, reasons: dict[str, int], *, all_bad: bool) -> str:
    """What helps: never to accept the loss of everything."""
    remedies = [f"Check that the format is {reader.name!r}."]
    if reader.export and next(iter(reasons)) in (q.WRONG_COLUMN_COUNT, q.UNBALANCED_QUOTES):
        remedies.append(f"Export it with a separator that no value holds:\n{reader.export}\n")
    if not all_bad:
        remedies.append(
            "If all this is so, accept the loss when it is read into the lake: "
            '`lucid ingest --max-bad-share 1` (in the form: "Most bad rows").'
        )
    return " ".join(remedies)


def _in_words(reasons: dict[str, int]) -> str:
    shown = list(reasons.items())[:_REASONS_SHOWN]
    more = len(reasons) - len(shown)
    sentence = "; ".join(f"{count:,} {reason}: {q.REASONS[reason].rstrip('.')}" for reason, count in shown)
    return f"{sentence}; and {more} other reasons." if more else f"{sentence}."


def _shown(example: BadRow) -> str:
    text = example.text
    text = text if len(text) <= _CHARACTERS_SHOWN else f"{text[:_CHARACTERS_SHOWN]}..."
    place = f"row {example.row}" + (f", column {example.column!r}" if example.column else "")
    value = "" if example.value is None else f" says {example.value[:_CHARACTERS_SHOWN]!r} in"
    return f" For example {place}{value or ' reads'} {text!r}."


# Rows with the same key ---------------------------------------------------------------------------------


def judge_duplicates(jobs: pa.Table) -> npt.NDArray[np.object_]:
    """For each row KEPT, EXACT_DUPLICATE, SUPERSEDED or DUPLICATE_CONFLICT; rows in the file's order.

    Of rows with one (job_id, submit_time), the one that knows most stands: a finished job before a running
    one, a running one before a pending one, and the first of equals. A row that says the same is an exact
    duplicate; one that knew less is superseded; one that knows as much and says something else is in
    conflict.
    """
    verdicts = np.full(jobs.num_rows, KEPT, dtype=object)
    groups = group_by_key(jobs)
    doubled = np.flatnonzero(np.bincount(groups)[groups] > 1) if len(groups) else np.zeros(0, dtype=np.int64)
    if not len(doubled):
        return verdicts
    rows = jobs.take(pa.array(doubled))
    running = np.asarray(
        pc.fill_null(pc.equal(rows.column("state"), JobState.RUNNING.value), False).to_numpy(), dtype=bool
    )
    knowledge = 2 * is_finished(rows) + running
    keys = groups[doubled]
    order = np.lexsort((np.arange(len(keys)), -knowledge, keys))
    first = np.append(True, np.diff(keys[order]) != 0)
    # The row that stands, for each row of its group.
    standing = np.empty(len(keys), dtype=np.int64)
    standing[order] = order[first][np.cumsum(first) - 1]
    stands = standing == np.arange(len(keys))
    same = _equal_rows(rows, rows.take(pa.array(standing)))
    knows_less = knowledge < knowledge[standing]
    verdicts[doubled] = np.select(
        [stands, same, knows_less], [KEPT, q.EXACT_DUPLICATE, q.SUPERSEDED], default=q.DUPLICATE_CONFLICT
    )
    return verdicts


def _equal_rows(left: pa.Table, right: pa.Table) -> npt.NDArray[np.bool_]:
    equal = np.ones(left.num_rows, dtype=bool)
    for name in left.column_names:
        if name in _WHERE_READ:
            continue
        one, other = left.column(name), right.column(name)
        both_null = pc.and_(pc.is_null(one), pc.is_null(other))
        same = pc.or_(pc.fill_null(pc.equal(one, other), False), both_null)
        equal &= np.asarray(same.to_numpy(), dtype=bool)
    return equal


def resolve_duplicates(
    spool: "DaySpool", days: Sequence[date], account: Accounting
) -> tuple[dict[date, npt.NDArray[np.bool_]], pa.Table]:
    """Which rows of the days with duplicates are kept, and which rows are in conflict (_CONFLICT_COLUMNS)."""
    kept = {}
    conflicts = [JOB_ROWS_SCHEMA.empty_table().select(_CONFLICT_COLUMNS)]
    for day in days:
        jobs = spool.read(day)
        verdicts = judge_duplicates(jobs)
        count_duplicates(account, Counter(verdicts.tolist()))
        if (verdicts != KEPT).any():
            kept[day] = verdicts == KEPT
            in_conflict = pa.array(verdicts == q.DUPLICATE_CONFLICT)
            conflicts.append(jobs.select(_CONFLICT_COLUMNS).filter(in_conflict))
    return kept, pa.concat_tables(conflicts)


def conflict_rows(reader: Reader, uri: str, options: ReadOptions, conflicts: pa.Table) -> Iterator[pa.Table]:
    """The rows in conflict as refused rows, with their text from a second pass over the file.

    A lake's rows keep the row numbers of their own sources: of those the key is shown.
    """
    if reader.name == LAKE_FORMAT:
        for batch in conflicts.to_batches(max_chunksize=CONFLICTS_AT_ONCE):
            rows = batch.to_pylist()
            yield _refused_conflicts(reader, rows, [json.dumps(row, default=str) for row in rows])
        return
    by_row = conflicts.sort_by("source_row").combine_chunks()
    numbers = by_row.column("source_row").to_numpy()
    for texts in read_raw_rows(reader, uri, options, numbers):
        rows = by_row.take(pa.array(np.searchsorted(numbers, list(texts)))).to_pylist()
        yield _refused_conflicts(reader, rows, list(texts.values()))


def _refused_conflicts(reader: Reader, rows: Sequence[dict[str, object]], texts: Sequence[str]) -> pa.Table:
    refused = [
        {
            "reason": q.DUPLICATE_CONFLICT,
            "column": "job_id",
            "value": q.cut_evidence(str(row["job_id"]), q.MAX_VALUE_BYTES),
            "source_format": reader.name,
            "source_file": row["source_file"],
            "source_row": row["source_row"],
            "raw_row": q.cut_evidence(text),
        }
        for row, text in zip(rows, texts, strict=True)
    ]
    return pa.Table.from_pylist(refused, schema=REFUSED_SCHEMA)


# Rows by part, on disk: a log may be in any order and larger than memory --------------------------------


class PartSpool:
    """Collects rows and gives back each part's rows in the order in which they came.

    `part_of` says the part of each row, shape (rows,). Rows are buffered up to `flush_bytes`, then written
    to a file of one record batch a part, of which only what is asked for is read back.
    """

    def __init__(
        self,
        folder: Path,
        schema: pa.Schema,
        part_of: Callable[[pa.Table], npt.NDArray[np.int64]],
        flush_bytes: int | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._schema = schema
        self._part_of = part_of
        self._flush_bytes = flush_bytes
        self._buffer: list[pa.Table] = []
        self._buffered_bytes = 0
        self._files = 0
        self._batches: dict[int, list[tuple[int, int]]] = {}
        self._open: dict[int, ipc.RecordBatchFileReader] = {}

    def append(self, rows: pa.Table) -> None:
        """Add rows of any parts."""
        if rows.num_rows:
            self._buffer.append(rows)
            self._buffered_bytes += rows.nbytes
        if self._buffered_bytes > (FLUSH_BYTES if self._flush_bytes is None else self._flush_bytes):
            self._flush()

    def parts(self) -> list[int]:
        """The parts that have rows, in order."""
        self._flush()
        return sorted(self._batches)

    def read(self, part: int) -> pa.Table:
        """One part's rows."""
        batches = [self._reader(file).get_batch(index) for file, index in self._batches[part]]
        return pa.Table.from_batches(batches, self._schema).combine_chunks()

    def _reader(self, file: int) -> ipc.RecordBatchFileReader:
        if file not in self._open:
            self._open[file] = ipc.open_file(pa.OSFile(str(self._path(file))))
        return self._open[file]

    def _path(self, file: int) -> Path:
        return self._folder / f"spool-{file}.arrow"

    def _flush(self) -> None:
        if not self._buffer:
            return
        table = pa.concat_tables(self._buffer)
        self._buffer, self._buffered_bytes = [], 0
        parts = self._part_of(table)
        if (np.diff(parts) < 0).any():
            order = np.argsort(parts, kind="stable")
            table, parts = table.take(pa.array(order)), parts[order]
        starts = np.flatnonzero(np.append(True, np.diff(parts) != 0))
        stops = np.append(starts[1:], len(parts))
        with ipc.new_file(str(self._path(self._files)), self._schema) as sink:
            for index, (start, stop) in enumerate(zip(starts.tolist(), stops.tolist(), strict=True)):
                sink.write_batch(table.slice(start, stop - start).combine_chunks().to_batches()[0])
                self._batches.setdefault(int(parts[start]), []).append((self._files, index))
        self._files += 1


class DaySpool:
    """A spool by the UTC days of a column of times."""

    def __init__(self, folder: Path, schema: pa.Schema, time: str) -> None:
        self._spool = PartSpool(
            folder, schema, lambda rows: rows.column(time).cast(pa.int64()).to_numpy() // _DAY_US
        )

    def append(self, rows: pa.Table) -> None:
        """Add rows of any days."""
        self._spool.append(rows)

    def days(self) -> list[date]:
        """The days that have rows, in order."""
        return [_EPOCH + timedelta(days=part) for part in self._spool.parts()]

    def read(self, day: date) -> pa.Table:
        """One day's rows."""
        return self._spool.read((day - _EPOCH).days)


def refused_spool(folder: Path) -> PartSpool:
    """A spool for refused rows (REFUSED_SCHEMA), by part."""
    return PartSpool(folder, REFUSED_SCHEMA, part_of, _REFUSED_FLUSH_BYTES)
