"""Text and tables in Markdown, and numbers as they are printed there."""

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

NO_VALUE = "–"
_MARKS = re.compile(r"([\\`*_\[\]|~$])")
_AT_THE_START = re.compile(r"^([#+-]|\d+(?=[.)]))")  # headings and lists


def markdown_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, align_numbers: bool = True
) -> str:
    """Return rows as a Markdown table, nothing for no rows; columns of numbers are aligned to the right."""
    texts = [[_cell(value) for value in row] for row in rows]
    if not texts:
        return ""
    numeric = [align_numbers and all(_is_number(row[i]) for row in texts) for i in range(len(columns))]
    lines = [list(columns), ["---:" if right else "---" for right in numeric], *texts]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def markdown_frame(frame: "pd.DataFrame") -> str:
    """Return a frame as a Markdown table."""
    return markdown_table(list(map(str, frame.columns)), frame.itertuples(index=False))


def markdown_text(value: object) -> str:
    """Return text that Markdown shows as it is, on one line: what looks like marks, links or HTML is none."""
    line = " ".join(str(value).split())
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    # An address is shown, but not made a link of: the reader did not choose it.
    line = _MARKS.sub(r"\\\1", line).replace("://", ":&#47;&#47;")
    return _AT_THE_START.sub(_escaped, line)


def number(value: float | None, digits: int = 2) -> str:
    """Return a number for people: `digits` decimals; two digits of a small one, none of a large one."""
    if value is None or value != value:
        return NO_VALUE
    if value == float("inf"):
        return "∞"
    if value and abs(value) < 10 ** (1 - digits):
        return f"{value:.2g}"
    if abs(value) >= 1_000:
        return f"{value:,.0f}"
    return f"{value:.{digits}f}"


def _escaped(mark: "re.Match[str]") -> str:
    return f"{mark[0]}\\" if mark[0].isdigit() else f"\\{mark[0]}"


def _cell(value: object) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")


def _is_number(text: str) -> bool:
    stripped = text.rstrip("×%").strip().replace(",", "").removeprefix("+").removeprefix("-")
    return text == NO_VALUE or stripped.replace(".", "", 1).replace("e-", "", 1).isdigit()
