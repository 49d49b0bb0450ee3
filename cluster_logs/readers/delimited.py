"""Delimited text to raw columns: one row a line, columns by name, blocks parsed by pyarrow.

A line with the wrong number of columns, or with a quotation mark that is not closed, is malformed: it is
handed on for quarantine with its text, and the row numbers of all other rows stay true. What stands above the
header (a warning of the program that exported it), and a header that comes again (files of several days in
one), is passed over and counted.

A row that a line end in one of its values broke is put together again before it is parsed; the line end
becomes a blank. Programs that quote values (CSV, RFC 4180) leave a quotation mark open at the end of such a
line. `sacct` quotes nothing: there lines that have too few columns belong together until they have as many as
the header, if each break falls into a column of free text.
"""

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from cluster_logs import quarantine as q
from cluster_logs.readers.base import ReadOptions
from cluster_logs.readers.source import MalformedRow, RawChunk, TextSource
from foundation.errors import BadInputError

_QUOTED = re.compile(rb'"[^"]*"')
_MAX_HEADER_BYTES = 65_536
# So many lines may stand above a header.
MOST_ABOVE_HEADER = 50
_BLANK_LINE = re.compile(rb"(?m)^[ \t]*\n")
# Of so many lines a row may consist.
MOST_LINES = 256


@dataclass(frozen=True)
class UnquotedRows:
    """Rows without quotation: `may_break` says of each column whether its values may hold a line end."""

    delimiter: bytes
    may_break: Sequence[bool]

    def rejoined(self, lines: list[bytes]) -> list[bytes]:
        """One line a row; lines that do not fit together stay as they are."""
        widths = self._widths(lines)

        def end_of_row(at: int) -> int:
            end, complete = self._row(widths, at)
            return end if complete else at + 1

        return _joined(lines, end_of_row)

    def unfinished(self, block: bytes) -> int:
        """Where the last row of the block begins, which may go on in the next one; its end when none may."""
        last = block.rfind(b"\n", 0, len(block) - 1) + 1
        if not any(self.may_break) or block.count(self.delimiter, last) + 1 >= len(self.may_break):
            return last if self.may_break[-1] else len(block)
        lines = block.split(b"\n")[:-1]
        widths, at = self._widths(lines), 0
        while at < len(lines):
            end, complete = self._row(widths, at)
            if end == len(lines) and (not complete or self.may_break[-1]):
                break
            at = end if complete else at + 1
        return sum(len(line) + 1 for line in lines[:at])

    def _row(self, lines: "_Widths", at: int) -> tuple[int, bool]:
        """Up to which line a row was sought that begins with this one, and whether it was found."""
        columns, end = lines.columns[at], at + 1
        most = min(len(lines.columns), at + MOST_LINES)
        while columns < len(self.may_break) and self.may_break[columns - 1] and end < most:
            columns += lines.columns[end] - 1
            end = max(end + 1, min(lines.wider[end], most))
        if columns != len(self.may_break):
            return end, False
        return (min(lines.wider[end], most) if self.may_break[-1] and end < most else end), True

    def _widths(self, lines: list[bytes]) -> "_Widths":
        columns = [line.count(self.delimiter) + 1 for line in lines]
        wider, seen = [0] * len(lines), len(lines)
        for at in range(len(lines) - 1, -1, -1):
            seen = at if columns[at] > 1 else seen
            wider[at] = seen
        return _Widths(columns, wider)


class _Widths(NamedTuple):
    """Of each line how many columns it has, and the first from it on that has more than one: a run of narrow
    lines is passed at one step, however long it is.
    """

    columns: list[int]
    wider: list[int]


@dataclass(frozen=True)
class QuotedRows:
    """Rows of so many columns with values that may stand in quotation marks, and hold line ends there."""

    delimiter: bytes
    columns: int

    def rejoined(self, lines: list[bytes]) -> list[bytes]:
        """One line a row; a line with a mark that is nowhere closed stays as it is."""
        return _joined(lines, lambda at: self._end_of_row(lines, at))

    def unfinished(self, block: bytes) -> int:
        """Where a row begins that the end of the block leaves open; the block's end when none is."""
        end = begin = len(block)
        if block.count(b'"') % 2 == 0:
            return end
        for _ in range(MOST_LINES):
            if not begin:
                break
            line_begin = block.rfind(b"\n", 0, begin - 1) + 1
            if self._opens(block[line_begin : begin - 1]):
                return line_begin
            begin = line_begin
        return end

    def _end_of_row(self, lines: list[bytes], at: int) -> int:
        if not self._opens(lines[at]):
            return at + 1
        for end in range(at + 1, min(len(lines), at + MOST_LINES)):
            if lines[end].count(b'"') % 2:
                return end + 1 if self._closes(lines[end]) else at + 1
            if lines[end].count(self.delimiter) + 1 == self.columns:
                break  # a row of its own: the mark is no quotation, but part of a name
        return at + 1

    def _opens(self, line: bytes) -> bool:
        """Whether a value begins with a mark that this line does not close."""
        if line.count(b'"') % 2 == 0:
            return False
        bare = line.replace(b'""', b"")
        last = bare.rfind(b'"')
        return not last or bare[last - 1 : last] == self.delimiter

    def _closes(self, line: bytes) -> bool:
        """Whether the first mark of a line that goes on with a value ends it."""
        bare = line.replace(b'""', b"")
        behind = bare[bare.find(b'"') + 1 :][:1]
        return behind in (b"", self.delimiter)


def _joined(lines: list[bytes], end_of_row: Callable[[int], int]) -> list[bytes]:
    """One line a row, which ends before the line that `end_of_row` says for its first one."""
    rows, at = [], 0
    while at < len(lines):
        end = end_of_row(at)
        rows.append(b" ".join(lines[at:end]))
        at = end
    return rows


class MissingColumnError(BadInputError):
    """A file lacks a column that its format has."""


def _unchanged(block: bytes) -> bytes:
    return block


@dataclass(frozen=True)
class Layout:
    """The columns of a delimited format; names are compared without case and surrounding blanks.

    `required` names must be there; "a|b" means one of them. `every_column` keeps all columns under the names
    of the header, for formats in which columns are data. `fixed_header` is for files without a header line;
    with `header_words`, a first line that holds one of them is a header all the same. `clean` may rewrite a
    block of lines before it is parsed (drop comments, squeeze blanks). `free_text` names columns with values
    that may hold a line end though nothing is quoted.
    """

    required: tuple[str, ...]
    optional: tuple[str, ...] = ()
    delimiter: str = ","
    quotes: bool = True
    every_column: bool = False
    fixed_header: tuple[str, ...] | None = None
    header_words: frozenset[str] = frozenset()
    free_text: frozenset[str] = frozenset()
    clean: Callable[[bytes], bytes] = _unchanged

    def __call__(self, source: TextSource, options: ReadOptions) -> Iterator[RawChunk]:
        """The file in chunks (this makes a layout a reader's `chunks`)."""
        return self.read(source)

    def read(self, source: TextSource, only: tuple[str, ...] | None = None) -> Iterator[RawChunk]:
        """The file in chunks; `only` names the columns to keep, for a quick first pass."""
        header: list[str] | None = None
        columns: dict[str, int] = {}
        header_line = held = b""
        row, beside = 1, 0
        for raw_block in source.blocks():
            block = held + _plain_lines(self.clean(raw_block))
            if not block:
                continue
            if header is None:
                header, beside, header_line, block = self._header(block, source)
                columns = self._columns(header, source)
                if only is not None:
                    columns = {name: index for name, index in columns.items() if name in only}
            block, again = _without_header(block, header_line)
            beside += again
            begin = self.rows(header).unfinished(block)
            block, held = block[:begin], block[begin:]
            if block:
                chunk = _parse(block, header, columns, row, self)
                row += chunk.rows_in
                yield _with_lines_beside(chunk, beside)
                beside = 0
        if header is None:
            raise BadInputError(
                f"{source.place} holds no lines of data.", remedy="Check how it was exported."
            )
        if held:
            yield _with_lines_beside(_parse(held, header, columns, row, self), beside)

    def rows(self, header: list[str]) -> UnquotedRows | QuotedRows:
        """How the lines of the file make rows."""
        if self.quotes:
            return QuotedRows(self.delimiter.encode(), len(header))
        return UnquotedRows(self.delimiter.encode(), [name.lower() in self.free_text for name in header])

    def _header(self, block: bytes, source: TextSource) -> tuple[list[str], int, bytes, bytes]:
        """The columns' names, how many lines stand above the line that holds them, that line, and the rest;
        the line is empty where the file has none.
        """
        line, _, rest = block.partition(b"\n")
        if len(line) > _MAX_HEADER_BYTES and self.fixed_header is None:
            raise BadInputError(
                f"The first line of {source.place} has {len(line):,} bytes: it names no columns.",
                remedy="Check the format.",
            )
        names = self._names(line)
        if self._is_header(names) or self.header_words.intersection(map(str.lower, names)):
            return names, 0, line, rest
        first = block.split(b"\n", MOST_ABOVE_HEADER + 1)[:-1]
        for above, below in enumerate(first[1:], start=1):
            found = self._names(below)
            # Lines as wide as the header are rows: they belong to it.
            if self._is_header(found) and all(len(self._names(text)) != len(found) for text in first[:above]):
                begin = sum(len(text) + 1 for text in first[: above + 1])
                return found, above, below, block[begin:]
        if self.fixed_header is not None:
            return list(self.fixed_header), 0, b"", block
        return names, 0, line, rest

    def _names(self, line: bytes) -> list[str]:
        text = line[:_MAX_HEADER_BYTES].decode(errors="backslashreplace")
        if self.quotes:
            names = next(csv.reader([text], delimiter=self.delimiter))
        else:
            names = text.split(self.delimiter)
        return [name.strip() for name in names]

    def _is_header(self, names: list[str]) -> bool:
        if self.fixed_header is not None and not self.header_words.intersection(map(str.lower, names)):
            return False
        known = set(names) if self.every_column else set(map(str.lower, names))
        return all(known.intersection(either.split("|")) for either in self.required)

    def _columns(self, header: list[str], source: TextSource) -> dict[str, int]:
        """Position by name of the columns that are used; BadInputError when one is missing or named twice."""
        if self.every_column:
            position_of = {name: index for index, name in enumerate(header)}
        else:
            lowered = [name.lower() for name in header]
            used = [name for names in (*self.required, *self.optional) for name in names.split("|")]
            position_of = {name: lowered.index(name) for name in used if name in lowered}
            twice = [name for name in position_of if lowered.count(name) > 1]
            if twice:
                raise BadInputError(
                    f"{source.place} has two columns named {twice[0]!r}.", remedy="Rename one."
                )
        for names in self.required:
            if not any(name in position_of for name in names.split("|")):
                shown = ", ".join(header)
                shown = shown if len(shown) <= 200 else f"{shown[:200]}..."
                raise MissingColumnError(
                    f"{source.place} has no column {' or '.join(map(repr, names.split('|')))}; "
                    f"its first line reads: {shown}.",
                    remedy=f"Check the format and that columns are separated by {self.delimiter!r}.",
                )
        return position_of


def _plain_lines(block: bytes) -> bytes:
    """The block without blank lines, with one kind of line end."""
    if b"\r" in block:
        # A lone carriage return is not the end of a row; the parser would take it for one.
        block = block.replace(b"\r\n", b"\n").replace(b"\r", b" ")
    if b"\n\n" in block or b" \n" in block or block.startswith(b"\n"):
        block = _BLANK_LINE.sub(b"", block)
    return block


def _without_header(block: bytes, header_line: bytes) -> tuple[bytes, int]:
    """The block without lines that repeat the header, and how many there were."""
    if not header_line or header_line not in block:
        return block, 0
    lines = block.split(b"\n")
    kept = [line for line in lines if line != header_line]
    return b"\n".join(kept), len(lines) - len(kept)


def _with_lines_beside(chunk: RawChunk, lines: int) -> RawChunk:
    return replace(chunk, beside_table=lines, rows_in=chunk.rows_in + lines) if lines else chunk


def _parse(
    block: bytes,
    header: list[str],
    columns: dict[str, int],
    first_row: int,
    layout: Layout,
    *,
    may_rejoin: bool = True,
) -> RawChunk:
    malformed: list[MalformedRow] = []
    quotes = layout.quotes and b'"' in block
    rows_in = block.count(b"\n")
    numbers = np.arange(first_row, first_row + rows_in)
    as_it_came = block
    if quotes:
        block, numbers, malformed = _without_unbalanced(block, numbers)
    table = _parse_csv(block, header, columns, layout.delimiter, quotes)
    if may_rejoin and (malformed or table is None or table.num_rows != len(numbers)):
        whole = _rejoined(as_it_came, header, layout)
        if whole != as_it_came:
            return _parse(whole, header, columns, first_row, layout, may_rejoin=False)
    if table is None or table.num_rows != len(numbers):
        lines = block.split(b"\n")[:-1]
        good = _readable(lines, header, columns, layout.delimiter, quotes)
        for index in np.flatnonzero(~good):
            width = _count_columns(lines[index], layout.delimiter, quotes)
            wrong_width = f"{width} columns instead of {len(header)}" if width != len(header) else None
            reason = q.WRONG_COLUMN_COUNT if wrong_width else q.UNBALANCED_QUOTES
            malformed.append(
                MalformedRow(int(numbers[index]), reason, None, wrong_width, q.cut_evidence(lines[index]))
            )
        numbers = numbers[good]
        block = b"".join(line + b"\n" for line, keep in zip(lines, good, strict=True) if keep)
        table = _parse_csv(block, header, columns, layout.delimiter, quotes)
    if table is None or table.num_rows != len(numbers):
        raise BadInputError(
            f"Rows {first_row} to {first_row + rows_in - 1} do not split into one row a line.",
            remedy="A value may hold an unquoted line end.",
        )
    arrays = {name: table.column(f"c{index}").combine_chunks() for name, index in columns.items()}
    lines_of_block: list[bytes] = []

    def raw_row(index: int) -> str:
        if not lines_of_block:
            lines_of_block.extend(block.split(b"\n"))
        return q.cut_evidence(lines_of_block[index])

    return RawChunk(arrays, numbers, raw_row, malformed, rows_in)


def _rejoined(block: bytes, header: list[str], layout: Layout) -> bytes:
    lines = block.split(b"\n")[:-1]
    rows = layout.rows(header).rejoined(lines)
    return block if len(rows) == len(lines) else b"".join(row + b"\n" for row in rows)


def _parse_csv(
    block: bytes, header: list[str], columns: dict[str, int], delimiter: str, quotes: bool
) -> pa.Table | None:
    """The used columns of the block as bytes; None when some line has another number of columns."""
    used = [f"c{index}" for index in columns.values()]
    if not block:
        return pa.table({name: pa.array([], pa.binary()) for name in used})
    for block_bytes in (None, len(block)):  # the parser's own pieces, or one that holds the longest line
        try:
            return pacsv.read_csv(
                pa.BufferReader(block),
                read_options=pacsv.ReadOptions(
                    column_names=[f"c{index}" for index in range(len(header))], block_size=block_bytes
                ),
                parse_options=pacsv.ParseOptions(
                    delimiter=delimiter, quote_char='"' if quotes else False, ignore_empty_lines=False
                ),
                convert_options=pacsv.ConvertOptions(
                    include_columns=used,
                    column_types={name: pa.binary() for name in used},
                    strings_can_be_null=False,
                ),
            )
        except pa.ArrowInvalid:
            continue
    return None


def _readable(
    lines: list[bytes], header: list[str], columns: dict[str, int], delimiter: str, quotes: bool
) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which lines are one row each: those with as many columns as the header, but for stray quotes."""
    good = np.array([_count_columns(line, delimiter, quotes) == len(header) for line in lines], dtype=bool)

    def check(rows: np.ndarray[Any, np.dtype[np.int64]]) -> None:
        table = _parse_csv(b"".join(lines[row] + b"\n" for row in rows), header, columns, delimiter, quotes)
        if table is not None and table.num_rows == len(rows):
            return
        if len(rows) == 1:
            good[rows[0]] = False
            return
        check(rows[: len(rows) // 2])
        check(rows[len(rows) // 2 :])

    if good.any():
        check(np.flatnonzero(good))
    return good


def _count_columns(line: bytes, delimiter: str, quotes: bool) -> int:
    if quotes and b'"' in line:
        line = _QUOTED.sub(b"", line)
    return line.count(delimiter.encode()) + 1


def _without_unbalanced(
    block: bytes, numbers: np.ndarray[Any, np.dtype[np.int64]]
) -> tuple[bytes, np.ndarray[Any, np.dtype[np.int64]], list[MalformedRow]]:
    """The block without the lines that leave a quotation mark open, and those lines as refusals."""
    lines = block.split(b"\n")[:-1]
    good = np.array([line.count(b'"') % 2 == 0 for line in lines], dtype=bool)
    if good.all():
        return block, numbers, []
    refusals = [
        MalformedRow(int(numbers[index]), q.UNBALANCED_QUOTES, None, None, q.cut_evidence(lines[index]))
        for index in np.flatnonzero(~good)
    ]
    block = b"".join(line + b"\n" for line, keep in zip(lines, good, strict=True) if keep)
    return block, numbers[good], refusals
