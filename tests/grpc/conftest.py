"""The server of the API's tests with its gRPC door open, and typed clients of it."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rota.api.grpc.server import GrpcServer
from tests.api.conftest import agent, caller, make_agent, server, session_server, socket_folder
from tests.api.running import WAIT_S, Caller, Running
from tests.grpc.typed import Typed

__all__ = ["agent", "caller", "make_agent", "server", "session_server", "socket_folder"]


def in_loop(running: Running, work: Any) -> Any:
    return asyncio.run_coroutine_threadsafe(work, running.loop).result(WAIT_S)


def open_door(running: Running) -> GrpcServer:
    """On any free port of a server that runs."""

    async def start() -> GrpcServer:
        door = GrpcServer(running.context, "127.0.0.1", 0)
        await door.start()
        return door

    door: GrpcServer = in_loop(running, start())
    return door


@pytest.fixture(scope="session")
def door(session_server: Running) -> Iterator[GrpcServer]:
    opened = open_door(session_server)
    yield opened
    in_loop(session_server, opened.stop())


@pytest.fixture
def as_user(server: Running, caller: Caller, door: GrpcServer) -> Iterator[Callable[..., Typed]]:
    """A client with a fresh token of somebody."""
    made: list[Typed] = []

    def make(user: str, access: str = "user") -> Typed:
        answer = caller.post("/tokens", {"user": user, "access": access})
        made.append(Typed(door.address, answer.json["token"]))
        return made[-1]

    yield make
    for client in made:
        client.close()


@pytest.fixture
def ann(as_user: Callable[..., Typed]) -> Typed:
    return as_user("ann")


@pytest.fixture
def nobody(door: GrpcServer) -> Iterator[Typed]:
    """Without any token."""
    client = Typed(door.address)
    yield client
    client.close()
