"""Agents as the controller sees them: who is connected, and what each one was told.

A session lives as long as one connection. Both directions are numbered; a gap ends the session,
and the next one starts from complete sets, so a lost, repeated or late message changes nothing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rota.rpc.messages import Desired

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.rpc.messages import Beat, Hello, Observed, Wanted


class Session:
    """One connection of one agent."""

    __slots__ = ("_next_in", "_next_out", "id", "incarnation", "lease_s", "link", "local",
                 "node", "pid", "version")  # fmt: skip

    def __init__(self, link: int, session_id: int, hello: Hello, *, local: bool) -> None:
        self.link = link
        self.id = session_id
        self.node = hello.node.name
        self.incarnation = hello.incarnation
        self.pid = hello.pid
        self.version = hello.version
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

    def misses(self, beat: Beat) -> bool:
        """Whether a report that was sent before this beat has not arrived."""
        return beat.reported >= self._next_in

    def keep_place(self) -> Callable[[], None]:
        """Gives what takes us back to the message that is expected now."""
        return partial(setattr, self, "_next_in", self._next_in)

    def desired(
        self,
        attempts: list[Wanted],
        gone: list[str] | None = None,
        *,
        full: bool = False,
        seq: int = 0,
    ) -> Desired:
        number = self._next_out
        self._next_out += 1
        return Desired(self.id, number, tuple(attempts), tuple(gone or ()), full, seq)


class Sessions:
    """The agents that are connected now. A tick that fails is taken back with ``rewind``."""

    def __init__(self) -> None:
        self.by_link: dict[int, Session] = {}
        self.by_node: dict[str, Session] = {}
        #: How long ago the last word of a node was, where its agent beats.
        self.silent_s: Callable[[str], float] = lambda _: 0.0
        #: How to take back what this tick did, the latest last.
        self._undo: list[Callable[[], None]] = []

    def begin(self) -> None:
        """A tick begins: what was done before it stays."""
        self._undo.clear()

    def rewind(self) -> None:
        """The tick did not reach the disk: everything is as it was before."""
        while self._undo:
            self._undo.pop()()

    def accepts(self, session: Session, message: Observed) -> bool:
        """Whether this is the next message of this very session."""
        self._undo.append(session.keep_place())
        return session.accepts(message)

    def open(self, session: Session) -> None:
        self._remember(session)
        self.by_link[session.link] = session
        self.by_node[session.node] = session

    def close(self, link: int) -> Session | None:
        session = self.by_link.get(link)
        if session is not None:
            self._remember(session)
            del self.by_link[link]
            if self.by_node.get(session.node) is session:
                del self.by_node[session.node]
        return session

    def _remember(self, session: Session) -> None:
        link, node = session.link, session.node
        before = self.by_link.get(link), self.by_node.get(node)
        self._undo.append(partial(self._restore, link, node, before))

    def _restore(self, link: int, node: str, before: tuple[Session | None, Session | None]) -> None:
        by_link, by_node = before
        self.by_link.pop(link, None)
        self.by_node.pop(node, None)
        if by_link is not None:
            self.by_link[link] = by_link
        if by_node is not None:
            self.by_node[node] = by_node
