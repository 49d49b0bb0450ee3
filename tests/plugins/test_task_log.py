"""A failed task's log holds the reason with its remedy, once, and no frames; a long fit's log stays short."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from foundation.errors import BadInputError, ServiceUnavailableError
from lucid_airflow.errors import as_airflow_errors
from lucid_airflow.operators.base import LucidOperator


def report(error: Exception) -> list[Any]:
    """What Airflow's task runner writes of a task that ends with this error."""
    with capture_logs() as entries:
        log = structlog.get_logger("task")
        try:
            with as_airflow_errors():
                raise error
        except Exception:
            log.exception("Task failed with exception")
    return entries


@pytest.mark.parametrize("kind", [BadInputError, ServiceUnavailableError])
def test_an_error_with_its_remedy_is_told_once_and_without_frames(
    kind: Callable[..., Exception], caplog: pytest.LogCaptureFixture
) -> None:
    assert report(kind("Row 7 is bad.", remedy="Mend it.")) == []
    assert [record.message for record in caplog.records] == ["Row 7 is bad. Mend it."]
    assert caplog.records[0].exc_info is None


def test_frames_are_shown_to_those_who_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUCID_LOG_FRAMES", "true")
    (entry,) = report(BadInputError("Row 7 is bad."))
    assert entry["exc_info"]
    monkeypatch.setenv("LUCID_LOG_FRAMES", "perhaps")
    assert report(BadInputError("Row 7 is bad."))


def test_the_unexpected_keeps_its_frames() -> None:
    assert report(BadInputError("a told one first")) == []
    (entry,) = report(KeyError("bug"))
    assert (entry["event"], entry["exc_info"]) == ("Task failed with exception", True)


class LongFit(LucidOperator):
    """A fit of a thousand rounds."""

    def run(self, context: Any) -> None:
        """Report each."""
        progress = self.log_progress()
        for fitted in range(1_000):
            progress(fitted, 1_000, "boosting")
        logging.getLogger("mlflow").info("validating the input example")
        logging.getLogger("alembic.runtime").info("migrating")


def test_a_fits_rounds_are_no_lines_and_libraries_are_quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    LongFit(task_id="fit").execute({"params": {}})
    assert caplog.records == []
