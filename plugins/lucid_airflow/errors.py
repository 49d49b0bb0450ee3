"""Our errors as Airflow understands them: no second try for what a second try cannot mend."""

from collections.abc import Iterator
from contextlib import contextmanager

from cluster_logs.errors import LucidError, ServiceUnavailableError


@contextmanager
def as_airflow_errors() -> Iterator[None]:
    """Fail a task for good on bad input; let a silent service and the unexpected be retried."""
    from airflow.sdk.exceptions import AirflowFailException

    try:
        yield
    except ServiceUnavailableError:
        raise
    except LucidError as error:
        raise AirflowFailException(f"{type(error).__name__}: {error}") from error
