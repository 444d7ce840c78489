"""The agent's lease: how long its node's work may go on without a word from the controller.

It counts from the moment at which the last beat that was answered was *sent*, not from when the
answer came: an answer may have been on its way for long, and the controller counts from when it
heard the beat, which is never earlier. No I/O and no clock: times come in, steady ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.rpc.messages import Beat

if TYPE_CHECKING:
    from rota.rpc.messages import BeatSeen, Welcome

#: The hello counts as a beat: the welcome answers it.
HELLO = 0
#: A connection on which nothing is answered for this part of a lease is given up: the rest of the
#: lease is for finding a better one. A controller that is merely busy for a while is left in peace.
UNHEARD_PART = 0.5
#: The same for an agent that was never told of a lease: nobody has welcomed it yet.
WELCOME_S = 60.0


class AgentLease:
    """What one agent may rely on. ``until_s`` is when its work must begin to end; None: never."""

    def __init__(self) -> None:
        self.until_s: float | None = None
        self._length_s = 0.0
        self._beat_s = 0.0
        self._session = 0
        self._number = HELLO
        #: When the beats that were not answered yet were sent.
        self._sent: dict[int, float] = {}
        self._next_s: float | None = None

    def on_dialled(self, now_s: float) -> None:
        """Call it before the hello is sent. The lease of the last connection goes on."""
        self._session, self._number = 0, HELLO
        self._sent = {HELLO: now_s}
        self._next_s = now_s + self._patience_s

    def on_hung_up(self) -> None:
        self._sent.clear()
        self._next_s = None

    def on_welcome(self, welcome: Welcome, now_s: float) -> None:
        self._session = welcome.session
        self._length_s, self._beat_s = welcome.lease_s, welcome.beat_s
        if not self._length_s:
            self.until_s = None
            self.on_hung_up()  # Nothing more has to be said, or answered.
            return
        self._answered(HELLO)
        self._next_s = now_s + self._beat_s

    def on_seen(self, seen: BeatSeen) -> bool:
        """Whether the lease is longer now."""
        return seen.session == self._session and self._answered(seen.number)

    def _answered(self, number: int) -> bool:
        sent_s = self._sent.get(number)
        if sent_s is None or not self._length_s:
            return False
        self._sent = {n: at_s for n, at_s in self._sent.items() if n > number}
        self.until_s = sent_s + self._length_s
        return True

    def is_unheard(self, now_s: float) -> bool:
        """Whether hello or beats are unanswered for so long that another line is worth a try."""
        return bool(self._sent) and now_s - min(self._sent.values()) >= self._patience_s

    @property
    def _patience_s(self) -> float:
        return UNHEARD_PART * self._length_s or WELCOME_S

    def next_beat_s(self) -> float | None:
        """When to look and to beat; None while there is nobody to beat to."""
        return self._next_s

    def beat(self, now_s: float) -> Beat | None:
        """The next beat, if it is due."""
        if self._next_s is None or now_s < self._next_s:
            return None
        if not self._session:
            self._next_s = now_s + self._patience_s
            return None  # The hello has to be answered first.
        self._number += 1
        self._sent[self._number] = now_s
        self._next_s = now_s + self._beat_s
        return Beat(self._session, self._number)
