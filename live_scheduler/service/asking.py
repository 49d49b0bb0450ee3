"""Asks a live scheduler over HTTP: what `lucid live status`, `queue`, `explain` and `when` do."""

from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
from pydantic import ValidationError

from foundation.bounded_http import AnswerLimits, BoundedClient, refuse_readable_secret
from foundation.errors import (
    BadInputError,
    LucidError,
    NotFoundError,
    ServiceUnavailableError,
)
from live_scheduler.service import schema
from live_scheduler.service.problems import NotServedHereError
from live_scheduler.service.state_files import (
    ENDPOINT_FILE,
    TOKEN_FILE,
    read_endpoint,
    read_token,
)

# The whole queue of a large cluster takes some MiB; a forecast takes seconds, and may wait for others.
_LIMITS = AnswerLimits(most_bytes=256 * 1024 * 1024, within_s=60.0)
M = TypeVar("M", bound=schema.Message)


class ServiceCaller:
    """One live scheduler, asked over HTTP. Raises the errors that it answers with, and
    ServiceUnavailableError when it does not answer.
    """

    def __init__(self, url: str, token: str) -> None:
        """`url` is the service's root, such as http://127.0.0.1:8080; raises BadInputError for another, and
        for one that would get the token over the network readable.
        """
        self._http = BoundedClient(url, limits=_LIMITS, headers={"Authorization": f"Bearer {token}"})
        root = self._http.http.base_url
        if root.scheme not in ("http", "https") or not root.host:
            raise BadInputError(f"{url!r} is no address.", remedy="Give http://HOST:PORT.")
        refuse_readable_secret(url, "The live scheduler's address", secret=True)
        self.url = url

    def __enter__(self) -> "ServiceCaller":
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def status(self) -> schema.Status:
        """How the live scheduler is."""
        return self._ask("GET", "/v1/status", schema.Status)

    def queue(self, pool: str | None = None) -> schema.QueueAnswer:
        """The queues, or one, in their order."""
        return self._ask("GET", "/v1/queue", schema.QueueAnswer, params={"pool": pool} if pool else None)

    def explain(self, job_id: str) -> schema.Explanation:
        """Why a job stands where it stands."""
        return self._ask("GET", f"/v1/jobs/{quote(job_id)}/explain", schema.Explanation)

    def when(self, job_id: str) -> schema.Expectation:
        """When a job is expected to start and to end."""
        return self._ask("GET", f"/v1/jobs/{quote(job_id)}/when", schema.Expectation)

    def decide(self, state: schema.ClusterState) -> schema.Decision:
        """The order of a cluster by the present release."""
        return self._ask("POST", "/v1/decide", schema.Decision, content=state.model_dump_json())

    def ask_part(self, path: str, query: schema.Message, kind: type[M]) -> M:
        """What a part answers to a question of its own (`live_scheduler.capability.Route`)."""
        return self._ask("POST", path, kind, content=query.model_dump_json())

    def _ask(self, method: str, path: str, kind: type[M], **request: Any) -> M:
        try:
            answer = self._http.request(method, path, headers={"Content-Type": "application/json"}, **request)
        except ServiceUnavailableError as error:
            raise ServiceUnavailableError(
                f"The live scheduler at {self.url} does not answer: {error}",
                remedy="Look at its log; to another machine, ask through an ssh tunnel.",
            ) from None
        if answer.status_code != 200:
            raise _error_of(answer)
        try:
            return kind.model_validate_json(answer.content)
        except ValidationError:
            raise ServiceUnavailableError(
                f"{self.url} does not answer as a live scheduler does.", remedy="Check the address."
            ) from None


def _error_of(answer: httpx.Response) -> LucidError:
    try:
        problem = schema.Problem.model_validate_json(answer.content)
    except ValidationError:
        return ServiceUnavailableError(
            f"{answer.request.url} answers with {answer.status_code}.", remedy="Check the address."
        )
    kinds: dict[int, type[LucidError]] = {
        401: BadInputError,
        404: NotFoundError,
        409: NotServedHereError,
        422: BadInputError,
        503: ServiceUnavailableError,
    }
    kind = kinds.get(problem.status, LucidError)
    return kind(problem.detail, remedy=problem.remedy or None)


def open_caller(
    live_dir: Path,
    *,
    cluster: str | None = None,
    folder: Path | None = None,
    url: str | None = None,
    token_file: Path | None = None,
) -> ServiceCaller:
    """Return the caller of a live scheduler: at `url`, or of a state folder, or of a cluster.

    `live_dir` holds a state folder for each cluster; without a name the only one with a daemon is meant.
    Raises ServiceUnavailableError when none runs, BadInputError when it is not clear which is meant.
    """
    if url is not None:
        if token_file is None:
            raise BadInputError(
                "The address comes without a token.",
                remedy=f"Give --token-file, a copy of the daemon's {TOKEN_FILE} (mode 0600).",
            )
        return ServiceCaller(url, read_token(token_file))
    folder = folder or _folder_of(live_dir, cluster)
    endpoint = read_endpoint(folder)
    if endpoint.http is None:
        raise ServiceUnavailableError(
            f"The daemon of {endpoint.cluster} does not serve HTTP.", remedy="Set http_port to 0 or a port."
        )
    return ServiceCaller(endpoint.http, read_token(token_file or folder / TOKEN_FILE))


def _folder_of(live_dir: Path, cluster: str | None) -> Path:
    if cluster is not None:
        return live_dir / cluster
    folders = sorted(path.parent for path in live_dir.glob(f"*/{ENDPOINT_FILE}"))
    if len(folders) == 1:
        return folders[0]
    if not folders:
        raise ServiceUnavailableError(
            f"No daemon runs with a state in {live_dir}.",
            remedy="Start it: lucid live slurm (or, for a scheduler that is not Slurm, lucid live serve); or "
            "say where its state is (--state, LUCID_STATE_DIR).",
        )
    names = ", ".join(path.name for path in folders)
    raise BadInputError(f"There are several clusters: {names}.", remedy="Choose one with --cluster.")
