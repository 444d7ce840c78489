"""Launches that wait for others on their node to end: short jobs, one behind the other.

The controller chose their room and counts on these others to leave it at once. When they do not,
a launch is given back, so that it can start elsewhere; nobody else knows whether it has started.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.agent.charge import Stage
from rota.agent.instructions import Spawn
from rota.core.facts.states import Cause
from rota.rpc.messages import Seen, Sighting

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rota.agent.charge import Charge

#: How long a launch stands in line before it is given back.
PATIENCE_S = 0.5
_ALIVE = (Stage.IN_LINE, Stage.SPAWNING, Stage.RUNNING)


class Line:
    """Who waits for whom, among the charges of an agent."""

    def __init__(self, charges: Mapping[str, Charge]) -> None:
        self._charges = charges
        #: Those in line in the order of their coming, and when each is given back.
        self._until_s: dict[str, float] = {}

    def __bool__(self) -> bool:
        return bool(self._until_s)

    def enter(self, charge: Charge, after: tuple[str, ...], now_s: float) -> None:
        """A launch comes, and may have to wait."""
        charge.stage, charge.after = Stage.IN_LINE, after
        self._until_s[charge.uid] = now_s + PATIENCE_S

    def leave(self, charge: Charge, seen: Seen) -> None:
        """It will not be started."""
        del self._until_s[charge.uid]
        charge.stage, charge.seen, charge.launch = Stage.ENDED, seen, None

    def due(self) -> list[Spawn]:
        """Starts of those who wait for nobody any more."""
        out = []
        for uid in list(self._until_s):
            charge = self._charges.get(uid)
            if charge is None:
                del self._until_s[uid]  # It is not wanted any more.
            elif charge.launch is not None and not any(map(self._is_alive, charge.after)):
                del self._until_s[uid]
                charge.stage = Stage.SPAWNING
                out.append(Spawn(uid, charge.launch))
        return out

    def _is_alive(self, uid: str) -> bool:
        charge = self._charges.get(uid)
        return charge is not None and charge.stage in _ALIVE

    @property
    def next_s(self) -> float | None:
        """When the first of them has waited long enough; None while nobody waits."""
        return min(self._until_s.values(), default=None)

    def give_back(self, now_s: float) -> list[Charge]:
        """Those who have waited long enough, and everybody behind them."""
        late = {uid for uid, until_s in self._until_s.items() if until_s <= now_s}
        given: list[Charge] = []
        for uid in list(self._until_s):
            charge = self._charges.get(uid)
            if charge is not None and (uid in late or late.intersection(charge.after)):
                late.add(uid)
                detail = "those before it did not end in time"
                self.leave(charge, unstarted(uid, Cause.REQUEUED, now_s, detail))
                given.append(charge)
        return given


def unstarted(
    uid: str, cause: Cause, now_s: float, detail: str = "stopped before it was started"
) -> Seen:
    """The end of an attempt that never began."""
    return Seen(uid, Sighting.ENDED, ended_s=now_s, cause=cause, detail=detail)
