"""What the monitoring page is made of: tables, and numbers in words."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from html import escape

from pipeline.monitoring.errors import Change


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of texts; numbers stand to the right."""
    cells = "".join(
        "<tr>"
        + "".join(
            f"<td{' class=n' if place and is_number(cell) else ''}>{escape(cell)}</td>"
            for place, cell in enumerate(row)
        )
        + "</tr>"
        for row in rows
    )
    return f"<table><tr>{''.join(f'<th>{escape(name)}</th>' for name in head)}</tr>{cells}</table>"


def facts(facts: Mapping[str, str]) -> str:
    """A table of names and texts."""
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in facts.items())
    return f"<table>{rows}</table>"


def interval(what: str, change: Change | None) -> str:
    """Say a change with its interval."""
    if change is None or change.low is None or change.high is None:
        return ""
    return f"{what}: {change.point:+.3f} ({change.low:+.3f} to {change.high:+.3f}, {change.days} days). "


def span(start: datetime, end: datetime) -> str:
    """Say when from and to."""
    return f"{start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC"


def figures(*values: float | None) -> tuple[str, ...]:
    """Write numbers with three digits."""
    return tuple(number(value, 3) for value in values)


def number(value: float | None, digits: int) -> str:
    """Write a number; a dash where there is none."""
    return "–" if value is None else f"{value:,.{digits}f}"


def is_number(text: str) -> bool:
    """Whether a cell is to stand to the right."""
    return text[:1].isdigit() or text == "–"


def first_upper(text: str) -> str:
    """Begin with a capital."""
    return text[:1].upper() + text[1:]
