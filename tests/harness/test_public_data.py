"""Tests of public data are skipped where there is none, and none reads it without saying so."""

import ast
from pathlib import Path

import pytest

from tests import reference

pytest_plugins = "pytester"

TESTS = Path(__file__).parents[1]
# What a test file takes the data from: a name of these modules, or a fixture.
SOURCES = ("tests.reference", "parts.lending.tests.replay.lyra_reference")
FIXTURE = "rtx_3090"


def names_in(node: ast.AST) -> set[str]:
    """What a function takes from outside: its arguments, and the variables that it does not set itself."""
    names = [each for each in ast.walk(node) if isinstance(each, ast.Name)]
    own = {name.id for name in names if isinstance(name.ctx, ast.Store)}
    return {name.id for name in names} - own | {
        each.arg for each in ast.walk(node) if isinstance(each, ast.arg)
    }


def is_marked(node: ast.stmt) -> bool:
    """Whether a test has the marker, or its file by this assignment to `pytestmark`."""
    if isinstance(node, ast.FunctionDef):
        return any("mark.reference" in ast.unparse(line) for line in node.decorator_list)
    return isinstance(node, ast.Assign) and "mark.reference" in ast.unparse(node)


def unmarked_readers(code: str) -> list[str]:
    """The tests of a file that read public data, also by its helpers and fixtures, and lack the marker."""
    body = ast.parse(code).body
    imports = (node for node in body if isinstance(node, ast.ImportFrom) and node.module in SOURCES)
    readers = {FIXTURE} | {alias.asname or alias.name for node in imports for alias in node.names}
    functions = [node for node in body if isinstance(node, ast.FunctionDef)]
    takes = {node.name: names_in(node) for node in functions}
    while more := {name for name in takes if readers & takes[name]} - readers:  # helpers of helpers, too
        readers |= more
    if any(is_marked(node) for node in body if not isinstance(node, ast.FunctionDef)):
        return []
    tests = (node for node in functions if node.name.startswith("test_") and not is_marked(node))
    return [node.name for node in tests if node.name in readers]


def test_every_test_that_reads_public_data_is_marked() -> None:
    found = {}
    for path in TESTS.rglob("test_*.py"):
        code = path.read_text(encoding="utf-8")
        if any(word in code for word in (*SOURCES, FIXTURE)) and path != Path(__file__):
            found[path.name] = unmarked_readers(code)
    assert len(found) > 30
    assert not {name: tests for name, tests in found.items() if tests}


@pytest.mark.parametrize(
    ("named", "outcomes"), [("/data", {"passed": 2}), (None, {"passed": 1, "skipped": 1})]
)
def test_tests_of_public_data_are_skipped_where_none_is_named(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, named: str | None, outcomes: dict[str, int]
) -> None:
    monkeypatch.setattr(reference, "NAMED", named)
    pytester.makeini("[pytest]\nmarkers =\n    reference")
    pytester.makepyfile(
        "import pytest\n@pytest.mark.reference\ndef test_public(): ...\ndef test_synthetic(): ..."
    )

    class Hook:
        def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
            reference.skip_without_data(items)

    found = pytester.runpytest_inprocess("-rs", plugins=[Hook()])
    found.assert_outcomes(**outcomes)
    told = any("LUCID_REFERENCE_DATA does not name the public data" in line for line in found.outlines)
    assert told == (named is None)
