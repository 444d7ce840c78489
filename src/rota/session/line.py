"""The connection to the controller, and the beats on it.

An agent elsewhere holds a lease, and its beats must not wait for anything: so its line lives in a
thread of its own, which does nothing but speak with the controller and tell the keeper until when
its lease holds. Whatever holds up the agent's own loop does not make the node silent. It shows in
the log and as a remark on the node; and as beats also say that orders are carried out, an agent
that stands still for too long ends itself: its jobs and its keeper live on, and another agent can
be started.

The line of an agent beside its controller has no lease and lives in the agent's loop.
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import os
import threading
import time
from typing import TYPE_CHECKING, Any

import msgspec

from rota.core.words.units import format_when
from rota.rpc.messages import BeatSeen, Hello, Resized, Welcome
from rota.session.heartbeat import Heartbeat

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.rpc.messages import AgentMessage, ControllerMessage
    from rota.session import wire
    from rota.session.keyring import Keyring

#: A loop that stands still for so long is worth a line in the log, and for so long is of no use.
STALL_TOLD_S, STALL_MAX_S = 5.0, 1800.0
STALLED = 70
JOIN_S = 2.0

log = logging.getLogger("rota.agent")


def loop_factory() -> type[asyncio.AbstractEventLoop] | None:
    """Of the fast loop, where it is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.Loop


class Line:
    """``hear`` gets each message in the agent's loop; ``tell`` takes a line for the keeper."""

    def __init__(
        self,
        url: str,
        keyring: Keyring,
        hear: Callable[[ControllerMessage], None],
        tell: Callable[[bytes], object],
        objects: Callable[[Welcome], str],
    ) -> None:
        """``objects`` says why a controller must not be obeyed: it renews no lease, either."""
        self._objects = objects
        self._url, self._keyring = url, keyring
        self._hear = hear
        self._heartbeat = Heartbeat(self._beat, tell, self._hang_up)
        self._link: wire.ControllerLink | None = None
        self._home: asyncio.AbstractEventLoop | None = None
        self._away: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        #: When the agent's loop was last asked for a sign, unless it has given one.
        self._asked_s: float | None = None
        self._stall_told = False
        #: The words with which this session began: what a remark on the node is added to.
        self._hello: Hello | None = None
        self._session = 0

    def start(self) -> None:
        """In the agent's loop, which must run."""
        self._home = asyncio.get_running_loop()
        if not self._url.startswith("unix:"):
            self._away = (loop_factory() or asyncio.new_event_loop)()
            self._thread = threading.Thread(
                target=self._away.run_forever, name="rota-line", daemon=True
            )
            self._thread.start()

    def stop(self) -> None:
        if self._away is not None and self._thread is not None:
            self._away.call_soon_threadsafe(self._away.stop)
            self._thread.join(JOIN_S)

    async def dial(self) -> Connection:
        """Connect, or ``wire.Unreachable``."""
        connection = Connection(self)
        if self._away is None:
            await self._dial(connection)
        else:
            work = asyncio.run_coroutine_threadsafe(self._dial(connection), self._away)
            await asyncio.wrap_future(work)
        return connection

    async def _dial(self, connection: Connection) -> None:
        link = await self._keyring.dial(self._url, self._on_message)
        self._link = connection.link = link
        self._heartbeat.dialled()
        link.closed.add_done_callback(lambda closed: self._on_closed(connection, closed.result()))

    def _on_closed(self, connection: Connection, reason: str) -> None:
        if self._link is connection.link:
            self._link = None
            self._heartbeat.hung_up()
        self.at_home(connection.over, reason)

    def said_hello(self, hello: Hello) -> None:
        """Where the line lives."""
        self._hello, self._session = hello, 0

    def _on_message(self, message: ControllerMessage) -> None:
        if isinstance(message, Welcome):
            self._session = message.session
        if not (isinstance(message, Welcome) and self._objects(message)):
            self._heartbeat.hears(message)
        if not isinstance(message, BeatSeen):
            self.at_home(self._hear, message)

    def tell_keeper(self) -> None:
        """A keeper that has just come must hear of the lease."""
        self.there(self._heartbeat.tell_keeper)

    def there(self, call: Callable[..., object], *arguments: Any) -> None:
        """Where the line lives."""
        if self._away is None:
            call(*arguments)
        else:
            self._away.call_soon_threadsafe(call, *arguments)

    def at_home(self, call: Callable[..., object], *arguments: Any) -> None:
        """In the agent's loop."""
        if self._away is None or self._home is None:
            call(*arguments)
        elif not self._home.is_closed():
            self._home.call_soon_threadsafe(call, *arguments)

    def _beat(self, beat: AgentMessage) -> None:
        self._look_home()
        if self._link is not None:
            self._link.send(beat)

    def _look_home(self) -> None:
        """Whether the agent's loop has turned since the last beat."""
        if self._asked_s is None:
            self._asked_s = time.monotonic()
            self.at_home(self._turned)
            return
        stalled_s = time.monotonic() - self._asked_s
        if stalled_s > STALL_TOLD_S and not self._stall_told:
            self._stall_told = True
            log.warning("the agent's loop stands still for %.0f s; the node beats on", stalled_s)
            self._remark("its agent stands still: nothing is started or ended here meanwhile")
        if stalled_s > STALL_MAX_S:
            log.error("the agent's loop stands still for %.0f s; the agent ends", stalled_s)
            faulthandler.dump_traceback()
            os._exit(STALLED)

    def _turned(self) -> None:
        if self._stall_told and self._asked_s is not None:
            stood = f"stood still for {time.monotonic() - self._asked_s:.0f} s"
            log.warning("the agent's loop %s", stood)
            self.there(self._remark, f"its agent {stood} at {format_when(time.time())}")
        self._asked_s, self._stall_told = None, False

    def _remark(self, text: str) -> None:
        """The controller shows it on the node, until the agent says something new or comes anew."""
        if self._link is not None and self._hello is not None and self._session:
            spec = self._hello.node
            spec = msgspec.structs.replace(spec, remarks=(*spec.remarks, text))
            self._link.send(Resized(self._session, spec))

    def _hang_up(self, reason: str) -> None:
        """Nobody is there to say goodbye to."""
        log.warning("dialling again: %s", reason)
        if self._link is not None:
            self._link.abort()


class Connection:
    """One connection, as the agent's loop sees it."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self.link: wire.ControllerLink | None = None
        #: Set once the connection is gone, from whichever end.
        self.closed: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def over(self, reason: str) -> None:
        if not self.closed.done():
            self.closed.set_result(reason)

    def send(self, message: AgentMessage) -> None:
        assert self.link is not None
        if isinstance(message, Hello):
            self._line.there(self._line.said_hello, message)
        self._line.there(self.link.send, message)

    def close(self, reason: str = "") -> None:
        assert self.link is not None
        self._line.there(self.link.close, reason)
