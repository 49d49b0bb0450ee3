"""The table of refused rows, merged part by part: memory does not grow with the number of bad rows.

    ROOT/quarantine/cluster=C/ORIGIN.parquet          the source's rows 0 to ROWS_A_PART - 1
    ROOT/quarantine/cluster=C/ORIGIN~000001.parquet   the next ROWS_A_PART, where some were refused

A row is always in the part of its number, so the same rows twice give the same files. A lake from before
there were parts has all of an origin's rows in the first file, which is divided when rows are added.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cluster_logs.cluster_names import check_cluster_name
from cluster_logs.job_table import QUARANTINE_SCHEMA
from cluster_logs.lake_files import LakeFiles
from cluster_logs.quarantine import MAX_RAW_BYTES, MAX_VALUE_BYTES, cut_evidence
from cluster_logs.spool import PartSpool
from foundation.storage import list_files

ROWS_A_PART = 16_384
FLUSH_BYTES = 8 * 1024 * 1024

# The quarantine table without its cluster, which the lake adds.
REFUSED_SCHEMA = pa.schema([column for column in QUARANTINE_SCHEMA if column.name != "cluster"])

_TABLE = "quarantine"
_ORDER = ("source_file", "source_row", "reason", "column", "raw_row", "value", "source_format")


def part_of(rows: pa.Table) -> npt.NDArray[np.int64]:
    """The part of each refused row, shape (rows,)."""
    numbers: npt.NDArray[np.int64] = rows.column("source_row").to_numpy()
    return numbers // ROWS_A_PART


def refused_spool(folder: Path) -> PartSpool:
    """A spool for refused rows (REFUSED_SCHEMA), by part."""
    return PartSpool(folder, REFUSED_SCHEMA, part_of, FLUSH_BYTES)


@dataclass(frozen=True)
class ReasonOfRows:
    """A reason, how many rows of a cluster it refused, and some of them (columns of REFUSED_SCHEMA)."""

    reason: str
    rows: int
    samples: Sequence[Mapping[str, Any]]


class QuarantineTable:
    """Reads and adds the refused rows of a lake's clusters."""

    def __init__(self, files: LakeFiles) -> None:
        self._files = files

    def add(self, cluster: str, origin: str, tables: Iterable[pa.Table]) -> bool:
        """Add refused rows under the name of their origin; whether any file changed."""
        first = self._path(cluster, origin, 0)
        older = self._files.read_file(_TABLE, cluster, first, ["source_row"])
        changed = False
        if older is not None and pc.max(older.column("source_row")).as_py() >= ROWS_A_PART:
            changed = self._divide(cluster, origin)
        for table in tables:
            for part, rows in _by_part(self._files.own(table, cluster, _TABLE)):
                changed |= self._merge(cluster, self._path(cluster, origin, part), rows)
        return changed

    def read(self, cluster: str) -> pa.Table:
        """All refused rows of a cluster."""
        files = list_files(self._files.fs, self._files.folder(_TABLE, cluster))
        tables = [self._files.read_file(_TABLE, cluster, info.path) for info in files]
        return pa.concat_tables([QUARANTINE_SCHEMA.empty_table(), *(t for t in tables if t is not None)])

    def by_reason(self, cluster: str, samples: int) -> list[ReasonOfRows]:
        """How many rows each reason refused, the most first, each with its first few rows; file by file, so
        that memory does not grow with their number.
        """
        counts: Counter[str] = Counter()
        shown: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for info in list_files(self._files.fs, self._files.folder(_TABLE, cluster)):
            reasons = self._files.read_file(_TABLE, cluster, info.path, ["reason"])
            here = [] if reasons is None else pc.value_counts(reasons.column("reason")).to_pylist()
            counts.update({each["values"]: each["counts"] for each in here})
            wanted = [each["values"] for each in here if len(shown[each["values"]]) < samples]
            rows = self._files.read_file(_TABLE, cluster, info.path) if wanted else None
            for reason in wanted:
                if rows is None:
                    break  # removed meanwhile
                first = rows.filter(pc.equal(rows.column("reason"), reason))
                shown[reason] += first.slice(0, samples - len(shown[reason])).to_pylist()
        return [ReasonOfRows(reason, rows, shown[reason]) for reason, rows in counts.most_common()]

    def _divide(self, cluster: str, origin: str) -> bool:
        """Give the rows of a file from before there were parts their own parts; the first comes last, so that
        a row is twice in the table rather than not at all if this ends in between.
        """
        first = self._path(cluster, origin, 0)
        older = self._files.read_file(_TABLE, cluster, first)
        parts = dict(_by_part(older)) if older is not None else {}
        rest = parts.pop(0, QUARANTINE_SCHEMA.empty_table())
        for part, rows in parts.items():
            self._merge(cluster, self._path(cluster, origin, part), rows)
        if rest.num_rows:
            return self._files.replace_file(_TABLE, cluster, first, older, rest)
        self._files.writes.changing(cluster, _TABLE)
        self._files.fs.delete_file(first)
        return True

    def _merge(self, cluster: str, path: str, newer: pa.Table) -> bool:
        older = self._files.read_file(_TABLE, cluster, path)
        both = _with_short_evidence(newer if older is None else pa.concat_tables([older, newer]))
        names = [name for name in QUARANTINE_SCHEMA.names if name != "cluster"]
        merged = (
            both.group_by(names, use_threads=False)
            .aggregate([])
            .sort_by([(name, "ascending") for name in _ORDER])
        )
        return self._files.replace_file(
            _TABLE, cluster, path, older, self._files.own(merged, cluster, _TABLE)
        )

    def _path(self, cluster: str, origin: str, part: int) -> str:
        name = f"{check_cluster_name(origin)}~{part:06d}" if part else check_cluster_name(origin)
        return f"{self._files.folder(_TABLE, cluster)}/{name}.parquet"


def _by_part(rows: pa.Table) -> Iterable[tuple[int, pa.Table]]:
    parts = part_of(rows)
    for part in np.unique(parts).tolist():
        yield part, rows.filter(pa.array(parts == part))


def _with_short_evidence(rows: pa.Table) -> pa.Table:
    for name, most in (("raw_row", MAX_RAW_BYTES), ("value", MAX_VALUE_BYTES)):
        column = rows.column(name)
        longest = pc.max(pc.binary_length(column)).as_py()
        if longest is not None and longest > most:
            texts = [None if text is None else cut_evidence(text, most) for text in column.to_pylist()]
            at = rows.schema.get_field_index(name)
            rows = rows.set_column(at, rows.schema.field(name), pa.array(texts, pa.string()))
    return rows
