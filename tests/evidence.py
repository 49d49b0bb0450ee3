"""Tables of docs/ whose rows are what tests saw.

    python -m tests.evidence TABLE [--only ROW ...] --write docs/TABLE.md

A test names the rows that it shows, and says of each in one sentence what was seen:

    @pytest.mark.evidence(table="faults", rows=("16",))
    def test_...(evidence):
        ...
        evidence("faults", "16", f"The release on disk stays in use: {status['reason']}")

What a test recorded travels in its report, so tests may run in any number of processes. `--only` runs the
tests of some rows and leaves the page's others as they are.
"""

import argparse
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.faults.rows import FAULTS, NOT_SHOWN

Evidence = Callable[[str, str, str], None]
Key = tuple[str, str]
TESTS = Path(__file__).parent
MARKER, DECLARED, SEEN = "evidence", "evidence-rows", "evidence-seen"


@dataclass(frozen=True)
class Table:
    """Headings of a page's table; rows that are listed even if no test shows them, each with what it is."""

    headings: tuple[str, ...]
    rows: Mapping[str, str] = field(default_factory=dict)
    not_shown: Mapping[str, str] = field(default_factory=dict)


TABLES = {
    "faults": Table(("#", "fault", "outcome", "what is seen", "shown by"), FAULTS, NOT_SHOWN),
    "security": Table(("attack", "outcome", "what is seen", "shown by")),
}
PASSED = {"faults": "survived", "security": "refused"}


def declared_rows(item: pytest.Item) -> list[Key]:
    """The rows that a test's markers name."""
    return [
        (marker.kwargs["table"], row) for marker in item.iter_markers(MARKER) for row in marker.kwargs["rows"]
    ]


def declare(items: Iterable[pytest.Item]) -> None:
    """Have the reports of tests tell their rows, also of one that is skipped or fails at once."""
    for item in items:
        if rows := declared_rows(item):
            item.user_properties.append((DECLARED, rows))


@pytest.fixture
def evidence(request: pytest.FixtureRequest) -> Evidence:
    """Record what was seen: evidence(table, row, sentence)."""
    rows = declared_rows(request.node)

    def record(table: str, row: str, seen: str) -> None:
        assert (table, row) in rows, f"the marker of this test does not name row {row!r} of {table!r}"
        request.node.user_properties.append((SEEN, (table, row, " ".join(seen.split()))))

    return record


@dataclass
class Shown:
    """What the tests of one row said, and how they ended."""

    tests: list[str] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    failed: bool = False
    skipped: list[str] = field(default_factory=list)

    def outcome(self, passed: str) -> str:
        """The row's word: what failed weighs most, then what did not run."""
        if self.failed or not (self.seen or self.skipped):
            return "**FAILED**"
        return f"not run: {'; '.join(self.skipped)}" if self.skipped else passed


class Collected:
    """Plugin of a run: keeps the tests of some rows, and gathers what their reports tell."""

    def __init__(self, table: str, only: Iterable[str] = ()) -> None:
        self._table = table
        self._only = frozenset(only)
        self.rows: defaultdict[str, Shown] = defaultdict(Shown)

    def wants(self, key: Key) -> bool:
        return key[0] == self._table and (not self._only or key[1] in self._only)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        wanted = [item for item in items if any(map(self.wants, declared_rows(item)))]
        config.hook.pytest_deselected(items=[item for item in items if item not in wanted])
        items[:] = wanted

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" and report.passed:
            return
        told = report.user_properties
        test = report.nodeid.partition("[")[0]
        said = {(table, row): seen for name, value in told if name == SEEN for table, row, seen in [value]}
        for name, keys in told:
            for key in map(tuple, keys) if name == DECLARED else ():
                if self.wants(key):
                    self._add(self.rows[key[1]], report, test, said.get(key))

    @staticmethod
    def _add(row: Shown, report: pytest.TestReport, test: str, seen: str | None) -> None:
        if test not in row.tests:
            row.tests.append(test)
        row.failed |= report.failed
        if report.skipped:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            row.skipped.append(reason.removeprefix("Skipped: "))
        if seen and seen not in row.seen:
            row.seen.append(seen)


def cell(text: str) -> str:
    """Text of a test as text of a table's cell."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")


def lines_of(name: str, shown: Mapping[str, Shown]) -> dict[str, str]:
    """Row -> its line of the table."""
    table = TABLES[name]
    lines = {}
    for row in [*table.rows, *(row for row in sorted(shown) if row not in table.rows)]:
        known = [row, table.rows[row]] if table.rows else [row]
        if row in shown:
            what = shown[row]
            tests = "<br>".join(f"`{test}`" for test in sorted(what.tests))
            cells = [what.outcome(PASSED[name]), "<br>".join(map(cell, what.seen)), tests]
        else:
            cells = [f"not shown: {table.not_shown.get(row, 'no test recorded it')}", "", ""]
        lines[row] = f"| {' | '.join([*map(cell, known), *cells])} |"
    return lines


def markers(name: str) -> tuple[str, str]:
    """What stands before and behind a table in its page."""
    return f"<!-- {name}: begin -->\n", f"\n<!-- {name}: end -->"


def written(page: str, name: str, lines: dict[str, str], only: Iterable[str] = ()) -> str:
    """The page with its table anew; with `only`, with these rows anew."""
    begin, end = markers(name)
    head, _, rest = page.partition(begin)
    before, _, tail = rest.partition(end)
    if only:
        kept = {
            match[1]: line for line in before.splitlines()[2:] if (match := re.match(r"\| (.+?) \|", line))
        }
        lines = {row: line for row, line in lines.items() if row in only or row not in kept} | {
            row: line for row, line in kept.items() if row not in only
        }
    order = {row: number for number, row in enumerate(TABLES[name].rows)}
    rows = sorted(lines, key=lambda row: (order.get(row, len(order)), row))
    headings = TABLES[name].headings
    table = [f"| {' | '.join(headings)} |", f"|{' --- |' * len(headings)}", *(lines[row] for row in rows)]
    return f"{head}{begin}{chr(10).join(table)}{end}{tail}"


def files_with_evidence() -> list[str]:
    """The test files that record rows of any table."""
    return sorted(
        str(path) for path in TESTS.rglob("test_*.py") if "mark.evidence(" in path.read_text("utf-8")
    )


def main() -> int:
    """Run the tests of a table, and write or print it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("--only", nargs="+", default=[], metavar="ROW")
    parser.add_argument("--write", type=Path, metavar="PAGE")
    asked = parser.parse_args()
    collected = Collected(asked.table, asked.only)
    options: list[Any] = ["-q", "-p", "no:cacheprovider", *files_with_evidence()]
    pytest.main(options, plugins=[collected])
    lines = lines_of(asked.table, collected.rows)
    if asked.write is None:
        print("\n".join(line for row, line in lines.items() if not asked.only or row in asked.only))
    else:
        text = asked.write.read_text(encoding="utf-8")
        asked.write.write_text(written(text, asked.table, lines, asked.only), encoding="utf-8")
    return int(any(row.failed for row in collected.rows.values()))


if __name__ == "__main__":
    sys.exit(main())
