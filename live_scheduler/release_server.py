"""The two requests that a scheduler makes of MLflow, over plain HTTP.

    GET /api/2.0/mlflow/registered-models/alias      which version an alias points at
    GET /model-versions/get-artifact                 a file of that version

MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN, are sent when set.
"""

import os
import time
from dataclasses import dataclass

import httpx

from cluster_logs.errors import BadInputError, NotFoundError, ReleaseRefusedError, ServiceUnavailableError
from lucid_models.releases.manifest import RELEASE_NAME


@dataclass(frozen=True)
class AliasTarget:
    """What an alias points at; `manifest_sha256` and `verdict` come from the version's tags."""

    version: int
    manifest_sha256: str | None
    verdict: str | None


class ReleaseServer:
    """One MLflow server; raises ServiceUnavailableError whenever it does not answer as MLflow does."""

    def __init__(self, uri: str, *, timeout_s: float = 5.0, download_limit_s: float = 300.0) -> None:
        """Raises BadInputError for an address that is not http or https."""
        if not uri.startswith(("http://", "https://")):
            raise BadInputError(
                f"The tracking URI {uri!r} is not the address of an MLflow server.",
                remedy="Set LUCID_TRACKING_URI to http://HOST:PORT.",
            )
        self.uri = uri.rstrip("/")
        self.download_limit_s = download_limit_s
        user = os.environ.get("MLFLOW_TRACKING_USERNAME")
        password = os.environ.get("MLFLOW_TRACKING_PASSWORD")
        token = os.environ.get("MLFLOW_TRACKING_TOKEN")
        self._http = httpx.Client(
            timeout=timeout_s,
            auth=(user, password) if user and password else None,
            headers={"Authorization": f"Bearer {token}"} if token and not (user and password) else None,
        )

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def resolve(self, alias: str) -> AliasTarget:
        """What an alias of the release points at; raises NotFoundError when there is no such alias."""
        answer = self._get("/api/2.0/mlflow/registered-models/alias", {"name": RELEASE_NAME, "alias": alias})
        try:
            document = answer.json()
            if answer.status_code in (400, 404) and document.get("error_code") in (
                "INVALID_PARAMETER_VALUE",
                "RESOURCE_DOES_NOT_EXIST",
            ):
                raise NotFoundError(f"{self.uri} has no release with the alias {alias!r}.")
            _require_success(answer)
            found = document["model_version"]
            tags = {str(tag["key"]): str(tag["value"]) for tag in found.get("tags", [])}
            return AliasTarget(int(found["version"]), tags.get("manifest_sha256"), tags.get("verdict"))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ServiceUnavailableError(
                f"{self.uri} answered {answer.status_code}, but not as MLflow does: {error!r}."
            ) from error

    def fetch(self, version: int, file: str, most: int) -> bytes:
        """A file of a release of at most `most` bytes; raises ReleaseRefusedError when it is larger."""
        deadline = time.monotonic() + self.download_limit_s
        parts: list[bytes] = []
        size = 0
        parameters = {"name": RELEASE_NAME, "version": str(version), "path": file}
        try:
            with self._http.stream(
                "GET", f"{self.uri}/model-versions/get-artifact", params=parameters
            ) as answer:
                _require_success(answer)
                for part in answer.iter_bytes():
                    size += len(part)
                    if size > most:
                        raise ReleaseRefusedError(
                            f"{file} of release {version} holds more than {most} bytes."
                        )
                    if time.monotonic() > deadline:
                        raise ServiceUnavailableError(
                            f"{file} of release {version} did not arrive within {self.download_limit_s:g} s."
                        )
                    parts.append(part)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ServiceUnavailableError(f"{self.uri} did not deliver {file}: {error!r}.") from error
        return b"".join(parts)

    def _get(self, path: str, parameters: dict[str, str]) -> httpx.Response:
        try:
            return self._http.get(f"{self.uri}{path}", params=parameters)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ServiceUnavailableError(f"{self.uri} did not answer: {error!r}.") from error


def _require_success(answer: httpx.Response) -> None:
    if answer.status_code != 200:
        raise ServiceUnavailableError(f"{answer.request.url.host} answered {answer.status_code}.")
