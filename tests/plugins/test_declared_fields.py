"""Fields that are declared once are to Airflow like those of a constructor that was written by hand."""

from typing import Any

import pytest


def operators() -> tuple[type[Any], type[Any]]:
    """An operator, and one that adds fields to it."""
    from lucid_airflow.operators.base import LucidOperator
    from lucid_airflow.operators.declared_fields import Verbatim

    class GreetOperator(LucidOperator, multiple_outputs=True):
        """Say something to somewhere."""

        stage: Verbatim[str]
        cluster: Any
        word: Any = "hello"

        def run(self, context: Any) -> dict[str, Any]:
            """Return what the fields are."""
            return {"stage": self.stage, "cluster": self.cluster, "word": self.word}

    class GreetTwiceOperator(GreetOperator):
        """Say it several times."""

        times: Any = 2
        pause_s: Verbatim[int] = 0

    return GreetOperator, GreetTwiceOperator


def test_constructor_and_template_fields_derive_from_the_declarations() -> None:
    greet, twice = operators()
    assert greet.template_fields == ("cluster", "word")
    assert twice.template_fields == ("cluster", "word", "times")
    task = twice(task_id="greet", stage="{{ ds }}", cluster="philly", times=3)
    assert (task.stage, task.cluster, task.word, task.times, task.pause_s) == (
        "{{ ds }}",
        "philly",
        "hello",
        3,
        0,
    )
    assert task.multiple_outputs
    assert not hasattr(greet, "times")


def test_a_field_without_a_default_is_required_and_a_foreign_one_refused() -> None:
    greet, twice = operators()
    with pytest.raises(TypeError, match="missing keyword argument 'cluster'"):
        greet(task_id="greet", stage="solo")
    with pytest.raises(TypeError, match="missing keyword argument"):
        twice(task_id="greet", cluster="philly")
    with pytest.raises(TypeError, match="sentence"):
        greet(task_id="greet", stage="solo", cluster="philly", sentence="hello")


def test_default_args_of_the_dag_fill_fields() -> None:
    from airflow.sdk import DAG

    greet, twice = operators()
    with DAG("greetings", default_args={"cluster": "philly", "times": 5, "retries": 4}):
        task = greet(task_id="greet", stage="solo")
        other = twice(task_id="greet_twice", stage="solo", cluster="venus")
    assert (task.cluster, task.retries) == ("philly", 4)
    assert (other.cluster, other.times) == ("venus", 5)


def test_another_tasks_result_in_a_field_is_waited_for() -> None:
    from airflow.sdk import DAG

    greet, twice = operators()
    with DAG("greetings"):
        first = greet(task_id="greet", stage="solo", cluster="philly")
        second = twice(task_id="greet_twice", stage="solo", cluster="philly", word=first.output["word"])
        second.times = first.output["stage"]
    assert second.upstream_task_ids == {"greet"}


def test_templates_are_rendered_in_fields_that_are_not_verbatim() -> None:
    greet, _ = operators()
    task = greet(task_id="greet", stage="{{ params.cluster }}", cluster="{{ params.cluster }}")
    task.render_template_fields({"params": {"cluster": "venus"}})
    assert (task.stage, task.cluster) == ("{{ params.cluster }}", "venus")


def test_a_task_is_mapped_over_fields_of_its_class_and_its_base() -> None:
    from airflow.sdk import DAG

    _, twice = operators()
    with DAG("greetings", default_args={"word": "hi"}):
        mapped = twice.partial(task_id="greet", stage="solo", times=4).expand(cluster=["philly", "venus"])
    assert mapped.template_fields == ("cluster", "word", "times")
    task = mapped.unmap({"cluster": "venus"})
    assert (task.stage, task.cluster, task.word, task.times) == ("solo", "venus", "hi", 4)
    assert task.multiple_outputs
    with pytest.raises(TypeError, match="unexpected keyword argument 'sentence'"):
        twice.partial(task_id="greet", sentence="hello")
    partial = twice.partial(task_id="other", stage="solo")
    with pytest.raises(TypeError, match="unexpected keyword argument 'sentence'"):
        partial.expand(sentence=["hello"])
    partial.expand(cluster=["philly"])  # else Airflow warns of a task that was never mapped


def test_a_dag_of_such_operators_survives_serialization() -> None:
    from airflow.sdk import DAG
    from airflow.serialization.serialized_objects import DagSerialization

    _, twice = operators()
    with DAG("greetings") as dag:
        twice(task_id="greet", stage="solo", cluster="philly")
    (task,) = DagSerialization.from_dict(DagSerialization.to_dict(dag)).tasks
    assert list(task.template_fields) == ["cluster", "word", "times"]
    assert (task.cluster, task.times) == ("philly", 2)
