"""Our errors as Airflow understands them: the reason first, no second try for what it cannot mend."""

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from foundation.disk_errors import storage_error
from foundation.errors import DiskError, LucidError, ServiceUnavailableError
from foundation.human_times import human_duration
from foundation.parts import installed_parts
from foundation.steps import RunOutcome
from lucid_airflow.dag_defaults import dag_ids
from lucid_airflow.run_results import tell
from lucid_airflow.task_log import as_told, frames_wanted

# What a command calls otherwise than a form; the rest differ by dashes, and by `_uri` where a file is named.
_FIELD_OF_OPTION: Mapping[str, str] = {
    "--format": "source_format",
    "--jobs": "input_uri",
    "--rule": "rules",
    "--setting": "settings",
}
# Which DAG does what a command does; a part says it of its own.
_DAG_OF_COMMAND: Mapping[str, str] = {
    "lucid ingest": "ingest_logs",
    "lucid synthesize": "ingest_logs",
    "lucid profile": "profile_workloads",
    "lucid train": "retrain_models",
    "lucid release build": "retrain_models",
    "lucid release validate": "validate_release",
    "lucid release publish": "publish_release",
    "lucid tune": "tune_system",
}
_COMMAND = re.compile("`lucid [^`]*`")
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z]")

_log = logging.getLogger("airflow.task.lucid")


@contextmanager
def as_airflow_errors(context: Any = None) -> Iterator[None]:
    """Fail a task for good on bad input; let a silent service and the unexpected be retried.

    What we know of is told in one line of the task's log, without frames (`task_log.py`), in the run's note
    and on the tab *Result*. The unexpected keeps its traceback. A task that is skipped as there is nothing to
    do tells that, and one that was stopped for its time how long it had.
    """
    from airflow.sdk.exceptions import (
        AirflowException,
        AirflowFailException,
        AirflowSkipException,
        AirflowTaskTimeout,
        DownstreamTasksSkipped,
    )

    try:
        yield
    except AirflowSkipException as nothing_to_do:
        if str(nothing_to_do):  # else the task has told what became of it
            tell(context, str(nothing_to_do), outcome=RunOutcome.NOTHING)
        raise
    except DownstreamTasksSkipped:  # Airflow's way to end a task well
        raise
    except AirflowTaskTimeout:
        _tell_failure(context, _too_long((context or {}).get("task")))
        raise
    except Exception as error:
        lucid_error = error if isinstance(error, LucidError) else storage_error(error)
        if lucid_error is None:
            kind = "" if isinstance(error, AirflowException) else f"{type(error).__name__}: "
            _tell_failure(context, f"{kind}{error}".rstrip(".") + ". The task's log says where.")
            raise
        reason = in_the_forms_words(str(lucid_error), context)
        _log.error("%s", reason)
        kind = type(lucid_error).__name__
        cause = error if frames_wanted() else None
        _tell_failure(context, reason)
        if isinstance(lucid_error, ServiceUnavailableError | DiskError):
            raise as_told(type(lucid_error)("See the line above; the task is tried again.")) from cause
        raise as_told(AirflowFailException(f"{kind}: see the line above.")) from cause


def _tell_failure(context: Any, reason: str) -> None:
    """Leave a reason, with the forms by which it is mended: those that it names, else the run's own."""
    dag = (context or {}).get("dag")
    named = _dags_of(reason)
    own = [dag.dag_id] if dag is not None and (not named or "In the form" in reason) else []
    tell(context, reason, outcome=RunOutcome.FAILED, forms=list(dict.fromkeys([*own, *named])))


def _too_long(task: Any) -> str:
    limit = getattr(task, "execution_timeout", None)
    time = "the time that it may take" if limit is None else human_duration(limit.total_seconds())
    return f"It was not done after {time}, and was stopped. Its log says how far it came."


def in_the_forms_words(message: str, context: Any) -> str:
    """Return a message that names a command or its options with the DAG, or the fields of this run's form,
    beside them.
    """
    dag = (context or {}).get("dag")
    if dag is None:
        return message
    elsewhere = [dag_id for dag_id in _dags_of(message) if dag_id != dag.dag_id]
    about_this_form = _COMMAND.sub("", message) if elsewhere else message
    options = dict.fromkeys(_OPTION.findall(about_this_form))
    titles = {option: title for option in options if (title := _title_of(option, dag.params)) is not None}
    sentences = [f"{option} is {title!r}" for option, title in titles.items() if title not in message]
    added = [f"In the form {', '.join(sentences)}."] if sentences else []
    if elsewhere and not any(dag_id in message for dag_id in elsewhere):
        added.append(f"In Airflow, {' or '.join(elsewhere)} does it.")
    return " ".join([message, *added])


def _dags_of(message: str) -> list[str]:
    """The DAGs that a message names, else those that do what its commands do."""
    named = [dag_id for dag_id in dag_ids() if dag_id in message]
    of_parts = {dag.command: dag.dag_id for part in installed_parts() for dag in part.dags if dag.command}
    by_command = [dag_id for command, dag_id in {**_DAG_OF_COMMAND, **of_parts}.items() if command in message]
    return named or list(dict.fromkeys(by_command))


def _title_of(option: str, params: Any) -> str | None:
    stem = option.removeprefix("--").replace("-", "_")
    for name in (_FIELD_OF_OPTION.get(option), stem, f"{stem}_uri"):
        if name is not None and name in params:
            return str(params.get_param(name).schema.get("title", name))
    return None
