"""How an export of `sacct` is laid out: what separates its columns, and which they are.

The header says both: the words JobID or JobIDRaw and State stand in it, and what stands between its words
separates the columns, be it `|`, another character (`--delimiter`) or several. Warnings may stand above it.
Without a header the columns are those of `DEFAULT_FIELDS`, separated by `|` or `UNIT_SEPARATOR`. The table
that sacct prints for people cuts its values to a width, so it is refused.

Accounting has a record for each size that a job had while it ran (`Resizes`). The records of a job's run
share its Start. Each but the last says RESIZING and ends at a change, and the next one's Submit is the moment
of that change, later than its Start (Slurm 22.05). Together they are one job: it was submitted, and had the
size, as its first record says, and ended as its last one says.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cluster_logs.job_facts import source_columns
from cluster_logs.readers.delimited import MOST_ABOVE_HEADER, Layout
from cluster_logs.readers.row_checker import Mask, as_mask
from cluster_logs.readers.source import RawChunk, TextSource
from cluster_logs.slurm_words import DEFAULT_FIELDS, EXPORT_COMMAND, OLDER_FIELDS, UNIT_SEPARATOR
from foundation.errors import BadInputError
from foundation.progress import silent

COLUMNS = source_columns("sacct")
_IDS = frozenset({"jobid", "jobidraw"})
_LAYOUT = Layout(
    required=("jobidraw|jobid", "state", "submit", "start", "end", "alloctres|reqtres"),
    optional=("cluster", "nodelist", "comment", "admincomment", *COLUMNS.values()),
    delimiter="|",
    quotes=False,
    fixed_header=DEFAULT_FIELDS,
    header_words=_IDS,
    free_text=frozenset(
        {
            "jobname",
            "comment",
            "admincomment",
            "systemcomment",
            "submitline",
            "workdir",
            "wckey",
            "container",
            "extra",
            "stdin",
            "stdout",
            "stderr",
        }
    ),
)

_RESIZING = b"RESIZING"
_RUN = ("cluster", "jobidraw", "jobid", "start")  # what the records of one run have in common
# What is read of the first record.
_OF_FIRST = (
    "submit", "eligible", "alloctres", "reqtres", "reqmem", "reqgres", "nnodes", "allocnodes", "ncpus",
    "alloccpus",
)  # fmt: skip

_HEAD_BYTES = 65_536
# What stands behind the word JobID, or before it where it is the last.
_BESIDE_ID = re.compile(
    rb"(?i)(?<![a-z])jobid(?:raw)?([^a-z]+)(?=[a-z])|(?<=[a-z])([^a-z]+)jobid(?:raw)?(?![a-z])"
)


def layout_of(source: TextSource) -> Layout:
    """The layout of a file that sacct wrote.

    Raises BadInputError for its table for people, for a header that lacks a column that is needed, and for
    lines without a header with other columns than are read then; the message names the command that exports
    all.
    """
    head = next(replace(source, progress=silent).blocks(_HEAD_BYTES), b"")
    lines = head.split(b"\n")[:-1]
    header = next(filter(None, map(_header, lines[: MOST_ABOVE_HEADER + 1])), None)
    if header is None:
        return _without_header(lines, source)
    separator, names = header
    if not separator.strip(b" "):
        raise BadInputError(
            f"{source.place} is the table that sacct prints for people: values are cut to the width of their "
            "column, and blanks stand between them.",
            remedy=f"Export it for programs:\n{EXPORT_COMMAND}\n",
        )
    missing = [column for column in _LAYOUT.required if not names.intersection(column.split("|"))]
    if missing:
        raise BadInputError(
            f"{source.place} has no column {' and none '.join(missing).replace('|', ' or ')}; it has "
            f"{', '.join(sorted(names - {''}))}.",
            remedy=f"Export all that is read:\n{EXPORT_COMMAND}\n",
        )
    quoted = b'"' in separator
    separator = separator.strip(b'"')
    layout = replace(_LAYOUT, quotes=quoted or separator == b",")
    if len(separator) == 1:
        return replace(layout, delimiter=separator.decode(errors="replace"))
    return replace(layout, delimiter=UNIT_SEPARATOR, clean=_separated_by(separator))


def _header(line: bytes) -> tuple[bytes, frozenset[str]] | None:
    """What separates the columns of a header, and their names in lower case; None for another line."""
    for match in _BESIDE_ID.finditer(line):
        separator: bytes = match[1] or match[2]
        bare = separator.strip(b'"') if separator.strip(b" ") else None
        words = (name.strip(b' "').lower() for name in line.split(bare))
        names = frozenset(word.decode(errors="backslashreplace") for word in words)
        if "state" in names and names & _IDS:
            return separator, names
    return None


def _without_header(lines: list[bytes], source: TextSource) -> Layout:
    """The width says how many fields were asked for. Most lines count, not the first: a name may hold `|`."""
    possible_widths = range(len(OLDER_FIELDS), len(DEFAULT_FIELDS) + 1)
    for separator in (UNIT_SEPARATOR, "|"):
        widths = Counter(line.count(separator.encode()) + 1 for line in lines)
        width = max(possible_widths, key=lambda count, widths=widths: (widths[count], count))  # type: ignore[misc]
        if widths[width]:
            return replace(_LAYOUT, delimiter=separator, fixed_header=DEFAULT_FIELDS[:width])
    raise BadInputError(
        f"{source.place} has no header line that names JobID and State, and no line with the "
        f"{len(OLDER_FIELDS)} to {len(DEFAULT_FIELDS)} columns, separated by '|', that are read without one.",
        remedy=f"Export it so:\n{EXPORT_COMMAND}\n",
    )


def _separated_by(separator: bytes) -> Callable[[bytes], bytes]:
    """Lines with one character in the place of the text of several bytes that separates their columns."""
    unit = UNIT_SEPARATOR.encode()

    def separated(block: bytes) -> bytes:
        return block.replace(unit, b" ").replace(separator, unit)

    return separated


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
