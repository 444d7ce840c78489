"""One receiver: what waits for it, in order, and how it has been doing."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

    from rota.notify.collect import Delivery

#: The most messages that wait in memory for one receiver; further ones wait in the log.
WAITING_MAX = 500


class Receiver:
    """Everything about one receiver. Only the courier's thread changes it."""

    def __init__(self, name: str, user: str = "") -> None:
        self.name = name
        #: Whose jobs it is told of; empty: the site's.
        self.user = user
        self.waiting: deque[Delivery] = deque()
        #: Up to this event everything for it is sent or in ``waiting``; the rest is in the log.
        self.taken_seq = 0
        self.behind = False
        self.task: asyncio.Task[None] | None = None
        self.sent = 0
        self.given_up = 0
        #: A message was given up and none got through since.
        self.down = False
        self.problem = ""
        self.problem_s = 0.0
        self.sent_s = 0.0

    def offer(self, seq: int, deliveries: list[Delivery]) -> None:
        """All messages of one event, or none of them: then they are read again later."""
        if self.behind or len(self.waiting) >= WAITING_MAX:
            self.behind = True
            return
        self.waiting.extend(deliveries)
        self.taken_seq = seq

    @property
    def idle(self) -> bool:
        return not self.waiting and not self.behind

    @property
    def done_seq(self) -> int:
        """Up to this event nothing for it is outstanding."""
        return self.waiting[0].notice.seq - 1 if self.waiting else self.taken_seq

    def succeeded(self, now_s: float) -> None:
        self.sent += 1
        self.sent_s = now_s
        self.down = False
        self.problem = ""

    def failed(self, problem: str, now_s: float) -> None:
        self.problem = problem
        self.problem_s = now_s
