"""The requests that a scheduler makes of MLflow, over plain HTTP.

    GET /api/2.0/mlflow/registered-models/search     which clusters have releases, where none is named
    GET /api/2.0/mlflow/registered-models/alias      which version an alias points at
    GET /model-versions/get-artifact                 a file of that version
    GET /get-artifact                                the verdict on it, which lies in the gate's run

MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN, are sent when set, over TLS
or within this machine. All answers are bounded (`foundation.bounded_http`): whatever answers, a poll ends.
"""

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from foundation.bounded_http import (
    AnswerLimits,
    AnswerTooLargeError,
    BoundedClient,
    json_of,
    refuse_readable_secret,
)
from foundation.errors import BadInputError, NotFoundError, ReleaseRefusedError, ServiceUnavailableError
from lucid_models.releases.approval import VerdictTags
from lucid_models.releases.manifest import RELEASE_PREFIX
from lucid_models.signing.statements import NO_STATEMENTS, StatementTags

if TYPE_CHECKING:
    import httpx

ALIAS_LIMITS = AnswerLimits(most_bytes=1024 * 1024, within_s=10.0)
Received = Callable[[int], object]
"""Called with how many bytes of a file have come."""


@dataclass(frozen=True)
class AliasTarget:
    """What an alias points at; all but `version` is what the version's tags say."""

    version: int
    manifest_sha256: str | None
    verdict: VerdictTags
    statements: StatementTags = NO_STATEMENTS


class ReleaseServer:
    """One MLflow server; raises ServiceUnavailableError whenever it does not answer as MLflow does."""

    def __init__(self, uri: str, *, timeout_s: float = 5.0) -> None:
        """`timeout_s` is the longest silence. How long a file may take as a whole is for the caller to say
        (`foundation.deadlines.within`).

        Raises BadInputError for an address that is not http or https, or that would give a password away.
        """
        if not uri.startswith(("http://", "https://")):
            raise BadInputError(
                f"The tracking URI {uri!r} is not the address of an MLflow server.",
                remedy="Set LUCID_TRACKING_URI to http://HOST:PORT.",
            )
        self.uri = uri.rstrip("/")
        user = os.environ.get("MLFLOW_TRACKING_USERNAME")
        password = os.environ.get("MLFLOW_TRACKING_PASSWORD")
        token = os.environ.get("MLFLOW_TRACKING_TOKEN")
        auth = (user, password) if user and password else None
        refuse_readable_secret(self.uri, "LUCID_TRACKING_URI", secret=bool(auth or token))
        self._http = BoundedClient(
            self.uri,
            limits=ALIAS_LIMITS,
            wait_s=timeout_s,
            auth=auth,
            headers={"Authorization": f"Bearer {token}"} if token and not auth else None,
        )

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def models_with(self, alias: str) -> list[str]:
        """The registered models of releases that have an alias."""
        parameters = {"filter": f"name LIKE '{RELEASE_PREFIX}%'", "max_results": "1000"}
        answer = self._http.get("/api/2.0/mlflow/registered-models/search", params=parameters)
        document = json_of(answer)
        _require_success(answer)
        try:
            return [
                str(model["name"])
                for model in document.get("registered_models", [])
                if any(each["alias"] == alias for each in model.get("aliases", []))
            ]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ServiceUnavailableError(
                f"{self.uri} answered {answer.status_code}, but not as MLflow does: {error!r}."
            ) from error

    def resolve(self, name: str, alias: str) -> AliasTarget:
        """What an alias of a registered model points at; raises NotFoundError when there is no such alias."""
        parameters = {"name": name, "alias": alias}
        answer = self._http.get("/api/2.0/mlflow/registered-models/alias", params=parameters)
        document = json_of(answer)
        if answer.status_code in (400, 404) and _error_code(document) in (
            "INVALID_PARAMETER_VALUE",
            "RESOURCE_DOES_NOT_EXIST",
        ):
            raise NotFoundError(f"{self.uri} has no version of {name} with the alias {alias!r}.")
        _require_success(answer)
        try:
            version = document["model_version"]
            tags = {str(tag["key"]): str(tag["value"]) for tag in version.get("tags", [])}
            return AliasTarget(
                int(version["version"]),
                tags.get("manifest_sha256"),
                VerdictTags.of(tags),
                StatementTags.of(tags),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ServiceUnavailableError(
                f"{self.uri} answered {answer.status_code}, but not as MLflow does: {error!r}."
            ) from error

    def fetch(self, name: str, version: int, file: str, most: int, received: Received | None = None) -> bytes:
        """A file of a version of at most `most` bytes; raises ReleaseRefusedError when there is none, or a
        larger one.
        """
        parameters = {"name": name, "version": str(version), "path": file}
        return self._download("/model-versions/get-artifact", parameters, most, received)

    def fetch_of_run(self, run_id: str, file: str, most: int, received: Received | None = None) -> bytes:
        """A file of a run; as `fetch`."""
        return self._download("/get-artifact", {"run_uuid": run_id, "path": file}, most, received)

    def _download(self, path: str, parameters: dict[str, str], most: int, received: Received | None) -> bytes:
        file = parameters["path"]
        limits = AnswerLimits(most, within_s=math.inf)
        try:
            answer = self._http.get(path, params=parameters, limits=limits, received=received)
        except AnswerTooLargeError as error:
            raise ReleaseRefusedError(f"Its {file} holds more than {most} bytes.") from error
        except ServiceUnavailableError as error:
            raise ServiceUnavailableError(f"Its {file} did not arrive: {error}") from error
        if answer.status_code == 404:
            raise ReleaseRefusedError(f"{self.uri} has no {file} of it.")
        _require_success(answer)
        return answer.content


def _error_code(document: Any) -> Any:
    return document.get("error_code") if isinstance(document, dict) else None


def _require_success(answer: "httpx.Response") -> None:
    if answer.status_code != 200:
        raise ServiceUnavailableError(f"{answer.request.url.host} answered {answer.status_code}.")
