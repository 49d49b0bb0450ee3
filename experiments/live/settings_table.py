"""Settings as tables for people: names, defaults and meanings as the code has them.

    python -m experiments.live.settings_table --write docs/live_slurm.md

A page gets the tables whose markers it has: those of the live scheduler by name, and `settings of
MODULE:CLASS` of any class with an item for each setting in its docstring, or a docstring below the setting.
`table of MODULE:FUNCTION` is what a function returns.
"""

import argparse
import ast
import inspect
import re
from collections.abc import Sequence
from dataclasses import MISSING, Field, fields
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Any

from experiments.pages import publish
from foundation.markdown import markdown_table
from live_scheduler.adapters import adapter_kind, adapter_names
from live_scheduler.capability import capabilities
from live_scheduler.live_settings import HandsOff, LiveSettings

_ITEM = re.compile(r"^- (`\w+`(?:, `\w+`)*): (.*?)(?=^- `|\Z)", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"^<!-- ((settings|table) of ([\w.]+):(\w+)): begin -->$", re.MULTILINE)


def settings_table(kind: type, *, leave_out: Sequence[str] = ()) -> str:
    """Return a Markdown table of a class's settings; KeyError for one that its docstring has no item for.

    A class without such items has a docstring below each setting, or below the last of several.
    """
    by_name = {field.name: field for field in fields(kind) if field.name not in leave_out}
    rows = []
    for names, text in _ITEM.findall(inspect.getdoc(kind) or ""):
        found = [by_name.pop(name) for name in re.findall(r"\w+", names) if name not in leave_out]
        if found:
            rows.append((names, ", ".join(map(_default, found)), " ".join(text.split()).rstrip(".")))
    if not rows:
        return _table_of_documented(kind, leave_out)
    if by_name:
        raise KeyError(f"{kind.__name__} does not say what {', '.join(sorted(by_name))} mean.")
    return markdown_table(("setting", "default", "meaning"), rows, align_numbers=False)


def _table_of_documented(kind: type, leave_out: Sequence[str]) -> str:
    settable = (field for field in fields(kind) if field.default_factory is MISSING)
    by_name = {field.name: field for field in settable if field.name not in leave_out}
    (tree,) = ast.parse(inspect.cleandoc(inspect.getsource(kind))).body
    rows: list[tuple[str, str, str]] = []
    for node in getattr(tree, "body", ()):
        match node:
            case ast.AnnAssign(target=ast.Name(id=name)) if name in by_name:
                rows.append((f"`{name}`", _default(by_name[name]), ""))
            case ast.Expr(value=ast.Constant(value=str(text))) if rows and not rows[-1][2]:
                rows[-1] = (*rows[-1][:2], " ".join(text.split()).rstrip("."))
    return markdown_table(("setting", "default", "meaning"), rows, align_numbers=False)


def tables() -> dict[str, str]:
    """Return the tables by the markers that they stand between."""
    found = {
        "settings": settings_table(LiveSettings, leave_out=("adapter_settings", "tables")),
        "hands off settings": settings_table(HandsOff),
    }
    own = {name: part.Settings for name, part in capabilities().items()}
    own |= {name: adapter_kind(name).Settings for name in adapter_names()}
    return found | {f"{name} settings": settings_table(kind) for name, kind in own.items() if kind}


def tables_of(page: str) -> dict[str, str]:
    """Return the tables of the classes and functions that a page's markers name."""
    found = {}
    for marker, what, module, name in _NAMED.findall(page):
        named = getattr(import_module(module), name)
        found[marker] = settings_table(named) if what == "settings" else named()
    return found


def _default(field: "Field[Any]") -> str:
    value = field.default
    if field.default_factory is not MISSING or value is None:
        return "none"
    if value is MISSING:
        return "(to be given)"
    if isinstance(value, tuple):
        return f"`[{', '.join(repr(item) for item in value)}]`".replace("'", '"')
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, float):
        return f"`{value:g}`"
    return f'`"{value}"`' if isinstance(value, str | StrEnum) else f"`{value}`"


def main() -> None:
    """Print the tables, or write those into a page whose markers it has."""
    parser = argparse.ArgumentParser(prog="python -m experiments.live.settings_table")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="the page to write into")
    page = parser.parse_args().write
    text = "" if page is None else page.read_text(encoding="utf-8")
    found = tables() | tables_of(text)
    publish({n: t for n, t in found.items() if page is None or f"<!-- {n}: begin -->" in text}, page)


if __name__ == "__main__":
    main()
