"""Whom a welcome is for: an agent believes only the one that answers its own hello.

Each hello carries a number that no other has, and the welcome repeats it. What comes later names
the session of that welcome. On one connection of a sound network nothing else can arrive. But what
stands in between may mix connections up, and an agent that takes the session of another node for
its own starts the work of that node a second time. A controller from before there were such
numbers repeats none, and is believed as before: heads are upgraded one after the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rota.rpc.messages import PROTOCOL, SessionRefused, Welcome

if TYPE_CHECKING:
    from rota.rpc.messages import ControllerMessage, Hello


class Greeting:
    """The hello of one connection, and the welcome that answers it."""

    def __init__(self, number: int) -> None:
        self._number = number

    def on(self, hello: Hello) -> Hello:
        """The hello as it is sent."""
        return msgspec.structs.replace(hello, greeting=self._number)

    def objection(self, message: ControllerMessage) -> str:
        """Why this is not said to us, in one line; empty: it is."""
        if isinstance(message, Welcome) and message.answers not in (0, self._number):
            return "a welcome that answers another hello"
        return ""


def understood(message: ControllerMessage) -> ControllerMessage:
    """A welcome in another protocol may mean other things by the same words: it is a refusal."""
    if isinstance(message, Welcome) and message.protocol not in (0, PROTOCOL):
        return SessionRefused(
            f"this agent speaks protocol {PROTOCOL}, the controller {message.protocol}: "
            "install the same version of rota on both"
        )
    return message
