"""Agents as the controller sees them: who is connected, and what each one was told.

A session lives as long as one connection. Both directions are numbered; a gap ends the session,
and the next one starts from complete sets, so a lost, repeated or late message changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.rpc.messages import Desired

if TYPE_CHECKING:
    from rota.rpc.messages import Hello, Observed, Wanted


class Session:
    """One connection of one agent."""

    __slots__ = ("_next_in", "_next_out", "id", "incarnation", "lease_s", "link", "local",
                 "node", "pid")  # fmt: skip

    def __init__(self, link: int, session_id: int, hello: Hello, *, local: bool) -> None:
        self.link = link
        self.id = session_id
        self.node = hello.node.name
        self.incarnation = hello.incarnation
        self.pid = hello.pid
        #: On our own machine: its jobs reach us by a socket on which the kernel knows them.
        self.local = local
        #: The lease that its agent is told in the welcome.
        self.lease_s = 0.0
        self._next_in = 1
        self._next_out = 1

    def accepts(self, message: Observed) -> bool:
        """Whether this is the next message of this very session."""
        if message.session != self.id or message.number != self._next_in:
            return False
        self._next_in += 1
        return True

    def desired(
        self, attempts: list[Wanted], gone: list[str] | None = None, *, full: bool = False
    ) -> Desired:
        number = self._next_out
        self._next_out += 1
        return Desired(self.id, number, tuple(attempts), tuple(gone or ()), full)


class Sessions:
    """The agents that are connected now."""

    def __init__(self) -> None:
        self.by_link: dict[int, Session] = {}
        self.by_node: dict[str, Session] = {}

    def open(self, session: Session) -> None:
        self.by_link[session.link] = session
        self.by_node[session.node] = session

    def close(self, link: int) -> Session | None:
        session = self.by_link.pop(link, None)
        if session is not None and self.by_node.get(session.node) is session:
            del self.by_node[session.node]
        return session
