"""A client of one MLflow server, or of an SQLite file, that fails with the product's own errors."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from foundation.bounded_http import refuse_readable_secret, without_proxies
from foundation.errors import LucidError, NotFoundError, ServiceRefusedError, ServiceUnavailableError
from foundation.private_files import private_database, private_folder

Result = TypeVar("Result")

_SECRETS = ("MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN")
SQLITE = "sqlite:///"
_MOST_LETTERS = 500  # characters of MLflow's own words
_LOGIN = "Check the login: MLFLOW_TRACKING_USERNAME and _PASSWORD, or MLFLOW_TRACKING_TOKEN."
_ADDRESS = "LUCID_TRACKING_URI must be the address of an MLflow server."
_REMEDIES = {  # by MLflow's code
    "PERMISSION_DENIED": f"{_LOGIN} Behind another host's name the server needs --allowed-hosts.",
    "UNAUTHENTICATED": _LOGIN,
    "ENDPOINT_NOT_FOUND": _ADDRESS,
}
_QUIET = {
    # No telemetry leaves the machine; standard output belongs to the commands' own results.
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    # Its chatter goes to standard error, which a task's log shows as errors.
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    # The default of 7 retries with growing pauses keeps a command waiting for minutes when the server is
    # down.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3",
}


def is_unwritten(tracking_uri: str) -> bool:
    """Whether an address is an SQLite file in which MLflow has kept nothing yet.

    MLflow makes all its tables before it answers anything, which takes seconds.
    """
    if not tracking_uri.startswith(SQLITE):
        return False
    file = Path(tracking_uri.removeprefix(SQLITE).partition("?")[0])
    return not (file.exists() and file.stat().st_size)


class MlflowServer:
    """MLflow behind one address. Raises ServiceUnavailableError when it does not answer."""

    def __init__(self, tracking_uri: str) -> None:
        """Raises BadInputError for an address to which a password or token would go readable."""
        for name, value in _QUIET.items():
            os.environ.setdefault(name, value)
        os.environ.update(without_proxies(os.environ))
        secret = any(os.environ.get(name) for name in _SECRETS)
        if tracking_uri.startswith("http"):
            refuse_readable_secret(tracking_uri, "LUCID_TRACKING_URI", secret=secret)
        if tracking_uri.startswith(SQLITE):
            database = Path(tracking_uri.removeprefix(SQLITE).partition("?")[0])
            with suppress(OSError):  # then SQLite says why
                private_folder(database.parent, tighten=False)
                private_database(database)
        from mlflow import MlflowClient

        self.tracking_uri = tracking_uri
        self.client: Any = MlflowClient(tracking_uri, registry_uri=tracking_uri)

    @contextmanager
    def as_current(self) -> Iterator[None]:
        """Make this server MLflow's current one, where any client looks `models:/` addresses up."""
        import mlflow

        before = mlflow.get_tracking_uri()
        mlflow.set_tracking_uri(self.tracking_uri)
        try:
            yield
        finally:
            mlflow.set_tracking_uri(before)

    def found(self, ask: Callable[[], Result]) -> Result | None:
        """Return the answer, None when MLflow does not have it."""
        try:
            return self.call(ask)
        except NotFoundError:
            return None

    def call(self, ask: Callable[[], Result]) -> Result:
        """Return the answer; raises NotFoundError, ServiceRefusedError, ServiceUnavailableError."""
        from mlflow.exceptions import MlflowException
        from requests.exceptions import RequestException

        try:
            return ask()
        except MlflowException as error:
            # A failed download says so only inside its text.
            if "RESOURCE_DOES_NOT_EXIST" in (error.error_code, *error.message.split('"')):
                raise NotFoundError(
                    f"MLflow on {self.tracking_uri} does not have it: {error.message}"
                ) from error
            raise self._failure(error) from error
        except FileNotFoundError as error:
            raise NotFoundError(f"MLflow on {self.tracking_uri} does not have it: {error}") from error
        except (RequestException, OSError) as error:
            raise self._no_answer(error) from error

    def _failure(self, error: Any) -> LucidError:
        """What an error of MLflow's client means: no answer, a refusal, or a fault of the server's own."""
        if error.get_http_status_code() < 500:
            reason = _in_short(error.message.removeprefix(f"{error.error_code}: "))
            return ServiceRefusedError(
                f"MLflow on {self.tracking_uri} refused it: {reason}.", remedy=_REMEDIES.get(error.error_code)
            )
        cause = _first_cause(error)
        if isinstance(cause, OSError):
            return self._no_answer(error)
        return ServiceUnavailableError(
            f"MLflow on {self.tracking_uri} failed: {_in_short(getattr(cause, 'message', str(cause)))}.",
            remedy=f"Its log says more. {_ADDRESS}",
        )

    def _no_answer(self, error: BaseException) -> ServiceUnavailableError:
        cause = _first_cause(error)
        why = (cause.strerror if isinstance(cause, OSError) else None) or str(cause) or type(cause).__name__
        return ServiceUnavailableError(
            f"MLflow on {self.tracking_uri} did not answer ({why}).",
            remedy="Check that it runs (`make up`) and LUCID_TRACKING_URI.",
        )


def _in_short(message: str) -> str:
    return message.strip().partition("\n")[0].rstrip(".")[:_MOST_LETTERS]


def _first_cause(error: BaseException) -> BaseException:
    """What went wrong first: below MLflow's client, requests and urllib3 it is the system's own error."""
    while below := error.__cause__ or error.__context__:
        error = below
    return error
