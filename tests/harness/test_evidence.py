"""What a page's row says of tests that pass, fail, are skipped, say nothing or are not there."""

from pathlib import Path

import pytest

from tests import evidence

pytest_plugins = "pytester"

CONFTEST = """
from tests.evidence import declare, evidence as evidence
def pytest_collection_modifyitems(items):
    declare(items)
"""
SHOWN = """
import pytest

def shows(*rows):
    return pytest.mark.evidence(table="faults", rows=rows)

@shows("1")
def test_passes(evidence):
    evidence("faults", "1", "Two\\nlines |of <b>it</b>.")

@shows("2")
def test_fails(evidence):
    evidence("faults", "2", "Something.")
    assert False

@shows("3")
@pytest.mark.skip("no Slurm")
def test_is_skipped(evidence): ...

@shows("4")
def test_says_nothing(): ...

@shows("5")
@pytest.mark.parametrize("way", ["a", "b"])
def test_twice(evidence, way):
    evidence("faults", "5", f"Way {way}.")

@shows("6")
def test_of_another_row(evidence):
    evidence("faults", "7", "Not declared.")

def test_of_no_table():
    assert False
"""


@pytest.fixture
def collected(pytester: pytest.Pytester) -> evidence.Collected:
    pytester.makeini("[pytest]\naddopts = --import-mode=importlib\nmarkers =\n    evidence")
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(SHOWN)
    plugin = evidence.Collected("faults")
    pytester.inline_run(plugins=[plugin])
    return plugin


def test_a_row_tells_how_its_tests_ended(collected: evidence.Collected) -> None:
    lines = evidence.lines_of("faults", collected.rows)
    cells = {row: line.split(" | ")[2:] for row, line in lines.items()}
    name = collected.rows["1"].tests[0].partition("::")[0]
    assert cells["1"] == ["survived", r"Two lines \|of &lt;b>it&lt;/b>.", f"`{name}::test_passes` |"]
    assert cells["2"][0] == cells["4"][0] == cells["6"][0] == "**FAILED**"
    assert cells["3"][0] == "not run: no Slurm"
    assert cells["5"] == ["survived", "Way a.<br>Way b.", f"`{name}::test_twice` |"]
    assert cells["54"][0].startswith("not shown: ")
    assert list(lines) == list(evidence.FAULTS)


def test_some_rows_are_written_anew_and_the_others_stay(
    collected: evidence.Collected, tmp_path: Path
) -> None:
    begin, end = evidence.markers("faults")
    first = evidence.written(
        f"Head\n{begin}{end}\nTail\n", "faults", evidence.lines_of("faults", collected.rows)
    )
    assert first.startswith("Head\n")
    assert first.endswith("Tail\n")
    assert evidence.written(first, "faults", evidence.lines_of("faults", collected.rows)) == first
    nothing = evidence.lines_of("faults", {})
    second = evidence.written(first, "faults", nothing, only=["5"])
    changed = set(first.splitlines()) ^ set(second.splitlines())
    assert {line.split(" | ")[0] for line in changed} == {"| 5"}
