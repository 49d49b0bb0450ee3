"""A log as it would be read, before anything is written: what a person looks at before an ingest.

Only the first part of a large file is read, and said to be: what is counted then is the least there is. The
rows pass the checks of `ingest_log`, so the account here is that of the ingest, as far as it goes.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cluster_logs.day_tables import day_table
from cluster_logs.ingest_account import (
    KEPT,
    BadRowLimit,
    count_duplicates,
    count_rows,
    file_name,
    judge_duplicates,
)
from cluster_logs.quarantine import MAX_BAD_SHARE, REASONS, SKIP_RULES, Accounting
from cluster_logs.readers.base import (
    EVERY_CLUSTER,
    Reader,
    ReadOptions,
    StatedSize,
    good_shares,
    load_reader,
    read_chunks,
)
from cluster_logs.readers.source import TextSource
from foundation.errors import BadInputError, LucidError, TooManyBadRowsError
from foundation.storage import open_input, shown
from pipeline.ingest.cluster_size import (
    LeastSize,
    count_machines,
    least_sizes,
    on_shared_machines,
    shown_sizes,
)
from pipeline.ingest.ingestion import remarks_on_kept_jobs

# What is read of a file at most: in a fraction of a second, and 100 MiB of memory.
MOST_BYTES = 16 * 1024 * 1024
MOST_ROWS = 250_000
_ROWS_SHOWN = 8
_BAD_ROWS_SHOWN = 3
_MOST_COLUMNS = 40
_LONGEST_CELL = 120
_JOB_COLUMNS = ("job_id", "virtual_cluster", "user", "name", "gpus", "state", "submit_time", "start_time")
_JOB_COLUMNS_LAST = ("end_time", "duration_s")

# Where a table that holds no jobs belongs in the form of `ingest_logs`.
_BESIDE = {
    "throughput": "a published throughput table: name it in the field Throughput of the form, beside a log",
    "nodes": "a file of nodes: give it as the cluster's nodes, beside its log",
    "node_states": "counts of nodes: name it in the field Nodes in use of the form, beside a log",
}


@dataclass(frozen=True)
class FormatShare:
    """A format and which part of the first rows its reader keeps, in percent."""

    name: str
    summary: str
    kept_pct: float


@dataclass(frozen=True)
class BadRowSample:
    """A refused row of the file, as text: its number from 1 on, the column and its value, the whole row."""

    row: int
    column: str | None
    value: str | None
    text: str


@dataclass(frozen=True)
class RowsByReason:
    """Rows that are not kept: the reason or rule, what it means, how many, and the first few refused ones."""

    reason: str
    meaning: str
    rows: int
    quarantined: bool
    samples: Sequence[BadRowSample] = ()


@dataclass(frozen=True)
class SizeInLog:
    """What the jobs of one virtual cluster show of its size: GPUs at once and of the largest job, machines
    that are named; `least`: the fewest nodes, shared machines counted once.
    """

    virtual_cluster: str
    jobs: int
    most_gpus: int
    largest_job_gpus: int
    machines: int
    least: LeastSize


@dataclass(frozen=True)
class RowsRead:
    """What was read in one format: the account, and what the kept rows say.

    `whole`: it was the whole file. `first_submit` and `last_submit`, `jobs`, `users`, `gpu_jobs` and `sizes`
    (by virtual cluster, the one with the most jobs first) are of jobs alone. `shared_machines`: that virtual
    clusters share machines, a sentence. `too_many_bad`: why an ingest of these rows would be refused.
    `remarks`: what is to be said of rows that are kept, such as values that cannot be used.
    """

    whole: bool
    rows_in: int
    kept: int
    quarantined: int
    skipped: int
    reasons: Sequence[RowsByReason]
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    time_zone: str
    counts_from_zero: bool
    first_submit: datetime | None = None
    last_submit: datetime | None = None
    last_end: datetime | None = None
    users: int = 0
    gpu_jobs: int = 0
    sizes: Sequence[SizeInLog] = ()
    shared_machines: str = ""
    stated: StatedSize | None = None
    too_many_bad: str | None = None
    remarks: Sequence[str] = ()


@dataclass(frozen=True)
class LogPreview:
    """A file, the formats it may have, and its rows in the one that was chosen, or is the likeliest.

    `certainty`: how sure the guess is, in words. `columns`: the first line, cell by cell, where it is text.
    `problem`: why it cannot be ingested as it is; `read` None: no row could be read.
    """

    name: str
    size_bytes: int | None
    guesses: Sequence[FormatShare]
    certainty: str
    columns: Sequence[str]
    format: str | None
    problem: str | None
    read: RowsRead | None


def preview_log(
    uri: str,
    *,
    source_format: str | None = None,
    time_zone: str | None = None,
    cluster: str | None = None,
    columns: Mapping[str, str] = MappingProxyType({}),
) -> LogPreview:
    """Look at a file: in `source_format`, or in the format that keeps the most of its first rows.

    `time_zone`, `cluster` and `columns` are those of the ingest. Raises NotFoundError and BadInputError for
    what is no file that can be read, UnknownNameError for an unknown format; a file of no known format is
    told, with its columns.
    """
    if source_format:
        load_reader(source_format)  # an unknown name is an error, another format than the file's is told
    size_bytes = _size_bytes(uri)
    shares = good_shares(uri)
    guesses = [
        FormatShare(name, load_reader(name).summary, round(100 * share, 1)) for name, share in shares.items()
    ]
    first_line = [] if "lake" in shares else _first_line(uri)
    name = source_format or next(iter(shares), None)
    read, problem = None, None
    if name is None:
        problem = (
            "None of the formats that are read fits this file. Choose the one that it should have been "
            "exported in, to see what is missing; of a CSV with a row a job choose jobs-csv, and name its "
            "columns."
            if first_line
            else "This file is no text, and none of the formats that are read."
        )
    else:
        try:
            read = _read(
                load_reader(name), uri, ReadOptions(cluster or EVERY_CLUSTER, time_zone, columns=columns)
            )
        except LucidError as error:
            problem = str(error)
        else:
            problem = _problem_of(load_reader(name), read)
    return LogPreview(
        shown(file_name(uri)),
        size_bytes,
        guesses,
        _certainty(shares, name),
        first_line,
        name,
        problem,
        read,
    )


def _size_bytes(uri: str) -> int | None:
    """The size of a file; None for a folder, which may be a lake."""
    try:
        with open_input(uri) as file:
            return int(file.size())
    except BadInputError:
        if "lake" in good_shares(uri):
            return None
        raise


def _first_line(uri: str) -> list[str]:
    """The cells of a text file's first line, whatever separates them; none where it is no text."""
    block = next(TextSource(uri, most_bytes=64 * 1024).blocks(), b"")
    try:
        line = block.partition(b"\n")[0].decode().strip()
    except UnicodeDecodeError:
        return []
    separator = max(",", "|", "\t", ";", "\x1f", " ", key=line.count)
    cells = line.split(separator)
    more = [f"and {len(cells) - _MOST_COLUMNS} more"] if len(cells) > _MOST_COLUMNS else []
    return [_cell(cell) for cell in cells[:_MOST_COLUMNS]] + more


def _certainty(shares: dict[str, float], chosen: str | None) -> str:
    if not shares:
        return "No format fits."
    best = max(shares.values())
    equal = [name for name, share in shares.items() if share == best]
    part = "All" if best == 1 else f"{100 * best:.1f} %"
    if len(equal) > 1:
        words = f"{part} of the first rows can be read as {' or as '.join(equal)}: choose between them."
    else:
        others = [f"{name} ({100 * share:.0f} %)" for name, share in shares.items() if share < best]
        rest = f"less as {', '.join(others)}" if others else "no other format fits"
        words = f"{part} of the first rows can be read as {equal[0]}; {rest}."
    return words if chosen in shares else f"{words} You chose {chosen}."


def _read(reader: Reader, uri: str, options: ReadOptions) -> RowsRead:
    account, kept, refused = Accounting(), [], []
    limit = BadRowLimit(uri, reader, 1.0)
    whole = True
    for chunk in read_chunks(reader, uri, options, most_bytes=MOST_BYTES):
        count_rows(account, chunk, limit)
        kept.append(chunk.rows)
        refused.append(chunk.refused)
        if account.rows_in >= MOST_ROWS:
            whole = False
            break
    rows, bad = pa.concat_tables(kept), pa.concat_tables(refused)
    jobs = reader.table == "jobs"
    if jobs:
        verdicts = judge_duplicates(rows)
        count_duplicates(account, Counter(verdicts.tolist()))
        rows = rows.filter(pa.array(verdicts == KEPT))
    else:
        account.kept = rows.num_rows
    columns = _shown_columns(rows, jobs=jobs)
    return RowsRead(
        whole=whole and not (reader.name != "lake" and TextSource(uri).longer_than(MOST_BYTES)),
        rows_in=account.rows_in,
        kept=account.kept,
        quarantined=account.quarantined.total(),
        skipped=account.skipped.total(),
        reasons=_by_reason(account, bad),
        columns=columns,
        rows=[[_cell(row[name]) for name in columns] for row in rows.slice(0, _ROWS_SHOWN).to_pylist()],
        time_zone=reader.clock(uri, options.time_zone),
        counts_from_zero=reader.counts_from_zero,
        too_many_bad=_too_many_bad(uri, reader, account, limit),
        remarks=remarks_on_kept_jobs(account.noted, account.unknown_values),
        **(_job_facts(reader, uri, rows, options.gpus_per_node) if jobs else {}),
    )


def _job_facts(reader: Reader, uri: str, jobs: pa.Table, gpus_per_node: int) -> dict[str, Any]:
    submit = pc.min_max(jobs.column("submit_time")).as_py()
    sizes = shown_sizes([jobs])
    if reader.name != "lake":
        count_machines(sizes, reader.name, uri, most_bytes=MOST_BYTES)
    least = least_sizes(sizes, gpus_per_node)
    return {
        "first_submit": submit["min"],
        "last_submit": submit["max"],
        "last_end": pc.max(jobs.column("end_time")).as_py(),
        "users": len(pc.unique(jobs.column("user").drop_null())),
        "gpu_jobs": int(pc.sum(pc.greater(jobs.column("gpus"), 0)).as_py() or 0),
        "sizes": [
            SizeInLog(name, size.jobs, size.most_gpus, size.largest_job_gpus, len(size.machines), least[name])
            for name, size in sizes.items()
        ],
        "shared_machines": on_shared_machines(sizes),
        "stated": None if reader.name == "lake" else reader.stated_size(TextSource(uri)),
    }


def _too_many_bad(uri: str, reader: Reader, account: Accounting, limit: BadRowLimit) -> str | None:
    try:
        BadRowLimit(uri, reader, MAX_BAD_SHARE, dict(limit.examples)).check(account)
    except TooManyBadRowsError as error:
        return str(error)
    return None


def _problem_of(reader: Reader, read: RowsRead) -> str | None:
    """Why these rows cannot be ingested as a cluster's log."""
    if reader.table != "jobs":
        return f"This file holds no jobs. It is {_BESIDE.get(reader.table) or _of_part(reader.table)}."
    if not read.kept:
        return f"None of {read.rows_in:,} rows would be kept: see why below."
    return None


def _of_part(table: str) -> str:
    field = day_table(table).field
    return f"{field.lower()}: name it in the field {field} of the form, beside a log"


def _by_reason(account: Accounting, refused: pa.Table) -> list[RowsByReason]:
    meanings = {**REASONS, **SKIP_RULES}
    rows = [
        RowsByReason(name, meanings[name], count, True, _samples(refused, name))
        for name, count in (+account.quarantined).most_common()
    ]
    return rows + [
        RowsByReason(name, meanings[name], count, False) for name, count in (+account.skipped).most_common()
    ]


def _samples(refused: pa.Table, reason: str) -> list[BadRowSample]:
    first = refused.filter(pc.equal(refused.column("reason"), reason)).slice(0, _BAD_ROWS_SHOWN).to_pylist()
    return [BadRowSample(row["source_row"], row["column"], row["value"], row["raw_row"]) for row in first]


def _shown_columns(rows: pa.Table, *, jobs: bool) -> list[str]:
    names = [*_JOB_COLUMNS, *_JOB_COLUMNS_LAST] if jobs else rows.column_names
    return [name for name in names if rows.column(name).null_count < rows.num_rows]


def _cell(value: Any) -> str:
    """A value as text that fits a cell of a table."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="seconds").replace("+00:00", "")
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _LONGEST_CELL else f"{text[:_LONGEST_CELL]}..."
