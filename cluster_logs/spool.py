"""Rows by part, on disk: what lets an ingest read a log in any order without holding it in memory."""

from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.ipc as ipc

FLUSH_BYTES = 96 * 1024 * 1024

_DAY_US = 86_400 * 1_000_000
_EPOCH = date(1970, 1, 1)


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
    """A spool whose parts are the UTC days of a column of times."""

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
