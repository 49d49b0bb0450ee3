"""Our errors as Airflow understands them: the reason first, no second try for what it cannot mend."""

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from foundation.disk_errors import disk_error
from foundation.errors import DiskError, LucidError, ServiceUnavailableError
from lucid_airflow.run_results import tell
from lucid_airflow.task_log import as_told, frames_wanted

# What a command calls otherwise than a form; the rest differ by dashes, and by `_uri` where a file is named.
_FIELD_OF_OPTION: Mapping[str, str] = {
    "--format": "source_format",
    "--jobs": "input_uri",
    "--rule": "rules",
    "--setting": "settings",
}
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z]")

_log = logging.getLogger("airflow.task.lucid")


@contextmanager
def as_airflow_errors(context: Any = None) -> Iterator[None]:
    """Fail a task for good on bad input; let a silent service and the unexpected be retried.

    What we know of is told in one line of the task's log, without frames (`task_log.py`), and in the run's
    note. The unexpected keeps its traceback.
    """
    from airflow.sdk.exceptions import AirflowFailException

    try:
        yield
    except (LucidError, OSError) as error:
        lucid_error = error if isinstance(error, LucidError) else disk_error(error)
        if lucid_error is None:
            raise
        reason = in_the_forms_words(str(lucid_error), context)
        _log.error("%s", reason)
        kind = type(lucid_error).__name__
        cause = error if frames_wanted() else None
        if isinstance(lucid_error, ServiceUnavailableError | DiskError):
            raise as_told(type(lucid_error)("See the line above; the task is tried again.")) from cause
        tell(context, reason, failed=True)
        raise as_told(AirflowFailException(f"{kind}: see the line above.")) from cause


def in_the_forms_words(message: str, context: Any) -> str:
    """Return a message that names a command's options with the fields of this run's form beside them."""
    dag = (context or {}).get("dag")
    if dag is None:
        return message
    options = dict.fromkeys(_OPTION.findall(message))
    titles = {option: title for option in options if (title := _title_of(option, dag.params)) is not None}
    sentences = [f"{option} is {title!r}" for option, title in titles.items() if title not in message]
    return f"{message} In the form {', '.join(sentences)}." if sentences else message


def _title_of(option: str, params: Any) -> str | None:
    stem = option.removeprefix("--").replace("-", "_")
    for name in (_FIELD_OF_OPTION.get(option), stem, f"{stem}_uri"):
        if name is not None and name in params:
            return str(params.get_param(name).schema.get("title", name))
    return None
