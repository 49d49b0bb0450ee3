"""Bad input fails at once; a service that is away is tried again."""

from datetime import timedelta
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, AirflowTaskTimeout

from foundation.errors import (
    BadInputError,
    NotFoundError,
    ReleaseRefusedError,
    ServiceUnavailableError,
    UnknownNameError,
    ValidationFailedError,
)
from lucid_airflow.errors import as_airflow_errors, in_the_forms_words


@pytest.mark.parametrize(
    "error",
    [
        BadInputError("this row"),
        NotFoundError("that table"),
        ReleaseRefusedError("a release"),
        UnknownNameError("format", "x", ["y"]),
        ValidationFailedError("jobs.ids_are_unique (3 rows)"),
    ],
)
def test_no_second_try_for_what_it_cannot_mend(error, caplog) -> None:
    with pytest.raises(AirflowFailException) as caught, as_airflow_errors():
        raise error
    assert [(record.levelname, record.message) for record in caplog.records] == [("ERROR", str(error))]
    assert type(error).__name__ in str(caught.value)
    assert str(error) not in str(caught.value)  # the reason stands once, in the line before
    assert caught.value.__suppress_context__


def test_a_service_that_is_away_is_tried_again_and_told_once(caplog) -> None:
    with pytest.raises(ServiceUnavailableError, match="tried again") as caught, as_airflow_errors():
        raise ServiceUnavailableError("MLflow is away")
    assert [record.message for record in caplog.records] == ["MLflow is away"]
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("error", [OSError("disk"), KeyError("bug")])
def test_the_unexpected_is_tried_again_and_keeps_its_traceback(error, caplog) -> None:
    with pytest.raises(type(error)) as caught, as_airflow_errors():
        raise error
    assert caught.value is error
    assert caplog.records == []


def test_a_remedy_names_the_forms_field_beside_the_commands_option() -> None:
    from airflow.sdk import DAG, Param

    with DAG(
        "some",
        params={
            "nodes_uri": Param("", type="string", title="Nodes"),
            "source_format": Param("", type="string", title="Source"),
            "hold_out_days": Param(7, type="integer", title="Held-out days"),
        },
    ) as dag:
        pass
    told = in_the_forms_words("Check --nodes, --format and --hold-out-days; not --gpus.", {"dag": dag})
    assert told == (
        "Check --nodes, --format and --hold-out-days; not --gpus. "
        "In the form --nodes is 'Nodes', --format is 'Source', --hold-out-days is 'Held-out days'."
    )
    once = 'Accept it with --nodes (in the form: "Nodes").'
    assert in_the_forms_words(once, {"dag": dag}) == once
    assert in_the_forms_words("Check --nodes.", None) == "Check --nodes."
    another = "No jobs. `lucid ingest --nodes FILE` brings them."
    assert in_the_forms_words(another, {"dag": dag}) == f"{another} In Airflow, ingest_logs does it."


class Task:
    """What a task instance is to a task: it takes XComs."""

    dag_id, run_id = "some", "one"

    def __init__(self) -> None:
        self.left: dict[str, dict[str, object]] = {}

    def xcom_push(self, key: str, value: dict[str, object]) -> None:
        self.left[key] = value


@pytest.mark.parametrize(
    ("error", "key", "outcome", "forms"),
    [
        (BadInputError("No --nodes.", remedy="Name one."), "run_result", "failed", ["some"]),
        (
            NotFoundError("No jobs.", remedy="`lucid ingest` fills it."),
            "run_result",
            "failed",
            ["ingest_logs"],
        ),
        (ServiceUnavailableError("MLflow is away"), "run_result", "failed", ["some"]),
        (KeyError("bug"), "run_result", "failed", ["some"]),
        (AirflowSkipException("There is no load: nothing to do."), "nothing_to_do", "nothing", []),
        (AirflowTaskTimeout("not done after 2 h"), "run_result", "failed", ["some"]),
    ],
)
def test_whatever_ends_a_task_early_is_told_with_the_forms_that_mend_it(
    error: BaseException, key: str, outcome: str, forms: list[str]
) -> None:
    from airflow.sdk import DAG, Param

    with DAG("some", params={"nodes_uri": Param("", type="string", title="Nodes")}) as dag:
        pass
    task = Task()
    context = {"dag": dag, "ti": task, "task": SimpleNamespace(execution_timeout=timedelta(hours=2))}
    with pytest.raises((Exception, AirflowTaskTimeout)), as_airflow_errors(context):
        raise error
    ((left, result),) = task.left.items()
    assert (left, result["outcome"], result["forms"]) == (key, outcome, forms)
    assert str(error).strip("'") in str(result["sentence"])
