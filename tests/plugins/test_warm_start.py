"""What the scheduler imports before its tasks do."""

import logging
import subprocess
import sys
from importlib.machinery import PathFinder
from importlib.util import find_spec

import pytest

from lucid_airflow import warm_start


def test_what_cannot_be_imported_is_left_to_the_task_that_needs_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(warm_start, "PRELOADED", ("no_such_package", "colorsys"))
    sys.modules.pop("colorsys", None)
    with caplog.at_level(logging.WARNING):
        warm_start.preload()
    assert [record.getMessage() for record in caplog.records] == ["Not imported ahead: no_such_package"]
    assert "colorsys" in sys.modules


def test_all_that_is_imported_ahead_is_there() -> None:
    for name in warm_start.PRELOADED:
        package, *modules = name.split(".")
        spec = find_spec(package)
        for end in range(1, len(modules) + 1):
            assert spec is not None, name
            inside = spec.submodule_search_locations
            spec = PathFinder.find_spec(".".join([package, *modules[:end]]), inside)
        assert spec is not None, name


@pytest.mark.slow
@pytest.mark.thorough("imports every library")
def test_all_is_there_and_nothing_that_forks_would_lose_is_started() -> None:
    seen = (
        "import threading, sys; from lucid_airflow import warm_start; warm_start.preload();"
        "print(threading.active_count(), *(name for name in warm_start.PRELOADED if name not in sys.modules),"
        "'airflow' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "1 False"
