"""The gRPC door: the same identity, the same rights and the same errors as the front door.

A call that is not in ``CALLS`` does not exist, and one whose right the caller's role lacks is
refused. It is a port of its own beside REST, open only where ``server.grpc_port`` is set.
"""

from __future__ import annotations

import logging
import resource
from collections import Counter
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import unquote

import grpc

from rota.api.auth import Unauthenticated, identify, require
from rota.api.door.front import SUBMIT_MAX
from rota.api.door.places import AGAIN_S
from rota.api.errors import problem_of
from rota.api.gate import counted_as
from rota.api.grpc import calls, endpoints, reading
from rota.api.rounds import InRounds
from rota.core.facts.errors import Busy, Rejected
from rota.core.facts.tenant import Access, Actor
from rota.rpc import cluster_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from rota.api.context import Context

T = TypeVar("T")

log = logging.getLogger("rota.api")

SERVICE = pb.DESCRIPTOR.services_by_name["ClusterService"].full_name
#: How long calls that are being answered may take once we were told to stop.
GRACE_S = 2.0

_CODES = {
    "invalid": grpc.StatusCode.INVALID_ARGUMENT,
    "malformed": grpc.StatusCode.INVALID_ARGUMENT,
    "unauthenticated": grpc.StatusCode.UNAUTHENTICATED,
    "forbidden": grpc.StatusCode.PERMISSION_DENIED,
    "not_found": grpc.StatusCode.NOT_FOUND,
    "conflict": grpc.StatusCode.FAILED_PRECONDITION,
    "too_large": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "busy": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "unavailable": grpc.StatusCode.UNAVAILABLE,
}

_OPTIONS = (
    # Two controllers on one port would share its callers between them.
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", SUBMIT_MAX),
    # A caller that vanished without a word is noticed after this time.
    ("grpc.keepalive_time_ms", 60_000),
)
#: Stands for a caller that asks for nothing that needs a name.
_ANYBODY = Actor("", Access.VIEWER, "grpc")


class Answering(NamedTuple):
    """One call: what it is asked with, the right that it needs (empty: none), who answers."""

    request: Any
    right: str
    answer: Callable[[Any], Any]
    streams: bool = False


CALLS = {
    "LaunchJob": Answering(pb.LaunchJobRequest, "submit", calls.launch_job),
    "GetJobStatus": Answering(pb.GetJobStatusRequest, "read", calls.get_job_status),
    "ListJobs": Answering(pb.ListJobsRequest, "read", calls.list_jobs),
    "TerminateJob": Answering(pb.TerminateJobRequest, "change", calls.terminate_job),
    "FetchLogs": Answering(pb.FetchLogsRequest, "read", calls.fetch_logs, streams=True),
    "WatchEvents": Answering(pb.WatchEventsRequest, "read", calls.watch_events, streams=True),
    "ListWorkers": Answering(pb.ListWorkersRequest, "read", calls.list_workers),
    "RegisterEndpoint": Answering(pb.RegisterEndpointRequest, "change", endpoints.register),
    "UnregisterEndpoint": Answering(pb.UnregisterEndpointRequest, "change", endpoints.unregister),
    "LookupEndpoint": Answering(pb.LookupEndpointRequest, "read", endpoints.lookup),
    "ListEndpoints": Answering(pb.ListEndpointsRequest, "read", endpoints.list_all),
    "HealthCheck": Answering(pb.HealthCheckRequest, "", calls.health_check),
}


class GrpcServer:
    """Serves the calls on one TCP port, which is taken when this is made.

    ``secret`` is the key and the certificate of REST; without them nothing is encrypted.
    """

    def __init__(
        self,
        context: Context,
        host: str,
        port: int,
        secret: tuple[bytes, bytes] | None = None,
        connections: int = 0,
    ) -> None:
        """The most ``connections`` that it takes; 0: a quarter of all descriptors."""
        self._context = context
        #: Streams that are open, by user.
        self._streams: Counter[str] = Counter()
        most = connections or resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4
        bound = ("grpc.max_allowed_incoming_connections", most)
        self._server = grpc.aio.server(options=(*_OPTIONS, bound))
        doors = {name: self._door(call) for name, call in CALLS.items()}
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(SERVICE, doors),)
        )
        place = f"[{host}]" if ":" in host else host
        try:
            taken = self._listen(f"{place}:{port}", secret)
        except RuntimeError:
            raise Rejected(
                f"server.grpc_port: cannot listen on {place}:{port}; choose another with --grpc",
                field="server.grpc_port",
                value=port,
            ) from None
        self.address = f"{place}:{taken}"

    def _listen(self, address: str, secret: tuple[bytes, bytes] | None) -> int:
        if secret is None:
            return self._server.add_insecure_port(address)
        return self._server.add_secure_port(address, grpc.ssl_server_credentials([secret]))

    async def start(self) -> None:
        await self._server.start()
        log.info("gRPC at %s", self.address)

    async def stop(self) -> None:
        """Take nothing more, let what is being answered finish, cut off what does not."""
        await self._server.stop(GRACE_S)

    def _door(self, call: Answering) -> grpc.RpcMethodHandler[bytes, bytes]:
        async def one(body: bytes, rpc: Any) -> bytes:  # noqa: ANN401 - grpc's context
            try:
                asked = self._asked(call, body, rpc)
                return await self._in_rounds(asked, _answer(call, asked))
            except Exception as error:
                await _refuse(rpc, error)
                raise

        async def many(body: bytes, rpc: Any) -> None:  # noqa: ANN401 - grpc's context
            try:
                asked = self._asked(call, body, rpc)
                with self._streaming(asked.actor):
                    await self._in_rounds(asked, _stream(call, asked, rpc))
            except Exception as error:
                await _refuse(rpc, error)

        # The bytes come as they are: what cannot be read is refused in our words.
        if call.streams:
            return grpc.unary_stream_rpc_method_handler(many)
        return grpc.unary_unary_rpc_method_handler(one)

    @contextmanager
    def _streaming(self, actor: Actor) -> Iterator[None]:
        """A stream is open as long as a connection of REST: as many of them fit into one here."""
        user, most = counted_as(actor), self._context.settings.limits.connections
        if user and most and self._streams[user] >= most:
            raise Busy(
                f"streams: {user} has too many; allowed are {most} at one time "
                "(limits.connections)",
                AGAIN_S,
            )
        self._streams[user] += 1
        try:
            yield
        finally:
            self._streams[user] -= 1
            if not self._streams[user]:
                del self._streams[user]

    def _in_rounds(self, asked: calls.GrpcCall[Any], work: Coroutine[Any, Any, T]) -> InRounds[T]:
        return InRounds(self._context.rounds, work, counted_as(asked.actor))

    def _asked(self, call: Answering, body: bytes, rpc: Any) -> calls.GrpcCall[Any]:  # noqa: ANN401
        actor = _ANYBODY
        if call.right:
            actor = self._actor(rpc)
            require(actor, call.right)
        begun: list[bool] = []

        async def begin() -> None:
            if not begun:
                begun.append(True)
                await rpc.send_initial_metadata(())

        return calls.GrpcCall(self._context, actor, reading.read(call.request, body), begin)

    def _actor(self, rpc: Any) -> Actor:  # noqa: ANN401 - grpc's context
        shown = dict(rpc.invocation_metadata() or ()).get("authorization")
        host = self._context.host
        actor = identify(
            self._context.identities,
            host,
            _address(rpc.peer()),
            None if shown is None else shown.encode(),
        )
        if actor is None:
            raise Unauthenticated("a token is needed in the metadata: authorization: Bearer TOKEN")
        self._context.gate.request(counted_as(actor))
        return actor


async def _answer(call: Answering, asked: calls.GrpcCall[Any]) -> bytes:
    message = await call.answer(asked)
    body: bytes = message.SerializeToString()
    return body


async def _stream(call: Answering, asked: calls.GrpcCall[Any], rpc: Any) -> None:  # noqa: ANN401
    async with aclosing(call.answer(asked)) as messages:
        async for message in messages:
            await rpc.write(message.SerializeToString())


def _address(peer: str) -> tuple[str, int] | None:
    """Of ``ipv4:10.0.0.7:4711`` or ``ipv6:%5B::1%5D:4711``."""
    kind, _, rest = peer.partition(":")
    host = unquote(rest).rpartition(":")[0].strip("[]")
    return (host, 0) if kind in ("ipv4", "ipv6") and host else None


async def _refuse(rpc: Any, error: Exception) -> None:  # noqa: ANN401 - grpc's context
    """End the call with the code and the one line that REST would give."""
    problem, headers = problem_of(error)
    more = [("rota-code", problem.code)]
    if problem.field.isascii() and problem.field.isprintable():
        more.append(("rota-field", problem.field))
    more += [("retry-after", value.decode()) for name, value in headers if name == b"retry-after"]
    code = _CODES.get(problem.code, grpc.StatusCode.INTERNAL)
    await rpc.abort(code, problem.detail, tuple(more))
