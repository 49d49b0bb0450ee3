"""CSV of ours, for spreadsheets too: what users named is text there, and comes back exactly here.

A spreadsheet computes a cell that begins with =, +, -, @, a tab or a carriage return, quoted or not (OWASP,
"CSV Injection"). Such a text gets an apostrophe before it, which makes it text there; `as_text` takes it away
again. Numbers are left alone, also where they stand as text (-5): nothing computes them.
"""

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    import pandas as pd

_COMPUTED = re.compile("'*[=+\\-@\t\r\n\uff0b\uff0d\uff1d\uff20]")
_ROWS_AT_ONCE = 65_536  # of a table that is written: so much text is held at a time
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def as_cell(value: Any) -> Any:
    """Return a value as a cell that no spreadsheet computes; what is no text stays as it is."""
    if isinstance(value, str) and _COMPUTED.match(value) and not _NUMBER.fullmatch(value):
        return f"'{value}"
    return value


def as_text(cell: Any) -> Any:
    """Return what `as_cell` was given."""
    if isinstance(cell, str) and cell.startswith("'") and _COMPUTED.match(cell):
        return cell[1:]
    return cell


def write_csv(frame: "pd.DataFrame", target: "Path | TextIO") -> None:
    """Write a table without its index; a line feed ends each row."""
    if isinstance(target, Path):
        with target.open("w", encoding="utf-8", newline="") as file:
            write_csv(frame, file)
        return
    from foundation.csv_columns import csv_lines, has_plain_columns

    if len(frame) and has_plain_columns(frame):
        write_rows((), list(frame.columns), target)
        for first in range(0, len(frame), _ROWS_AT_ONCE):
            target.write(csv_lines(frame.iloc[first : first + _ROWS_AT_ONCE], _written))
        return
    safe = frame.apply(_as_cells).rename(columns=as_cell)
    safe.to_csv(_Lines(target), index=False, lineterminator="\r\n")


def csv_text(frame: "pd.DataFrame") -> str:
    """Return a table as `write_csv` writes it."""
    text = io.StringIO()
    write_csv(frame, text)
    return text.getvalue()


def write_rows(rows: Iterable[Mapping[str, Any]], columns: Sequence[str], target: TextIO) -> None:
    """Write rows of cells under a header, likewise."""
    writer = csv.writer(_Lines(target), lineterminator="\r\n")
    writer.writerow(map(as_cell, columns))
    writer.writerows([as_cell(row[name]) for name in columns] for row in rows)


def _written(text: str) -> str:
    """Return a text as it stands in a row beside other cells."""
    line = io.StringIO()
    csv.writer(line, lineterminator="\r\n").writerow([as_cell(text), ""])
    return line.getvalue()[: -len(",\r\n")]


def _as_cells(column: "pd.Series[Any]") -> "pd.Series[Any]":
    from pandas.api.types import is_numeric_dtype

    return column if is_numeric_dtype(column) else column.astype(object).map(as_cell)


class _Lines(io.TextIOBase):
    r"""Ends lines by \n; with \r\n set, Python's writer quotes cells that hold either."""

    def __init__(self, target: TextIO) -> None:
        super().__init__()
        self._target = target

    def write(self, line: str) -> int:
        return self._target.write(f"{line[:-2]}\n" if line.endswith("\r\n") else line)
