"""Connections from outside to ports of jobs on this node: bytes between the wire and sockets."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, cast

from rota.agent.machine.listeners import leads_to, strangers_at
from rota.keeper.processes import boot_id
from rota.rpc.visits import CloseTunnel, OpenTunnel, TunnelInput, TunnelOutput

if TYPE_CHECKING:
    from collections.abc import Callable

#: The most bytes that may be on their way to the other end, in each direction.
WINDOW_BYTES = 256 * 1024
#: A program that listens on this machine answers at once, or not at all.
CONNECT_S = 5.0
#: What listens at a port is looked up for as many at one time.
LOOKS_AT_ONCE = 4
#: Programs listen on one of these, or on both.
HOSTS = ("127.0.0.1", "::1")


class Tunnel(asyncio.Protocol):
    """One connection to one port. Either side may end its half and go on listening."""

    def __init__(self, request: int, send: Callable[[TunnelOutput], object]) -> None:
        self._request = request
        self._send = send
        self._transport: asyncio.Transport | None = None
        self._early: list[TunnelInput] = []
        self._window = WINDOW_BYTES
        self._full = False
        self._untold = 0
        self._heard_end = self._said_end = False
        self.open = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        if not self.open:
            self._transport.abort()
            return
        early, self._early = self._early, []
        for message in early:
            self.take(message)

    def data_received(self, data: bytes) -> None:
        self._send(TunnelOutput(self._request, data))
        self._window -= len(data)
        if self._window <= 0 and self._transport is not None:
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        """The port sends no more; it may still want to hear the rest."""
        self._heard_end = True
        self._send(TunnelOutput(self._request, end=True))
        self._close_when_done()
        return True

    def connection_lost(self, error: Exception | None) -> None:
        reset = isinstance(error, ConnectionResetError)
        self.end("the connection was reset" if reset else "")

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        self._tell_taken(0)

    def end(self, problem: str) -> None:
        """Tell the other side, once, that all is closed."""
        if self.open:
            self.open = False
            self._send(TunnelOutput(self._request, over=True, error=problem))

    def take(self, message: TunnelInput) -> None:
        """Bytes for the port, its end, or how much of what it sent has arrived."""
        transport = self._transport
        if transport is None:
            self._early.append(message)
            return
        if message.taken:
            self._window += message.taken
            if self._window > 0:
                transport.resume_reading()
        if transport.is_closing() or self._said_end:
            return
        if message.body:
            transport.write(message.body)
            self._tell_taken(len(message.body))
        if message.end:
            self._said_end = True
            transport.write_eof()
            self._close_when_done()

    def _tell_taken(self, count: int) -> None:
        """While the port takes nothing more, nobody is told that there is room."""
        self._untold += count
        if not self._full and self._untold:
            self._send(TunnelOutput(self._request, taken=self._untold))
            self._untold = 0

    def _close_when_done(self) -> None:
        if self._heard_end and self._said_end and self._transport is not None:
            self._transport.close()

    def close(self) -> None:
        """The other side has gone; nobody needs to be told."""
        self.open = False
        if self._transport is not None:
            self._transport.close()


class Tunnels:
    """Every connection to a job's port by way of one connection to the controller."""

    def __init__(
        self, send: Callable[[TunnelOutput], object], pid_of: Callable[[str], int]
    ) -> None:
        """``pid_of`` gives the first process of an attempt that runs here, 0 without one."""
        self._send = send
        self._pid_of = pid_of
        self._tunnels: dict[int, Tunnel] = {}
        self._dialling: set[asyncio.Task[None]] = set()
        #: A job may have millions of files open, and a directory of users may not answer.
        self._looks = ThreadPoolExecutor(LOOKS_AT_ONCE, "rota-tunnels")

    def take(self, message: OpenTunnel | TunnelInput | CloseTunnel) -> None:
        if isinstance(message, OpenTunnel):
            tunnel = Tunnel(message.request, self._told)
            self._tunnels[message.request] = tunnel
            task = asyncio.get_running_loop().create_task(self._dial(message, tunnel))
            self._dialling.add(task)
            task.add_done_callback(self._dialling.discard)
            return
        known = self._tunnels.get(message.request)
        if known is None:
            return
        if isinstance(message, TunnelInput):
            known.take(message)
        else:
            del self._tunnels[message.request]
            known.close()

    def _told(self, output: TunnelOutput) -> None:
        if output.over:
            self._tunnels.pop(output.request, None)
        self._send(output)

    async def _dial(self, message: OpenTunnel, tunnel: Tunnel) -> None:
        pid = self._pid_of(message.uid)
        if not pid:
            tunnel.end("the job does not run on this node (any more)")
            return
        problem = f"nothing listens on port {message.port} of the job's node"
        loop = asyncio.get_running_loop()
        own = frozenset(message.own) if message.boot == boot_id() else frozenset[int]()
        for host in HOSTS:
            look = partial(_who_listens, host, message.port, pid, own)
            try:
                async with asyncio.timeout(CONNECT_S):
                    stranger = await loop.run_in_executor(self._looks, look)
                if stranger is None:
                    continue  # It would come back to the caller, and from there to us, for ever.
                if stranger:
                    problem = f"port {message.port} is not the job's: it is one of user {stranger}"
                    continue
                async with asyncio.timeout(CONNECT_S):
                    await loop.create_connection(lambda: tunnel, host, message.port)
            except ConnectionRefusedError:
                continue
            except TimeoutError:
                problem = f"port {message.port} of the job's node does not answer"
            except OSError as error:
                if host == HOSTS[0]:
                    problem = f"port {message.port} of the job's node: {error.strerror or error}"
            else:
                return
        tunnel.end(problem)

    def close(self) -> None:
        """The controller has gone: so has everybody who came by way of it."""
        for tunnel in self._tunnels.values():
            tunnel.close()
        self._tunnels.clear()


def _who_listens(host: str, port: int, pid: int, own: frozenset[int]) -> str | None:
    """Who listens there that is none of the job's; empty: nobody else, None: the caller itself."""
    if own and leads_to(host, port, own):
        return None
    return strangers_at(host, port, pid)
