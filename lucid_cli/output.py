"""What every command says: one JSON document or a table for people; progress goes to standard error."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foundation.jsonable import to_jsonable as to_jsonable
from foundation.progress import Progress, reporting
from foundation.screen_text import on_screen

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]

WIDTH_ELSEWHERE = 120  # columns of a table that does not go to a terminal


def print_json(document: Any) -> None:
    """Write `document` to standard output as JSON."""
    sys.stdout.write(json.dumps(to_jsonable(document), indent=2, allow_nan=False) + "\n")


def shown(value: Any) -> str:
    """Return a value as a table cell."""
    value = to_jsonable(value)
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        if abs(value) >= 100:
            return f"{value:,.0f}" if value.is_integer() or abs(value) >= 1e4 else f"{value:,.1f}"
        return f"{value:.4g}"
    if isinstance(value, dict):
        return ", ".join(f"{key} {shown(item)}" for key, item in value.items())
    if isinstance(value, list):
        return ", ".join(shown(item) for item in value)
    return str(value)


def _text(value: Any) -> "Text":
    """A value as text that is neither markup nor a terminal's command, whatever users named."""
    from rich.text import Text

    return Text(on_screen(shown(value)))


def _people() -> "Console":
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH_ELSEWHERE)
    return console


def print_table(
    rows: Sequence[Mapping[str, Any]], *, title: str | None = None, columns: Sequence[str] | None = None
) -> None:
    """Print rows as a table; the first row names the columns unless `columns` does.

    A column that no row has a value for (prediction errors, where none predicts) is left out.
    """
    from rich.table import Table

    names = list(columns or (rows[0].keys() if rows else ()))
    names = [name for name in names if not rows or any(row.get(name) is not None for row in rows)]
    console = _people()
    longest = {name: max((len(shown(row.get(name))) for row in rows), default=0) for name in names}
    heading = {name: max(map(len, name.split("_"))) for name in names}
    # Where the cells fit whole, headings are broken before names are.
    whole = sum(max(longest[name], heading[name]) + 3 for name in names) < console.width
    if title:  # a table's own title would be broken to its width
        console.print(_text(title), style="table.title", soft_wrap=True)
    table = Table()
    for name in names:
        numeric = all(isinstance(to_jsonable(row.get(name)), int | float | None) for row in rows)
        table.add_column(
            _text(name.replace("_", " ")),
            justify="right" if numeric else "left",
            overflow="fold",
            min_width=longest[name] if numeric else None,
            no_wrap=whole and not numeric,
        )
    for row in rows:
        table.add_row(*(_text(row.get(name)) for name in names))
    console.print(table)


def print_facts(facts: Mapping[str, Any], *, title: str | None = None) -> None:
    """Print one fact a line; one that is an empty list or mapping is left out."""
    from rich.table import Table

    heading = _text(title) if title else None
    table = Table(title=heading, title_justify="left", show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in facts.items():
        if value not in ([], (), {}):
            table.add_row(_text(name.replace("_", " ")), _text(value))
    _people().print(table)


def print_lines(lines: Sequence[str]) -> None:
    """Print lines after an empty one."""
    sys.stdout.write("\n" + "\n".join(map(on_screen, lines)) + "\n")


def say(line: str) -> None:
    """Write one line to standard error."""
    sys.stderr.write(on_screen(line) + "\n")


@contextmanager
def progress_reporter() -> Iterator[Progress]:
    """Yield a `Progress` on standard error: one line on a terminal, lines now and then elsewhere."""
    with reporting(sys.stderr) as progress:
        yield progress


def show_facts(facts: object, *, as_json: bool, title: str) -> None:
    """Print a report as JSON, or its facts one a line."""
    document = to_jsonable(facts)
    show(document, as_json=as_json, people=lambda: print_facts(document, title=title))


def show(document: Any, *, as_json: bool, people: Callable[[], None]) -> None:
    """Print `document` as JSON, or call `people` to print the readable form."""
    if as_json:
        print_json(document)
    else:
        people()
