"""Beats on an asyncio loop: tells the controller that we are there, and the keeper until when.

The keeper holds the lease, not the agent: an agent may be killed and its jobs live on.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from rota.keeper.lease import steady_s
from rota.rpc.messages import BeatSeen, Welcome
from rota.session.lease import AgentLease

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.rpc.messages import AgentMessage, ControllerMessage

_encode = msgspec.json.Encoder().encode


class Heartbeat:
    """Keeps the lease of one agent. ``tell`` takes a line for the keeper, if there is one.

    ``hang_up`` ends a connection on which nobody answers.
    """

    def __init__(
        self,
        send: Callable[[AgentMessage], object],
        tell: Callable[[bytes], object],
        hang_up: Callable[[str], object] | None = None,
    ) -> None:
        self._send = send
        self._tell = tell
        self._hang_up = hang_up
        self._lease = AgentLease()
        self._known = False
        self._timer: asyncio.TimerHandle | None = None

    def dialled(self) -> None:
        """Before the hello is sent."""
        self._lease.on_dialled(steady_s())
        self._set_timer()

    def hung_up(self) -> None:
        self._lease.on_hung_up()
        self._set_timer()

    def hears(self, message: ControllerMessage) -> None:
        """Whatever the controller says; what is not about the lease changes nothing."""
        if isinstance(message, Welcome):
            self._lease.on_welcome(message, steady_s())
            self._known = True
            self.tell_keeper()
            self._set_timer()
        elif isinstance(message, BeatSeen) and self._lease.on_seen(message):
            self.tell_keeper()

    def tell_keeper(self) -> None:
        """A keeper outlives its agents: who has not heard from the controller leaves it alone."""
        if self._known:
            self._tell(_encode({"op": "lease", "until_s": self._lease.until_s}))

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due_s = self._lease.next_beat_s()
        if due_s is not None:
            wait_s = max(0.0, due_s - steady_s())
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._beat)

    def _beat(self) -> None:
        now_s = steady_s()
        if self._hang_up is not None and self._lease.is_unheard(now_s):
            self._hang_up("beats stay unanswered")
            return
        beat = self._lease.beat(now_s)
        if beat is not None:
            self._send(beat)
        self._set_timer()
