"""Calls that make no sense: each is refused, and none is remembered."""

import contextlib
import random
import socket
from pathlib import Path

import grpc
import pytest

from rota.api.grpc.server import GrpcServer
from rota.rpc import cluster_pb2 as pb
from tests.api.running import Running
from tests.grpc.conftest import in_loop
from tests.grpc.typed import WAIT_S

CALLS, WARM = 1500, 500
#: Of each call this much may stay: a leak of what it carried would be far more.
KEPT_BYTES, JUNK_BYTES = 4096, 20_000


def resident_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def call(channel: grpc.Channel, chance: random.Random) -> grpc.StatusCode:
    """Any method, real or not, with bytes that mean nothing and words in front of them."""
    service = pb.DESCRIPTOR.services_by_name["ClusterService"]
    name = chance.choice([*(one.name for one in service.methods), f"No{chance.random()}"])
    method = channel.unary_unary(f"/{service.full_name}/{name}")
    words = [("authorization", f"Bearer {chance.random()}"), (f"x-{chance.random()}", "x" * 500)]
    try:
        method(chance.randbytes(JUNK_BYTES), timeout=WAIT_S, metadata=words)
    except grpc.RpcError as error:
        return error.code()
    return grpc.StatusCode.OK


@pytest.mark.slow
def test_what_makes_no_sense_is_refused_and_leaves_nothing_in_memory(door: GrpcServer):
    chance = random.Random(5)
    channel = grpc.insecure_channel(door.address)
    with channel:
        codes = {call(channel, chance) for _ in range(WARM)}
        before = resident_bytes()
        codes |= {call(channel, chance) for _ in range(CALLS)}
        grown = resident_bytes() - before

    assert grown < KEPT_BYTES * CALLS
    broken = {grpc.StatusCode.OK, grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN}
    assert not codes & broken


def test_connections_beyond_the_bound_are_closed_and_those_within_it_are_served(
    session_server: Running,
):
    """Each is an open file of the controller, which agents and other callers need, too."""

    async def start() -> GrpcServer:
        door = GrpcServer(session_server.context, "127.0.0.1", 0, connections=5)
        await door.start()
        return door

    narrow = in_loop(session_server, start())
    host, _, port = narrow.address.rpartition(":")
    with contextlib.ExitStack() as stack:
        address = (host, int(port))
        lines = [stack.enter_context(socket.create_connection(address, WAIT_S)) for _ in range(20)]

        # The server is the first to speak.
        served = sum(greets(line) for line in lines)

    in_loop(session_server, narrow.stop())
    assert served == 5


def greets(line: socket.socket) -> bool:
    with contextlib.suppress(ConnectionResetError):
        return bool(line.recv(1))
    return False
