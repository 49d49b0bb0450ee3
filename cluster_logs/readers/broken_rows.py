"""Rows that a line end in one of their values has broken: put together again before they are parsed.

Programs that quote values (CSV, RFC 4180) leave a quotation mark open at the end of such a line; `sacct`
quotes nothing, so its pieces are told by their width: lines that have too few columns belong together until
they have as many as the header, if each break falls into a column of free text. A line end within a value
becomes a blank.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

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
    """Rows of so many columns whose values may stand in quotation marks, and hold line ends there."""

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
