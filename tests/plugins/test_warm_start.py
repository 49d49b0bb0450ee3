"""What the scheduler imports before its tasks do."""

import logging
import subprocess
import sys

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


@pytest.mark.slow
def test_all_is_there_and_nothing_that_forks_would_lose_is_started() -> None:
    seen = (
        "import threading, sys; from lucid_airflow import warm_start; warm_start.preload();"
        "print(threading.active_count(), *(name for name in warm_start.PRELOADED if name not in sys.modules),"
        "'airflow' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "1 False"
