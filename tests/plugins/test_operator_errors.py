"""Bad input fails at once; a service that is away is tried again."""

import pytest
from airflow.sdk.exceptions import AirflowFailException

from cluster_logs.errors import (
    BadInputError,
    NotFoundError,
    ReleaseRefusedError,
    ServiceUnavailableError,
    UnknownNameError,
    ValidationFailedError,
)
from lucid_airflow.errors import as_airflow_errors
from lucid_airflow.handover import required


@pytest.mark.parametrize(
    "error",
    [
        BadInputError("a"),
        NotFoundError("b"),
        ReleaseRefusedError("c"),
        UnknownNameError("format", "x", ["y"]),
        ValidationFailedError("jobs.ids_are_unique (3 rows)"),
    ],
)
def test_no_second_try_for_what_it_cannot_mend(error) -> None:
    with pytest.raises(AirflowFailException) as caught, as_airflow_errors():
        raise error
    assert str(error) in str(caught.value)
    assert type(error).__name__ in str(caught.value)


@pytest.mark.parametrize(
    "error", [ServiceUnavailableError("MLflow is away"), OSError("disk"), KeyError("bug")]
)
def test_a_second_try_for_the_rest(error) -> None:
    with pytest.raises(type(error)), as_airflow_errors():
        raise error


@pytest.mark.parametrize("value", [None, ""])
def test_a_missing_input_says_where_to_fill_it_in(value) -> None:
    with pytest.raises(BadInputError, match="parameter 'cluster'"):
        required({"cluster": value}, "cluster", asset_name="job_table")
