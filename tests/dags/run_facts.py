"""What became of a run, as Airflow's database knows it."""

from typing import Any


def states_of(run: Any) -> dict[str, set[str]]:
    """Task -> the states of its instances."""
    return {task: set(states) for task, states in all_states_of(run).items()}


def all_states_of(run: Any) -> dict[str, list[str]]:
    """Task -> the state of each of its instances."""
    found: dict[str, list[str]] = {}
    for task in run.get_task_instances():
        found.setdefault(task.task_id, []).append(str(task.state))
    return found


def state_of_each(run: Any) -> dict[str, str]:
    """Task -> the state of its only instance."""
    return {task.task_id: str(task.state) for task in run.get_task_instances()}


def note_of(run: Any) -> str:
    """The run's note; empty without one."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session

    with create_session() as session:
        return session.get(DagRun, run.id).note or ""


def conf_of_rest(run: Any) -> dict[str, Any] | None:
    """What the run that this one handed on to is told; None when it handed on nothing."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        wanted = select(DagRun).where(
            DagRun.dag_id == run.dag_id, DagRun.run_id.endswith(f"__rest__{run.run_id}")
        )
        rest = session.scalars(wanted).one_or_none()
        return None if rest is None else dict(rest.conf)


TOLD = ("run_result", "step_result", "nothing_to_do")


def silent_tasks(run: Any) -> set[str]:
    """Tasks that ran to an end, good or bad, and told nothing for their tab Result."""
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    ran = {task.task_id for task in run.get_task_instances() if task.state in ("success", "failed")}
    with create_session() as session:
        of_run = (XComModel.run_id == run.run_id, XComModel.dag_id == run.dag_id, XComModel.key.in_(TOLD))
        told = set(session.scalars(select(XComModel.task_id).where(*of_run)))
    return ran - told


def result_of(run: Any, task_id: str) -> dict[str, Any]:
    """What a task of a run told, for its tab Result; of a mapped task, its only one."""
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        entry = session.scalars(
            select(XComModel).where(
                XComModel.run_id == run.run_id,
                XComModel.dag_id == run.dag_id,
                XComModel.task_id == task_id,
                XComModel.key.in_(TOLD),
            )
        ).one()
        value: dict[str, Any] = XComModel.deserialize_value(entry)
    return value
