"""Rows that a line end in one of their values has broken: put together again before they are parsed.

Programs that quote values (CSV, RFC 4180) leave a quotation mark open at the end of such a line; `sacct`
quotes nothing, so its pieces are told by their width: lines that have too few columns belong together until
they have as many as the header, if each break falls into a column of free text. A line end within a value
becomes a blank.
"""

from collections.abc import Sequence
from dataclasses import dataclass

# Of so many lines a row may consist.
MOST_LINES = 256


@dataclass(frozen=True)
class UnquotedRows:
    """Rows without quotation: `may_break` says of each column whether its values may hold a line end."""

    delimiter: bytes
    may_break: Sequence[bool]

    def rejoined(self, lines: list[bytes]) -> list[bytes]:
        """One line a row; lines that do not fit together stay as they are."""
        rows, at = [], 0
        while at < len(lines):
            end = self._end_of_row(lines, at)
            rows.append(b" ".join(lines[at:end]))
            at = end
        return rows

    def unfinished(self, block: bytes) -> int:
        """Where the last row of the block begins, which may go on in the next one; its end when none may."""
        last = block.rfind(b"\n", 0, len(block) - 1) + 1
        if not any(self.may_break) or self._columns(block[last:]) >= len(self.may_break):
            return last if self.may_break[-1] else len(block)
        lines = block.split(b"\n")[:-1]
        at = 0
        while at < len(lines):
            end, complete = self._row(lines, at)
            if end == len(lines) and (not complete or self.may_break[-1]):
                break
            at = end if complete else at + 1
        return sum(len(line) + 1 for line in lines[:at])

    def _end_of_row(self, lines: list[bytes], at: int) -> int:
        end, complete = self._row(lines, at)
        return end if complete else at + 1

    def _row(self, lines: list[bytes], at: int) -> tuple[int, bool]:
        """Up to which line a row was sought that begins with this one, and whether it was found."""
        columns, end = self._columns(lines[at]), at + 1
        most = min(len(lines), at + MOST_LINES)
        while columns < len(self.may_break) and self.may_break[columns - 1] and end < most:
            columns += self._columns(lines[end]) - 1
            end += 1
        if columns != len(self.may_break):
            return end, False
        while self.may_break[-1] and end < most and self._columns(lines[end]) == 1:
            end += 1
        return end, True

    def _columns(self, line: bytes) -> int:
        return line.count(self.delimiter) + 1


@dataclass(frozen=True)
class QuotedRows:
    """Rows of so many columns whose values may stand in quotation marks, and hold line ends there."""

    delimiter: bytes
    columns: int

    def rejoined(self, lines: list[bytes]) -> list[bytes]:
        """One line a row; a line with a mark that is nowhere closed stays as it is."""
        rows, at = [], 0
        while at < len(lines):
            end = self._end_of_row(lines, at)
            rows.append(b" ".join(lines[at:end]))
            at = end
        return rows

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
