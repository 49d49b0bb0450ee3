"""Tables in Markdown, and numbers as they are printed there."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

NO_VALUE = "–"


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


def _cell(value: object) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")


def _is_number(text: str) -> bool:
    stripped = text.rstrip("×%").strip().replace(",", "").removeprefix("+").removeprefix("-")
    return text == NO_VALUE or stripped.replace(".", "", 1).replace("e-", "", 1).isdigit()
