"""`--rest`: run what the last run left: tests of larger tiers, and what it skipped for want of PyTorch, say.

Any other run remembers in pytest's cache which tier it was and what it skipped.
"""

from typing import Any

import pytest

from tests import tiers
from tests.tiers import Tier, tier_of

OPTION = "--rest"
_KEY = "lucid/last_run"


class LastRun:
    """Collects what is skipped and writes it down at the end, in the process that reports."""

    def __init__(self, cache: Any, tier: str) -> None:
        self._cache = cache
        self._tier = tier
        self._skipped: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            self._skipped.add(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:  # a module that could not import what it needs
            self._skipped.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self._cache.set(_KEY, {"tier": self._tier, "skipped": sorted(self._skipped)})


def add_option(parser: pytest.Parser) -> None:
    """Declare the option."""
    parser.addoption(OPTION, action="store_true", help="run what the last run left out or skipped")


def watch(config: pytest.Config) -> None:
    """Remember what this run leaves, unless it is itself such a second run or sees only some of the tests."""
    cache: Any = getattr(config, "cache", None)  # pytest can run without one
    if cache and not config.getoption("rest") and config.args_source.name != "ARGS":
        config.pluginmanager.register(LastRun(cache, str(config.getoption(tiers.OPTION))))


def keep_rest(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With the option, leave only tests that the last run left out, or skipped alone or with their module."""
    if not config.getoption("rest"):
        return
    cache: Any = config.cache
    last = cache.get(_KEY, None)
    if last is None:
        raise pytest.UsageError(
            f"{OPTION} runs what an earlier run left, and none ended here: run `make test`."
        )
    ran, skipped = Tier[last["tier"].upper()], set(last["skipped"])

    def was_left(item: pytest.Item) -> bool:
        return tier_of(item) > ran or not skipped.isdisjoint({item.nodeid, item.nodeid.partition("::")[0]})

    tiers.keep(config, items, was_left)
