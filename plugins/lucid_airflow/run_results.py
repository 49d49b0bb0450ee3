"""What became of a run, in one sentence: a failed task's reason, a verdict, a decision.

A task tells it: the sentence is the last line of what it logs, the run's note, and stands on the tab *Result*
of task and run with what it is about (`pages/assets/result.js`). A task cannot write its run's note: it
leaves the text behind as an XCom, and a listener in the scheduler makes a note of it when the run is over.
What a person wrote stays.
"""

import logging
from collections.abc import Mapping
from typing import Any

from lucid_airflow import settings
from lucid_models.releases.page_address import release_page_path

NOTE_KEY = "run_note"
RESULT_KEY = "run_result"
LONGEST = 1_000  # characters that Airflow shows
_IDENTITY = ("dag_id", "run_id", "task_id", "map_index")

_log = logging.getLogger("airflow.task.lucid")


def tell(
    context: Any,
    sentence: str,
    *,
    release: tuple[str, int] | None = None,
    page: str | None = None,
    bars: tuple[str, Mapping[str, float]] | None = None,
    failed: bool = False,
) -> None:
    """Say what this task came to: the last line of its log, its run's note, and its tab *Result*.

    `release`: the cluster and version that it is about; `page`: one of our kept pages, below /lucid;
    `bars`: what is measured, with its unit, and numbers by name; `failed`: the sentence is a reason and its
    remedy.
    """
    href = page
    if release is not None:
        href = release_page_path(*release)
    if not failed:  # a reason was logged as an error
        end = "" if sentence.endswith((".", "!", "?")) else "."
        _log.info("%s%s", sentence, f"{end} See {settings.airflow_url()}/{href}" if href else "")
    task = (context or {}).get("ti")
    if task is None:
        return
    task.xcom_push(key=NOTE_KEY, value=sentence)
    result = {
        "sentence": sentence,
        "failed": failed,
        "release": None if release is None else {"cluster": release[0], "version": release[1]},
        "page": page,
        "bars": None if bars is None else {"title": bars[0], "rows": dict(bars[1])},
    }
    task.xcom_push(key=RESULT_KEY, value=result)


def write_note(dag_run: Any) -> None:
    """Set the note of a run that is over, from what its tasks left behind in the order of their ends."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy.orm import object_session

    session = object_session(dag_run)
    if session is not None:  # the scheduler's own, which it commits
        _write(session, dag_run)
        return
    with create_session() as session:
        _write(session, session.get(DagRun, dag_run.id))


def _write(session: Any, dag_run: Any) -> None:
    from airflow.models.taskinstance import TaskInstance
    from airflow.models.xcom import XComModel
    from sqlalchemy import and_, select

    written = dag_run.dag_run_note
    if written is not None and written.user_id is not None:
        return
    same = (getattr(TaskInstance, key) == getattr(XComModel, key) for key in _IDENTITY)
    left = session.scalars(
        select(XComModel)
        .join(TaskInstance, and_(*same))
        .where(
            XComModel.dag_id == dag_run.dag_id,
            XComModel.run_id == dag_run.run_id,
            XComModel.key == NOTE_KEY,
        )
        .order_by(TaskInstance.end_date)
    )
    text = "\n\n".join(dict.fromkeys(str(XComModel.deserialize_value(entry)) for entry in left))
    if text:
        dag_run.note = text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
    elif written is not None:
        dag_run.note = None  # of an earlier try of this run
