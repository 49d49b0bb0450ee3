"""The decision service over HTTP: JSON of the schema, Prometheus metrics, and errors as problem documents.

Answers this machine only: who reaches it under another name than loopback's is refused, so that no web page
can make a browser ask in its place. Everything but `/healthz` needs the token. A connection without it costs
next to nothing: it is answered before its body is read, and closed.
"""

import asyncio
import hmac
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response, Security
from fastapi.exceptions import RequestValidationError
from fastapi.responses import PlainTextResponse
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from foundation import strict_json
from foundation.errors import LucidError
from foundation.security_headers import FOR_PROGRAMS, SecurityHeaders
from live_scheduler.capability import Route, capabilities
from live_scheduler.service import schema
from live_scheduler.service.metrics import CONTENT_TYPE, ServiceMetrics
from live_scheduler.service.operations import Operations
from live_scheduler.service.problems import (
    MEDIA_TYPE,
    RefusedRequestError,
    invalid_message,
    problem_of,
)

MAX_BODY_BYTES = 64 * 1024 * 1024
BODY_WITHIN_S = 30.0
_MOST_REQUESTS = 100  # with the token, at once; beyond them 503
_MOST_BODIES = 4  # so many of the largest are held at once
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
_HEALTH = "/healthz"
_PROBLEMS: dict[int | str, dict[str, Any]] = {
    "default": {
        "description": schema.Problem.__doc__,
        "content": {MEDIA_TYPE: {"schema": schema.Problem.model_json_schema()}},
    }
}
_log = logging.getLogger(__name__)


def web_app(operations: Operations, metrics: ServiceMetrics, token: str) -> ASGIApp:
    """Return the service as an ASGI application."""
    app = FastAPI(
        title="Lucid, live",
        version=schema.VERSION,
        description=schema.__doc__ or "",
        docs_url=None,
        redoc_url=None,
        openapi_url="/v1/openapi.json",
        strict_content_type=False,  # a caller with the token may leave it out
    )
    app.add_exception_handler(LucidError, _lucid_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _lucid_error)

    # The gate looks at the token: here it is described alone.
    answers = APIRouter(
        route_class=_StrictRoute, responses=_PROBLEMS, dependencies=[Security(HTTPBearer(auto_error=False))]
    )

    @answers.get("/v1/status", response_model=schema.Status)
    def status() -> Response:
        """How the live scheduler is."""
        return _json(operations.status())

    @answers.get("/v1/queue", response_model=schema.QueueAnswer)
    def queue(pool: str | None = None) -> Response:
        """The queues, or the one named `pool`, in the order of the last decision."""
        return _json(operations.queue(schema.QueueQuery(pool=pool or None)))

    @answers.get("/v1/jobs/{job_id:path}/explain", response_model=schema.Explanation)
    def explain(job_id: str) -> Response:
        """Why a job stands where it stands."""
        return _json(operations.explain(schema.JobQuery(job_id=job_id)))

    @answers.get("/v1/jobs/{job_id:path}/when", response_model=schema.Expectation)
    def when(job_id: str) -> Response:
        """When a job is expected to start and to end."""
        return _json(operations.when(schema.JobQuery(job_id=job_id)))

    @answers.post("/v1/decide", response_model=schema.Decision)
    def decide(state: schema.ClusterState) -> Response:
        """Order a cluster by the present release, and remember nothing."""
        return _json(operations.decide(state))

    @answers.post("/v1/schedule", response_model=schema.Decision)
    def schedule(state: schema.ClusterState) -> Response:
        """Take a cluster in as it is now, and decide: the control path of a scheduler that is not Slurm."""
        return _json(operations.schedule(state))

    @answers.post("/v1/ends", response_model=schema.EndsTaken)
    def ends(ended: schema.EndedJobs) -> Response:
        """Learn from jobs that ended."""
        return _json(operations.report_ends(ended))

    for part in capabilities().values():
        for route in part.routes():
            _add_route(answers, operations, route)

    @answers.get("/metrics", response_class=PlainTextResponse)
    def prometheus() -> Response:
        """Prometheus' text format."""
        return Response(metrics.render(), media_type=CONTENT_TYPE)

    app.include_router(answers)

    @app.get(_HEALTH, response_class=PlainTextResponse, responses=_PROBLEMS)
    def health() -> Response:
        """Whether the live scheduler is well; needs no token, and names no job."""
        return health_of(operations)

    gate = _Gate(app, token, lambda: health_of(operations))
    return SecurityHeaders(gate, FOR_PROGRAMS)


def _add_route(answers: APIRouter, operations: Operations, route: Route) -> None:
    def answer(query: Any) -> Response:
        return _json(operations.ask_part(route, query))

    answer.__name__, answer.__doc__ = route.name, route.text
    answer.__annotations__ = {"query": route.query, "return": Response}
    answers.post(route.path, response_model=route.answer)(answer)


def health_of(operations: Operations) -> Response:
    """Return whether the live scheduler is well."""
    try:
        trouble = operations.trouble()
    except Exception as error:
        trouble = f"{type(error).__name__}: {error}"
    if trouble is None:
        return Response("ok\n", media_type="text/plain")
    remedy = "See `lucid live status` and the daemon's log."
    return _problem(problem_of(RefusedRequestError(503, "Not well", trouble, remedy=remedy), _HEALTH))


def _json(message: schema.Message) -> Response:
    return Response(message.model_dump_json(), media_type="application/json")


def _problem(problem: schema.Problem) -> Response:
    headers = {"WWW-Authenticate": 'Bearer realm="lucid"'} if problem.status == 401 else None
    return Response(problem.model_dump_json(), problem.status, headers, MEDIA_TYPE)


def _lucid_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, LucidError):
        _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return _problem(problem_of(error, request.url.path))


def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101  (registered for it)
    return _problem(problem_of(invalid_message(error.errors()), request.url.path))


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101  (registered for it)
    remedy = "The paths are listed in /v1/openapi.json."
    refused = RefusedRequestError(
        error.status_code, str(error.detail), f"{request.method} {request.url.path[:200]}", remedy=remedy
    )
    return _problem(problem_of(refused, request.url.path))


class _StrictRequest(Request):
    """A request whose JSON is read strictly: what it raises is answered as a message that is invalid."""

    async def json(self) -> Any:
        """The body's document."""
        if not hasattr(self, "_json"):
            self._json = strict_json.loads(await self.body(), most_bytes=MAX_BODY_BYTES)
        return self._json


class _StrictRoute(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, given a strict request."""
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            return await handle(_StrictRequest(request.scope, request.receive))

        return answer


class _Gate:
    """Refuses a request before anything of it is read: its host, its token, its size; and answers for health.

    Health has a thread of its own, so that neither a flood nor requests that wait for models keep it waiting.
    """

    def __init__(self, app: ASGIApp, token: str, health: Callable[[], Response]) -> None:
        self._app, self._token = app, f"Bearer {token}".encode()
        self._health, self._health_thread = health, ThreadPoolExecutor(1, "lucid-health")
        self._requests, self._held_bytes = 0, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            self._check(scope["path"], scope["headers"])
        except RefusedRequestError as error:
            await _last(_problem(problem_of(error, scope["path"])))(scope, receive, send)
            return
        if scope["path"] == _HEALTH and scope["method"] in ("GET", "HEAD"):
            loop = asyncio.get_running_loop()
            answer = await loop.run_in_executor(self._health_thread, self._health)
            await _last(answer)(scope, receive, send)
            return
        held: list[bytes] = []
        self._requests += 1
        try:
            body = await self._body(scope["headers"], receive, held)
            if body is not None:
                await self._app(scope, _replay(body, receive), send)
        except RefusedRequestError as error:
            await _last(_problem(problem_of(error, scope["path"])))(scope, receive, send)
        finally:
            self._requests -= 1
            self._held_bytes -= sum(map(len, held))

    def _check(self, path: str, headers: Sequence[tuple[bytes, bytes]]) -> None:
        host = _header(headers, b"host").decode("latin-1")
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        if name.lower() not in _LOOPBACK:
            raise RefusedRequestError(
                421,
                "Another host",
                f"The request is for the host {host[:100]!r}.",
                remedy="Ask 127.0.0.1 on the machine of the daemon, or through an ssh tunnel to it.",
            )
        if path == _HEALTH:
            return
        given = [value for name_, value in headers if name_ == b"authorization"]
        if len(given) != 1 or not hmac.compare_digest(given[0], self._token):
            raise RefusedRequestError(
                401,
                "No token" if not given else "Wrong token",
                "The request carries no token."
                if not given
                else "The request's token is not this service's.",
                remedy="Send `Authorization: Bearer TOKEN`, with the token of the daemon's state folder.",
            )

    async def _body(
        self, headers: Sequence[tuple[bytes, bytes]], receive: Receive, held: list[bytes]
    ) -> bytes | None:
        """Return the whole body, whose parts are in `held`; None when its sender has gone."""
        if self._requests > _MOST_REQUESTS:
            raise _busy(f"{_MOST_REQUESTS} requests are being answered.")
        length = _header(headers, b"content-length")
        if length.isdigit() and int(length) > MAX_BODY_BYTES:
            raise self._too_large()
        try:
            async with asyncio.timeout(BODY_WITHIN_S):
                return await self._read(receive, held)
        except TimeoutError:
            raise RefusedRequestError(
                408,
                "Too slow",
                f"The request's body did not arrive within {BODY_WITHIN_S:g} s.",
                remedy="Send it at once.",
            ) from None

    async def _read(self, receive: Receive, held: list[bytes]) -> bytes | None:
        size = 0
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return None
            part: bytes = message.get("body", b"")
            size += len(part)
            held.append(part)
            self._held_bytes += len(part)
            if size > MAX_BODY_BYTES:
                raise self._too_large()
            if self._held_bytes > _MOST_BODIES * MAX_BODY_BYTES:
                raise _busy(f"Requests of {self._held_bytes:,} bytes are being answered.")
            if not message.get("more_body"):
                return b"".join(held)

    def _too_large(self) -> RefusedRequestError:
        return RefusedRequestError(
            413,
            "Too large",
            f"The request carries more than {MAX_BODY_BYTES:,} bytes.",
            remedy="Push the jobs that wait and run now, and no others.",
        )


def _busy(why: str) -> RefusedRequestError:
    return RefusedRequestError(503, "Busy", why, remedy="Ask again in a moment, fewer at once.")


def _last(answer: Response) -> Response:
    """The last answer on its connection: what else is sent there is not read."""
    answer.headers["Connection"] = "close"
    return answer


def _header(headers: Sequence[tuple[bytes, bytes]], name: bytes) -> bytes:
    return next((value for key, value in headers if key == name), b"")


def _replay(body: bytes, receive: Receive) -> Callable[[], Awaitable[Message]]:
    first = True

    async def again() -> Message:
        nonlocal first
        if first:
            first = False
            message: dict[str, Any] = {"type": "http.request", "body": body, "more_body": False}
            return message
        return await receive()

    return again
