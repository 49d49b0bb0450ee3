"""Each task calls a step that there is, by arguments that it takes."""

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from foundation.parts import at_place
from lucid_airflow import settings

OF_THE_RUN = {"run", "progress", "site"}
OF_A_SITE = {"cluster", "lake_uri"}  # what a DAG may state of it
# Where secrets are sent and what is done with the installation's own places: no form may choose it.
OF_THE_INSTALLATION = {
    *("prometheus_url", "node_queries", "tracking_uri", "airflow_url"),
    *("state_dir", "what_if_dir", "live_dir", "live_scheduler", "monitor_settings", "task_log_dir"),
}


def steps(dag_bag: Any) -> Iterator[tuple[str, str, dict[str, Any] | None]]:
    """Each task of every DAG that calls a step: its name, the step's place, what the DAG states (None: a
    task before it says it).
    """
    for dag in dag_bag.dags.values():
        for task in dag.tasks:
            stated = task.partial_kwargs if task.is_mapped else vars(task)
            if "step" in stated:
                arguments = None if task.is_mapped else dict(task.arguments or {})
                yield f"{dag.dag_id}.{task.task_id}", stated["step"], arguments


@pytest.mark.slow
def test_a_step_takes_what_its_task_states_and_lacks_nothing(dag_bag: Any) -> None:
    seen = 0
    for name, place, arguments in steps(dag_bag):
        parameters = inspect.signature(at_place(place)).parameters
        assert {each.kind for each in parameters.values()} == {inspect.Parameter.KEYWORD_ONLY}, name
        if arguments is None:
            continue
        seen += 1
        taken = parameters.keys() | (OF_A_SITE if "site" in parameters else set())
        assert arguments.keys() <= taken, name
        assert not arguments.keys() & (OF_THE_RUN | OF_THE_INSTALLATION), name
        required = {each.name for each in parameters.values() if each.default is each.empty}
        lacking = required - arguments.keys() - OF_THE_RUN
        assert all(callable(getattr(settings, each, None)) for each in lacking), f"{name}: {lacking}"
    assert seen >= 30


def test_what_the_installation_says_is_there() -> None:
    assert all(callable(getattr(settings, name)) for name in OF_THE_INSTALLATION)
