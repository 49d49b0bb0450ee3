"""What became of a run, in one sentence: a failed task's reason, a verdict, a decision, nothing to do.

A task tells it: the sentence is the last line of what it logs, the run's note, and stands on the tab *Result*
of task and run with what it is about (`pages/assets/result.js`). A task cannot write its run's note: it
leaves the result behind as an XCom, and a listener in the scheduler makes a note of it when the run is over;
when it begins, the note is the cluster, where that is known by then. What a person wrote stays.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from foundation.steps import RunOutcome
from lucid_airflow import settings
from lucid_airflow.handover import HANDED_ON
from lucid_models.releases.page_address import release_page_path

RESULT_KEY = "run_result"  # what a run came to
NOTHING_KEY = "nothing_to_do"  # what it came to when no task has a result
STEP_KEY = "step_result"  # of a task on the way to it
LONGEST = 1_000  # characters that Airflow shows
_IDENTITY = ("dag_id", "run_id", "task_id", "map_index")

_log = logging.getLogger("airflow.task.lucid")


def tell(
    context: Any,
    sentence: str,
    *,
    outcome: RunOutcome = RunOutcome.DONE,
    release: tuple[str, int] | None = None,
    page: str | None = None,
    bars: tuple[str, Mapping[str, float]] | None = None,
    forms: Sequence[str] = (),
    step: bool = False,
) -> None:
    """Say what this task came to: the last line of its log, its run's note, and its tab *Result*.

    `release`: the cluster and version that it is about; `page`: one of our kept pages (lucid/...), which the
    tab shows, or a page of ours inside of Airflow (plugin/...), to which it leads;
    `bars`: what is measured, with its unit, and numbers by name; `forms`: the DAGs by whose forms a failure
    is mended; `step`: only on the way to what the run is about: its note leaves it out.
    """
    task = (context or {}).get("ti")
    href = page
    if release is not None:
        href = release_page_path(*release)
    elif page is None and task is not None and not step:
        href = f"dags/{task.dag_id}/runs/{quote(task.run_id, safe='')}/plugin/result"
    if outcome is not RunOutcome.FAILED:  # a reason was logged as an error
        end = "" if sentence.endswith((".", "!", "?")) else "."
        _log.info("%s%s", sentence, f"{end} See {settings.airflow_url()}/{href}" if href else "")
    if task is None:
        return
    result = {
        "sentence": sentence,
        "outcome": str(outcome),
        "release": None if release is None else {"cluster": release[0], "version": release[1]},
        "page": page,
        "bars": None if bars is None else {"title": bars[0], "rows": dict(bars[1])},
        "forms": list(forms),
    }
    key = NOTHING_KEY if outcome is RunOutcome.NOTHING else STEP_KEY if step else RESULT_KEY
    task.xcom_push(key=key, value=result)


def write_cluster(dag_run: Any) -> None:
    """Note which cluster a run that begins is about, where its form or the events that started it say so."""
    _with_session(dag_run, _write_cluster)


def write_note(dag_run: Any) -> None:
    """Set the note of a run that is over, from what its tasks left behind in the order of their ends."""
    _with_session(dag_run, _write)


def _with_session(dag_run: Any, write: Callable[[Any, Any], None]) -> None:
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy.orm import object_session

    session = object_session(dag_run)
    if session is not None:  # the scheduler's own, which it commits
        write(session, dag_run)
        return
    with create_session() as session:
        write(session, session.get(DagRun, dag_run.id))


def _write_cluster(session: Any, dag_run: Any) -> None:
    cluster = _cluster_of(dag_run)
    if cluster and dag_run.dag_run_note is None:
        dag_run.note = f"Cluster {cluster}."


def _cluster_of(dag_run: Any) -> str | None:
    conf = dag_run.conf or {}
    events = sorted(dag_run.consumed_asset_events or [], key=lambda event: event.timestamp)
    handed_on = conf.get(HANDED_ON)
    extras = handed_on if isinstance(handed_on, list) else [event.extra for event in events]
    named = [conf.get("cluster"), *(each.get("cluster") for each in extras if isinstance(each, Mapping))]
    return next((str(name) for name in named if name), None)


def _write(session: Any, dag_run: Any) -> None:
    from airflow.models.taskinstance import TaskInstance
    from airflow.models.xcom import XComModel
    from sqlalchemy import and_, select

    written = dag_run.dag_run_note
    if written is not None and written.user_id is not None:
        return
    same = (getattr(TaskInstance, key) == getattr(XComModel, key) for key in _IDENTITY)
    entries = session.scalars(
        select(XComModel)
        .join(TaskInstance, and_(*same))
        .where(
            XComModel.dag_id == dag_run.dag_id,
            XComModel.run_id == dag_run.run_id,
            XComModel.key.in_((RESULT_KEY, NOTHING_KEY)),
        )
        .order_by(TaskInstance.end_date)
    )
    sentences: dict[str, list[str]] = {RESULT_KEY: [], NOTHING_KEY: []}
    for entry in entries:
        sentences[entry.key].append(str(XComModel.deserialize_value(entry)["sentence"]))
    text = "\n\n".join(dict.fromkeys(sentences[RESULT_KEY] or sentences[NOTHING_KEY]))
    if text:
        dag_run.note = text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
    elif written is not None:  # of this run's beginning, or of an earlier try
        cluster = _cluster_of(dag_run)
        dag_run.note = f"Cluster {cluster}." if cluster else None
