"""`python -m tests.tier_list --write docs/test_tiers.md`: which tests run in `make test-all` only, and why.

Needs all that those tests need (`make install-test-all install-zoo`), or it would not see some of them.
"""

import argparse
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.tiers import ONLY_IN_ALL, Tier, folder_of_tests, reason_for_all, tier_of

HEAD = """# Which tests run when

Written by `python -m tests.tier_list --write docs/test_tiers.md`.

| command | tests | what for |
| --- | --- | --- |
"""
WHAT_FOR = {
    Tier.QUICK: ("make test-quick", "the inner loop: no server runs, no model is trained"),
    Tier.USUAL: ("make test", "every behaviour that a user meets, with what pip installs and nothing else"),
    Tier.ALL: (
        "make test-all",
        "Slurm, Prometheus, Chromium, the whole stack, public data, experiments, full sizes",
    ),
}


class Collected:
    """Keeps what pytest collects, each with its tier."""

    def __init__(self) -> None:
        self.tiers: Counter[Tier] = Counter()
        self.only_in_all: Counter[tuple[str, str]] = Counter()
        self.missing: list[str] = []

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            self.tiers[tier_of(item)] += 1
            path = item.nodeid.partition("::")[0]
            if reason := reason_for_all(item):
                folder = folder_of_tests(path)
                where = f"{path.partition(f'/{folder}/')[0]}/{folder}/" if folder in ONLY_IN_ALL else path
                self.only_in_all[reason, where] += 1

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped or report.failed:
            self.missing.append(report.nodeid)


def page(collected: Collected) -> str:
    """The page: how many tests each command runs, and what is left to the last, by reason and file."""
    lines, tests = [HEAD.rstrip("\n")], 0
    for tier, (command, what_for) in WHAT_FOR.items():
        tests += collected.tiers[tier]
        lines.append(f"| `{command}` | {tests:,} | {what_for} |")
    lines += ["", "In `make test-all` only:", "", "| why | where | tests |", "| --- | --- | --- |"]
    for (reason, where), count in sorted(collected.only_in_all.items()):
        lines.append(f"| {reason} | `{where}` | {count} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write the page, or print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, metavar="PAGE")
    write = parser.parse_args().write
    collected = Collected()
    pytest.main(["-q", "-q", "--collect-only", "--no-header"], plugins=[collected])
    if collected.missing:
        print(f"not collected: {', '.join(collected.missing)}", file=sys.stderr)
        return 1
    if write is None:
        print(page(collected))
    else:
        write.write_text(page(collected))
    return 0


if __name__ == "__main__":
    sys.exit(main())
