"""`--only-skipped`: run what the last run skipped, once what it lacked (PyTorch, a Slurm) has been installed.

A run of all tests remembers in pytest's cache what it skipped; a run with the option changes nothing there.
"""

from collections.abc import Callable
from typing import Any

import pytest

OPTION = "--only-skipped"
_KEY = "lucid/skipped"


class SkippedTests:
    """Collects what is skipped and writes it down at the end, in the process that reports."""

    def __init__(self, remember: Callable[[list[str]], None]) -> None:
        self._remember = remember
        self._node_ids: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            self._node_ids.add(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:  # a module that could not import what it needs
            self._node_ids.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self._remember(sorted(self._node_ids))


def watch(config: pytest.Config) -> None:
    """Remember what this run skips, unless it is itself such a second run or sees only some of the tests."""
    cache: Any = getattr(config, "cache", None)  # pytest can run without one
    if cache and not config.getoption("only_skipped") and config.args_source.name != "ARGS":
        config.pluginmanager.register(SkippedTests(lambda node_ids: cache.set(_KEY, node_ids)))


def keep_skipped(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With the option, leave only tests that the last run skipped, alone or with their module."""
    if not config.getoption("only_skipped"):
        return
    cache: Any = config.cache
    skipped = set(cache.get(_KEY, []))
    kept = [item for item in items if {item.nodeid, item.nodeid.partition("::")[0]} & skipped]
    left = [item for item in items if item not in set(kept)]
    config.hook.pytest_deselected(items=left)
    items[:] = kept
