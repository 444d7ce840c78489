"""A node that goes by itself: when its time is over, when it is told to, or when it is idle.

It says that it goes, ends what runs, says how that ended, and says good-bye: the controller takes
it off its list and hangs up. Whatever it is given meanwhile is not begun.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from rota.rpc.messages import Farewell
from rota.session.charge import LEFT

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.agent.agent_config import AgentConfig
    from rota.core.facts.node import NodeSpec
    from rota.rpc.messages import AgentMessage
    from rota.session.agent import Agent
    from rota.session.instructions import Instruction

#: It looks so often whether it is time.
LOOK_S = 0.5
#: It goes so long before its end, and what runs then has so long after TERM.
BEFORE_S, GRACE_S = 8.0, 5.0
#: Told to go, it has longer: engines wait for half a minute before they kill.
TOLD_GRACE_S = 15.0
#: A controller that does not answer is not waited for.
ANSWER_S = 5.0
#: Without a controller an idle node waits for one so long.
ALONE_S = 300.0

#: In an allocation: the GPUs that belong to it.
VISIBLE = "CUDA_VISIBLE_DEVICES"

log = logging.getLogger("rota.agent")


def as_guest(spec: NodeSpec, config: AgentConfig, visible: str) -> NodeSpec:
    """What a node that goes again has: its end, and of the GPUs those of its allocation."""
    if not (config.ends_s or config.idle_s):
        return spec
    words = [word.strip() for word in visible.split(",") if word.strip()]
    devices = tuple(
        device
        for device in spec.devices
        if not words or str(device.index) in words or device.uuid.startswith(tuple(words))
    )
    return replace(spec, ends_s=config.ends_s, unlimited=config.unlimited, devices=devices)


class LeavingNode(Protocol):
    """What the host does for it."""

    def carry_out(self, instructions: list[Instruction]) -> None: ...
    def tell(self, message: AgentMessage) -> bool: ...
    async def hung_up(self) -> None: ...


class NodeLeaving:
    """``ends_s`` and ``idle_s``: 0: it has no end, it stays although it is idle."""

    def __init__(
        self, agent: Agent, ends_s: float, idle_s: float, now_s: Callable[[], float]
    ) -> None:
        self._agent, self._ends_s, self._idle_s, self._now_s = agent, ends_s, idle_s, now_s
        self._told = asyncio.Event()
        #: Why it goes; empty: it stays.
        self.note = ""

    @property
    def by_itself(self) -> bool:
        """Whether TERM means that the node goes, and not only its agent."""
        return bool(self._ends_s or self._idle_s)

    def told(self) -> None:
        """Somebody wants it to go."""
        self.note = self.note or "it was told to"
        self._told.set()

    async def run(self, node: LeavingNode) -> None:
        """Until it may go."""
        idle_since_s = self._now_s()
        while not self._is_time:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._told.wait(), LOOK_S)
            now_s = self._now_s()
            if not self._agent.idle:
                idle_since_s = now_s
            elif self._idle_s and now_s - idle_since_s >= self._idle_s:
                if await self._may_go(node, now_s - idle_since_s):
                    return
                if self._agent.session:
                    idle_since_s = now_s
        await self._go(node)

    @property
    def _is_time(self) -> bool:
        if self._ends_s and self._now_s() >= self._ends_s - BEFORE_S:
            self.note = self.note or "its time is over"
        return bool(self.note)

    async def _may_go(self, node: LeavingNode, idle_s: float) -> bool:
        """Whether nothing was given to it in this very moment."""
        self.note = f"it was idle for {idle_s:.0f} s"
        if not self._agent.session:
            gone = idle_s >= max(self._idle_s, ALONE_S)
        else:
            node.tell(Farewell(self._agent.session, self.note, idle=True))
            gone = await self._hung_up(node)
        if gone:
            log.info("this node goes: %s", self.note)
        else:
            self.note = ""
        return gone

    async def _go(self, node: LeavingNode) -> None:
        log.info("this node goes: %s", self.note)
        node.tell(Farewell(self._agent.session, self.note, soon=True))
        grace_s = TOLD_GRACE_S if self._told.is_set() else GRACE_S
        until_s = self._now_s() + grace_s + ANSWER_S
        while not self._agent.quiet and self._now_s() < until_s:
            for uid, *_ in self._agent.alive():
                now_s, why = self._now_s(), LEFT + self.note
                left_s = max(0.0, until_s - ANSWER_S - now_s)
                node.carry_out(self._agent.on_must_end(uid, why, left_s, now_s))
            await asyncio.sleep(LOOK_S / 10)
        if self._agent.quiet and node.tell(Farewell(self._agent.session, self.note)):
            await self._hung_up(node)

    async def _hung_up(self, node: LeavingNode) -> bool:
        try:
            await asyncio.wait_for(node.hung_up(), ANSWER_S)
        except TimeoutError:
            return False
        return True
