"""The decision service over gRPC, for schedulers that are not Slurm: the same operations as over HTTP."""

import hmac
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn, TypeVar

import grpc

from cluster_logs.errors import BadInputError
from live_scheduler.service import scheduler_pb2_grpc, schema
from live_scheduler.service.operations import Operations
from live_scheduler.service.problems import problem_of
from live_scheduler.service.protobuf_messages import from_protobuf, to_protobuf
from live_scheduler.service.web import MAX_BODY_BYTES

_log = logging.getLogger(__name__)
_HOST = "127.0.0.1"
_CALLS_AT_ONCE = 8
_CODES = {
    404: grpc.StatusCode.NOT_FOUND,
    409: grpc.StatusCode.FAILED_PRECONDITION,
    422: grpc.StatusCode.INVALID_ARGUMENT,
    503: grpc.StatusCode.UNAVAILABLE,
}
M = TypeVar("M", bound=schema.Message)
Operation = Callable[[M], schema.Message]


class RpcServer:
    """A gRPC server on loopback; the metadata `authorization` must carry `Bearer TOKEN`."""

    def __init__(
        self, operations: Operations, token: str, port: int, *, max_message_bytes: int = MAX_BODY_BYTES
    ) -> None:
        """Take the port (0: any free one); raises BadInputError when it is taken."""
        self._server = grpc.server(
            ThreadPoolExecutor(_CALLS_AT_ONCE, thread_name_prefix="lucid-grpc"),
            interceptors=[_TokenGate(token)],
            maximum_concurrent_rpcs=10 * _CALLS_AT_ONCE,
            options=[
                ("grpc.so_reuseport", 0),  # a second daemon on the same port is a mistake
                ("grpc.max_receive_message_length", max_message_bytes),
                ("grpc.max_send_message_length", -1),
            ],
        )
        register: Any = scheduler_pb2_grpc.add_SchedulerServicer_to_server
        register(_Servicer(operations), self._server)
        try:
            self.port: int = self._server.add_insecure_port(f"{_HOST}:{port}")
        except RuntimeError:
            raise BadInputError(
                f"Port {port} of {_HOST} cannot be used for gRPC.",
                remedy="Choose another, or 0 for any free one.",
            ) from None
        self.address = f"{_HOST}:{self.port}"

    def start(self) -> None:
        """Begin to answer."""
        self._server.start()

    def stop(self) -> None:
        """Answer what is under way for a few seconds, and end."""
        self._server.stop(grace=2.0).wait(timeout=10.0)


class _Servicer(scheduler_pb2_grpc.SchedulerServicer):
    """One method a call of scheduler.proto."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    def Schedule(self, request: Any, context: Any) -> Any:  # noqa: N802
        return _answer(self._operations.schedule, request, schema.ClusterState, context)

    def ScheduleStream(self, requests: Any, context: Any) -> Iterator[Any]:  # noqa: N802
        for request in requests:
            yield _answer(self._operations.schedule, request, schema.ClusterState, context)

    def ReportEnds(self, request: Any, context: Any) -> Any:  # noqa: N802
        return _answer(self._operations.report_ends, request, schema.EndedJobs, context)

    def Decide(self, request: Any, context: Any) -> Any:  # noqa: N802
        return _answer(self._operations.decide, request, schema.ClusterState, context)

    def GetStatus(self, request: Any, context: Any) -> Any:  # noqa: N802
        return _answer(self._operations.status, request, schema.StatusQuery, context)

    def GetQueue(self, request: Any, context: Any) -> Any:  # noqa: N802
        return _answer(self._operations.queue, request, schema.QueueQuery, context)

    def Explain(self, request: Any, context: Any) -> Any:  # noqa: N802
        return _answer(self._operations.explain, request, schema.JobQuery, context)

    def When(self, request: Any, context: Any) -> Any:  # noqa: N802
        return _answer(self._operations.when, request, schema.JobQuery, context)


def _answer(operation: Operation[M], request: Any, kind: type[M], context: Any) -> Any:
    try:
        return to_protobuf(operation(from_protobuf(request, kind)))
    except Exception as error:
        _refuse(context, error)


def _refuse(context: Any, error: Exception) -> NoReturn:
    problem = problem_of(error)
    code = _CODES.get(problem.status, grpc.StatusCode.INTERNAL)
    if problem.status == 500:
        _log.error("A call failed", exc_info=error)
    context.abort(code, f"{problem.detail} {problem.remedy}".strip())
    raise AssertionError("abort returned")  # it raises


class _TokenGate(grpc.ServerInterceptor):  # type: ignore[misc]
    """Refuses calls without the token."""

    def __init__(self, token: str) -> None:
        self._token = f"Bearer {token}".encode()

    def intercept_service(self, continuation: Any, details: Any) -> Any:
        given = [str(value).encode() for key, value in details.invocation_metadata if key == "authorization"]
        if len(given) == 1 and hmac.compare_digest(given[0], self._token):
            return continuation(details)
        why = "The call carries no token." if not given else "The call's token is another's."

        def refuse(_: Any, context: Any) -> NoReturn:
            context.abort(
                grpc.StatusCode.UNAUTHENTICATED,
                f"{why} Send the metadata `authorization: Bearer TOKEN`, with the token of the daemon's state"
                " folder.",
            )
            raise AssertionError("abort returned")  # it raises

        found = continuation(details)
        if found is None:
            return None
        if found.request_streaming:
            return grpc.stream_stream_rpc_method_handler(refuse)
        return grpc.unary_unary_rpc_method_handler(refuse)
