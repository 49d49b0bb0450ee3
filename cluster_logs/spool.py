"""Rows by day, on disk: what lets an ingest read a log in any order without holding it in memory."""

from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc

FLUSH_BYTES = 96 * 1024 * 1024

_DAY_US = 86_400 * 1_000_000
_EPOCH = date(1970, 1, 1)


class DaySpool:
    """Collects rows and gives back each UTC day's rows in the order in which they came.

    Rows are buffered up to FLUSH_BYTES, then written to a file of one record batch a day; files are mapped,
    not loaded, when they are read back.
    """

    def __init__(self, folder: Path, schema: pa.Schema, time: str) -> None:
        self._folder = folder
        self._schema = schema
        self._time = time
        self._buffer: list[pa.Table] = []
        self._buffered_bytes = 0
        self._files = 0
        self._batches: dict[date, list[tuple[int, int]]] = {}
        self._open: dict[int, ipc.RecordBatchFileReader] = {}

    def append(self, rows: pa.Table) -> None:
        """Add rows of any days."""
        if rows.num_rows:
            self._buffer.append(rows)
            self._buffered_bytes += rows.nbytes
        if self._buffered_bytes > FLUSH_BYTES:
            self._flush()

    def days(self) -> list[date]:
        """The days that have rows, in order."""
        self._flush()
        return sorted(self._batches)

    def read(self, day: date) -> pa.Table:
        """One day's rows."""
        batches = [self._reader(file).get_batch(index) for file, index in self._batches[day]]
        return pa.Table.from_batches(batches, self._schema).combine_chunks()

    def _reader(self, file: int) -> ipc.RecordBatchFileReader:
        if file not in self._open:
            self._open[file] = ipc.open_file(pa.memory_map(str(self._path(file))))
        return self._open[file]

    def _path(self, file: int) -> Path:
        return self._folder / f"spool-{file}.arrow"

    def _flush(self) -> None:
        if not self._buffer:
            return
        table = pa.concat_tables(self._buffer)
        self._buffer, self._buffered_bytes = [], 0
        days = table.column(self._time).cast(pa.int64()).to_numpy() // _DAY_US
        if (np.diff(days) < 0).any():
            order = np.argsort(days, kind="stable")
            table, days = table.take(pa.array(order)), days[order]
        starts = np.flatnonzero(np.append(True, np.diff(days) != 0))
        stops = np.append(starts[1:], len(days))
        with ipc.new_file(str(self._path(self._files)), self._schema) as sink:
            for index, (start, stop) in enumerate(zip(starts.tolist(), stops.tolist(), strict=True)):
                day = _EPOCH + timedelta(days=int(days[start]))
                sink.write_batch(table.slice(start, stop - start).combine_chunks().to_batches()[0])
                self._batches.setdefault(day, []).append((self._files, index))
        self._files += 1
