"""A table that `sacctmgr -P show ...` (or -p, or without a header) has printed, row by row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cluster_logs.slurm_site.conf_text import Pair, SourcePlace
from foundation.errors import BadInputError


@dataclass(frozen=True, slots=True)
class Row:
    """A row; its cells by the column's name in lower case without spaces. An empty one says nothing."""

    place: SourcePlace
    cells: Mapping[str, str]

    def get(self, *columns: str) -> Pair | None:
        """Return the first cell of these columns that says something."""
        for column in columns:
            if text := self.cells.get(column, "").strip():
                return Pair(column, text, self.place)
        return None

    def text(self, *columns: str) -> str:
        """Return what a cell says; empty: nothing."""
        pair = self.get(*columns)
        return "" if pair is None else pair.value


def read_table(text: str, file: str, first: str, usual: Sequence[str], command: str) -> list[Row]:
    """Return the rows of a table.

    A header names the columns, in any order; `first` is one that each has. Without a header they are `usual`.
    Raises BadInputError for a text that is no such table, with the `command` that prints one.
    """
    lines = [
        (number, line)
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip() and "|" in line
    ]
    remedy = f"Write what `{command}` prints."
    if not lines:
        raise BadInputError(f"{file} holds no table with | between its columns.", remedy=remedy)
    columns = [_name(cell) for cell in lines[0][1].split("|")]
    if first in columns:
        del lines[0]
    else:
        columns = list(usual)
        if len(lines[0][1].split("|")) == len(usual) + 1:  # -p: one behind the last column, too
            columns.append("")
    rows = []
    for number, line in lines:
        cells = line.split("|")
        if len(cells) != len(columns):
            raise BadInputError(
                f"{file}, line {number}: {len(cells)} columns instead of {len(columns)}: {line[:200]!r}.",
                remedy=remedy,
            )
        rows.append(Row(SourcePlace(file, number), dict(zip(columns, cells, strict=True))))
    return rows


def _name(cell: str) -> str:
    return cell.replace(" ", "").lower()
