"""An agent believes only the welcome that answers its own hello, over a real connection."""

import asyncio
from collections.abc import Callable

from websockets.asyncio.server import ServerConnection, serve

from rota.core.facts.node import NodeSpec
from rota.rpc.messages import (
    PROTOCOL,
    ControllerMessage,
    Desired,
    Hello,
    SessionRefused,
    Welcome,
    decode_from_agent,
    encode,
)
from rota.session import wire

HELLO = Hello(PROTOCOL, NodeSpec("box", 1000, 100), "i1", "b1", "0")
SET = Desired(1, 1, (), (), True)


async def heard_from(answers: Callable[[Hello], Welcome]) -> tuple[list[ControllerMessage], str]:
    """What an agent hears of a controller that says this, and why the connection ended."""
    heard: list[ControllerMessage] = []
    both = asyncio.Event()

    def on_message(message: ControllerMessage) -> None:
        heard.append(message)
        if len(heard) == 2:
            both.set()

    async def controller(link: ServerConnection) -> None:
        hello = decode_from_agent(await link.recv())
        assert isinstance(hello, Hello)
        await link.send(encode(answers(hello)))
        await link.send(encode(SET))
        await link.wait_closed()

    async with serve(controller, "127.0.0.1", 0) as server, asyncio.timeout(60):
        port = server.sockets[0].getsockname()[1]
        link = await wire.dial(f"http://127.0.0.1:{port}", "", on_message)
        link.send(HELLO)
        heard_both = asyncio.create_task(both.wait())
        await asyncio.wait({link.closed, heard_both}, return_when=asyncio.FIRST_COMPLETED)
        heard_both.cancel()
        link.close("over")
        return heard, await link.closed


def test_a_welcome_that_answers_is_heard_and_what_follows():
    heard, _ = asyncio.run(heard_from(lambda hello: Welcome(1, "c", answers=hello.greeting)))

    assert [type(message) for message in heard] == [Welcome, Desired]


def test_a_controller_from_before_there_were_such_numbers_is_heard():
    heard, _ = asyncio.run(heard_from(lambda _: Welcome(1, "c")))

    assert [type(message) for message in heard] == [Welcome, Desired]


def test_after_a_welcome_to_another_agent_nothing_is_heard_and_the_connection_ends():
    heard, _ = asyncio.run(heard_from(lambda _: Welcome(1, "c", answers=17)))

    assert heard == []


def test_a_welcome_in_another_protocol_is_a_refusal_that_names_both():
    heard, _ = asyncio.run(heard_from(lambda _: Welcome(1, "c", protocol=PROTOCOL + 1)))

    assert isinstance(heard[0], SessionRefused)
    assert f"protocol {PROTOCOL}, the controller {PROTOCOL + 1}" in heard[0].reason


def test_each_hello_has_a_number_of_its_own():
    seen: list[int] = []

    def note(hello: Hello) -> Welcome:
        seen.append(hello.greeting)
        return Welcome(1, "c", answers=hello.greeting)

    for _ in range(3):
        asyncio.run(heard_from(note))

    assert len(set(seen) - {0}) == 3
