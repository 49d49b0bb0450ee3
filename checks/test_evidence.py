"""Tables of docs/ that tests wrote name tests that are there, and every row that a test shows."""

import ast
from collections.abc import Iterator

import pytest

from checks.tree import DOCS, nodes, page, part, tracked
from tests.evidence import TABLES
from tests.faults.rows import FAULTS, NOT_SHOWN

WRITTEN = [name for name in TABLES if (DOCS / f"{name}.md").exists()]


def lines(name: str) -> list[list[str]]:
    """The cells of a page's rows: the row's key first, its tests last."""
    return [
        line.removeprefix("| ").removesuffix(" |").split(" | ")
        for line in part(page(name), name).splitlines()[2:]
    ]


def shown_by(cells: list[str]) -> list[str]:
    return [test.strip("`") for test in cells[-1].split("<br>") if test.strip()]


def marked() -> Iterator[tuple[str, str, str]]:
    """(table, row, test) of each marker whose rows are written out."""
    for file in tracked():
        if not file.startswith("tests/") or not file.endswith(".py"):
            continue
        for node in nodes(file):
            for call in getattr(node, "decorator_list", ()):
                if isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "evidence":
                    given = {keyword.arg: keyword.value for keyword in call.keywords}
                    rows = given["rows"]
                    assert isinstance(rows, ast.Tuple), f"{file}: rows of a marker are a tuple"
                    for row in rows.elts:
                        yield (
                            ast.literal_eval(given["table"]),
                            ast.literal_eval(row),
                            f"{file}::{getattr(node, 'name', '')}",
                        )


@pytest.mark.parametrize("name", WRITTEN)
def test_the_shown_by_a_page_exist(name: str) -> None:
    there = {
        f"{file}::{node.name}"
        for file in {test.partition("::")[0] for cells in lines(name) for test in shown_by(cells)}
        for node in (nodes(file) if file in tracked() else ())
        if isinstance(node, ast.FunctionDef)
    }
    assert [test for cells in lines(name) for test in shown_by(cells) if test not in there] == []


@pytest.mark.parametrize("name", WRITTEN)
def test_every_row_that_a_test_shows_is_on_the_page(name: str) -> None:
    """After a change: `python -m tests.evidence TABLE --only ROW --write docs/TABLE.md`."""
    on_the_page = {(cells[0], test) for cells in lines(name) for test in shown_by(cells)}
    assert [
        (row, test) for table, row, test in marked() if table == name and (row, test) not in on_the_page
    ] == []


@pytest.mark.parametrize("name", WRITTEN)
def test_no_row_is_on_the_page_as_failed(name: str) -> None:
    assert [cells[0] for cells in lines(name) if "**FAILED**" in cells] == []


def test_every_fault_is_listed_with_its_reason_if_no_test_shows_it() -> None:
    assert [(cells[0], cells[1]) for cells in lines("faults")] == list(FAULTS.items())
    shown = {row for table, row, _ in marked() if table == "faults"}
    assert sorted(FAULTS.keys() - NOT_SHOWN.keys() - shown) == [], (
        "say in NOT_SHOWN (tests/faults/rows.py) why"
    )
    assert sorted(shown & NOT_SHOWN.keys()) == [], "a test shows it: take it out of NOT_SHOWN"
