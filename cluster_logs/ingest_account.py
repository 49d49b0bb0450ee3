"""What became of the rows of one ingest: counted while they are read, refused ones kept, and the report."""

import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256

import pyarrow.compute as pc

from cluster_logs import quarantine as q
from cluster_logs.bad_rows import BadRowLimit
from cluster_logs.duplicates import KEPT
from cluster_logs.lake import Lake
from cluster_logs.quarantine import Accounting
from cluster_logs.readers.base import ReadChunk, Reader, ReadOptions
from cluster_logs.spool import PartSpool


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


def count_rows(account: Accounting, chunk: ReadChunk, limit: BadRowLimit) -> None:
    """Count a chunk's rows; raises TooManyBadRowsError as soon as too many are bad."""
    account.rows_in += chunk.rows_in
    account.skipped.update(chunk.skipped)
    account.noted.update(chunk.noted)
    account.unknown_values.update(chunk.unknown_values)
    for counted in pc.value_counts(chunk.refused.column("reason")).to_pylist():
        account.quarantined[counted["values"]] += counted["counts"]
    limit.watch(account, chunk.refused)


def count_duplicates(account: Accounting, verdicts: Counter[str]) -> None:
    """Count what was kept of rows that came more than once, by `duplicates.judge_duplicates`."""
    account.kept += verdicts.pop(KEPT, 0)
    account.quarantined[q.DUPLICATE_CONFLICT] += verdicts.pop(q.DUPLICATE_CONFLICT, 0)
    account.skipped.update(verdicts)


def write_quarantine(
    reader: Reader, uri: str, options: ReadOptions, lake: Lake, refused: PartSpool
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
