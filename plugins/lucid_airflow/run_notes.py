"""A run's note says what became of it: a failed task's reason, a verdict, a decision.

A task cannot write its run's note: it leaves the text behind as an XCom, and a listener in the scheduler
makes a note of it when the run is over. What a person wrote stays.
"""

from typing import Any

NOTE_KEY = "run_note"
LONGEST = 1_000  # characters that Airflow shows
_IDENTITY = ("dag_id", "run_id", "task_id", "map_index")


def note_run(context: Any, text: str) -> None:
    """Leave a sentence for the note of this task's run."""
    task = (context or {}).get("ti")
    if task is not None:
        task.xcom_push(key=NOTE_KEY, value=text)


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
