"""The decision service over gRPC, for schedulers that are not Slurm: the same operations as over HTTP."""

import hmac
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import BoundedSemaphore, Timer
from typing import Any, NoReturn, TypeVar

import grpc

from foundation.errors import BadInputError
from live_scheduler.service import scheduler_pb2, schema
from live_scheduler.service.operations import Operations
from live_scheduler.service.problems import problem_of
from live_scheduler.service.protobuf_messages import from_protobuf, protobuf_class, to_protobuf
from live_scheduler.service.web import MAX_BODY_BYTES

_log = logging.getLogger(__name__)
_HOST = "127.0.0.1"
_CALLS_AT_ONCE = 32
_STREAMS_AT_ONCE = 16
_MOST_CONNECTIONS = 256
CALL_WITHIN_S = 10.0
STREAM_SILENT_S = 300.0
_CODES = {
    404: grpc.StatusCode.NOT_FOUND,
    409: grpc.StatusCode.FAILED_PRECONDITION,
    422: grpc.StatusCode.INVALID_ARGUMENT,
    503: grpc.StatusCode.UNAVAILABLE,
}
SERVICE = scheduler_pb2.DESCRIPTOR.services_by_name["Scheduler"]
M = TypeVar("M", bound=schema.Message)
Operation = Callable[[M], schema.Message]


class RpcServer:
    """A gRPC server on loopback; the metadata `authorization` must carry `Bearer TOKEN`."""

    def __init__(self, operations: Operations, token: str, port: int) -> None:
        """Take the port (0: any free one); raises BadInputError when it is taken."""
        self._server = grpc.server(
            ThreadPoolExecutor(_CALLS_AT_ONCE + _STREAMS_AT_ONCE, thread_name_prefix="lucid-grpc"),
            interceptors=[_TokenGate(token)],
            maximum_concurrent_rpcs=10 * _CALLS_AT_ONCE,
            options=[
                ("grpc.so_reuseport", 0),  # a second daemon on the same port is a mistake
                ("grpc.max_allowed_incoming_connections", _MOST_CONNECTIONS),
                ("grpc.server_handshake_timeout_ms", 5_000),
                ("grpc.max_connection_idle_ms", 30_000),  # without a call; a client connects anew by itself
                ("grpc.max_receive_message_length", MAX_BODY_BYTES),
                ("grpc.max_send_message_length", -1),
            ],
        )
        self._server.add_generic_rpc_handlers((_calls(operations),))
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


def _calls(operations: Operations) -> grpc.GenericRpcHandler:
    """Serve the calls of scheduler.proto, which its descriptor lists: nothing is generated for them."""
    operation_of: dict[str, Operation[Any]] = {
        "Schedule": operations.schedule,
        "ScheduleStream": operations.schedule,
        "ReportEnds": operations.report_ends,
        "Decide": operations.decide,
        "GetStatus": operations.status,
        "GetQueue": operations.queue,
        "Explain": operations.explain,
        "When": operations.when,
        "PlanLoans": operations.plan_loans,
    }
    handlers = {call.name: _handler(call, operation_of[call.name]) for call in SERVICE.methods}
    return grpc.method_handlers_generic_handler(SERVICE.full_name, handlers)


def _handler(call: Any, operation: Operation[Any]) -> grpc.RpcMethodHandler:
    kind: type[schema.Message] = getattr(schema, call.input_type.name)
    read = protobuf_class(call.input_type.name).FromString
    write = protobuf_class(call.output_type.name).SerializeToString

    def answer(request: Any, context: Any) -> Any:
        return _answer(operation, request, kind, context)

    def answer_each(requests: Any, context: Any) -> Iterator[Any]:
        return (answer(request, context) for request in requests)

    if call.client_streaming:
        return grpc.stream_stream_rpc_method_handler(answer_each, read, write)
    return grpc.unary_unary_rpc_method_handler(answer, read, write)


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
    """Refuses calls without the token before anything is read of them, and ends calls that stay silent.

    gRPC's server keeps a thread waiting for the message of a call, however long. So every call is taken as a
    stream: one without the token is refused without its message, another has `CALL_WITHIN_S` for it. A
    stream may be silent for longer, and there are threads for more calls than there are streams.
    """

    def __init__(self, token: str) -> None:
        self._token = f"Bearer {token}".encode()
        self._streams = BoundedSemaphore(_STREAMS_AT_ONCE)

    def intercept_service(self, continuation: Any, details: Any) -> Any:
        given = [str(value).encode() for key, value in details.invocation_metadata if key == "authorization"]
        handler = continuation(details)
        if handler is None:
            return None
        if len(given) == 1 and hmac.compare_digest(given[0], self._token):
            serve = self._stream_of(handler) if handler.request_streaming else _single_of(handler)
            return grpc.stream_stream_rpc_method_handler(
                serve, handler.request_deserializer, handler.response_serializer
            )
        why = "The call carries no token." if not given else "The call's token is another's."

        def refuse(_: Any, context: Any) -> NoReturn:
            context.abort(
                grpc.StatusCode.UNAUTHENTICATED,
                f"{why} Send the metadata `authorization: Bearer TOKEN`, with the token of the daemon's state"
                " folder.",
            )
            raise AssertionError("abort returned")  # it raises

        return grpc.stream_stream_rpc_method_handler(refuse)

    def _stream_of(self, handler: Any) -> Callable[[Any, Any], Iterator[Any]]:
        def serve(requests: Any, context: Any) -> Iterator[Any]:
            if not self._streams.acquire(blocking=False):
                context.abort(
                    grpc.StatusCode.RESOURCE_EXHAUSTED,
                    f"{_STREAMS_AT_ONCE} streams are open. End one, or use single calls.",
                )
            try:
                yield from handler.stream_stream(_heard(requests, context, STREAM_SILENT_S), context)
            finally:
                self._streams.release()

        return serve


def _single_of(handler: Any) -> Callable[[Any, Any], Iterator[Any]]:
    def serve(requests: Any, context: Any) -> Iterator[Any]:
        for request in _heard(requests, context, CALL_WITHIN_S):
            yield handler.unary_unary(request, context)
            return

    return serve


def _heard(requests: Any, context: Any, within_s: float) -> Iterator[Any]:
    """Yield the messages of a call; cancels it when none comes for so long."""
    while True:
        silence = Timer(within_s, context.cancel)
        silence.daemon = True
        silence.start()
        try:
            request = next(requests)
        except StopIteration:
            return
        finally:
            silence.cancel()
        yield request
