"""Jobs whose size was changed while they ran: accounting has a record for each size that they had.

The records of a job's run share its Start. Each but the last says RESIZING and ends at a change, and the next
one's Submit is the moment of that change, later than its Start (Slurm 22.05). Together they are one job: it
was submitted, and had the size, as its first record says, and ended as its last one says.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cluster_logs.readers.delimited import Layout
from cluster_logs.readers.row_checker import RawChunk
from cluster_logs.readers.text_source import TextSource
from cluster_logs.readers.values import Mask, as_mask
from foundation.progress import silent

_RESIZING = b"RESIZING"
_RUN = ("cluster", "jobidraw", "jobid", "start")  # what the records of one run have in common
# What is read of the first record.
_OF_FIRST = (
    "submit", "eligible", "alloctres", "reqtres", "reqmem", "reqgres", "nnodes", "allocnodes", "ncpus",
    "alloccpus",
)  # fmt: skip


@dataclass(frozen=True)
class Resizes:
    """The changes of size in a file, by row: `first_of` has the cells of a job's first record for its last
    one, `earlier` are its other records, which say nothing more.
    """

    first_of: Mapping[int, Mapping[str, bytes]] = field(default_factory=dict)
    earlier: frozenset[int] = frozenset()

    def of_last_records(self, chunk: RawChunk) -> RawChunk:
        """The chunk with what the first records say in the place of what the last ones say."""
        changed = [at for at, row in enumerate(chunk.rows.tolist()) if row in self.first_of]
        if not changed:
            return chunk
        columns = dict(chunk.columns)
        for name in set(_OF_FIRST).intersection(columns):
            cells = columns[name].to_pylist()
            for at in changed:
                cells[at] = self.first_of[int(chunk.rows[at])][name]
            columns[name] = pa.array(cells, columns[name].type)
        return replace(chunk, columns=columns)

    def earlier_in(self, chunk: RawChunk) -> Mask:
        """Which rows of the chunk are records of a size that was changed later."""
        return np.isin(chunk.rows, list(self.earlier))


def find_resizes(source: TextSource, layout: Layout) -> Resizes:
    """Look for changes of size: a file without any is not parsed for it."""
    quiet = replace(source, progress=silent)
    if not any(_RESIZING in block for block in quiet.blocks()):
        return Resizes()
    resized = {
        run
        for run, _, _ in _records(
            quiet, layout, lambda chunk: pc.match_substring(chunk.columns["state"], _RESIZING)
        )
    }
    starts = pa.array(sorted({run[_RUN.index("start")] for run in resized}), pa.binary())
    records: dict[tuple[bytes, ...], list[tuple[bool, bytes, int, dict[str, bytes]]]] = defaultdict(list)
    for run, row, cells in _records(quiet, layout, lambda chunk: pc.is_in(chunk.columns["start"], starts)):
        if run in resized:
            records[run].append((_RESIZING not in cells["state"], cells["submit"], row, cells))
    first_of: dict[int, Mapping[str, bytes]] = {}
    earlier: set[int] = set()
    for of_run in records.values():
        in_turn = sorted(of_run, key=lambda record: record[:3])
        first_of[in_turn[-1][2]] = in_turn[0][3]
        earlier.update(row for _, _, row, _ in in_turn[:-1])
    return Resizes(first_of, frozenset(earlier))


def _records(
    source: TextSource, layout: Layout, chosen: Callable[[RawChunk], pa.Array]
) -> Iterator[tuple[tuple[bytes, ...], int, dict[str, bytes]]]:
    """The chosen rows: each with the run that it is of, its number and its cells."""
    for chunk in layout.read(source, only=(*_RUN, "state", *_OF_FIRST)):
        at = np.flatnonzero(as_mask(chosen(chunk)))
        columns = {name: cells.take(pa.array(at)).to_pylist() for name, cells in chunk.columns.items()}
        for row, *values in zip(chunk.rows[at].tolist(), *columns.values(), strict=True):
            cells = dict(zip(columns, values, strict=True))
            yield tuple(cells.get(name, b"") for name in _RUN), row, cells
