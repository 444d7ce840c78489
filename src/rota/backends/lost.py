"""What the list of an engine no longer has may be in what else remembers, such as an accounting.

That may be down while the engine works. Then those that are asked for stay as they were last seen,
and all others go on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from rota.backends.api import EngineError, EnginePhase, Feature
from rota.backends.journal import EngineEntry, Stance
from rota.backends.pace import EngineBreaker
from rota.backends.reconcile import one_each

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rota.backends.api import Driver, EngineJob
    from rota.backends.journal import EngineJournal


class LostAttempts:
    """``over`` hears of those whose end is remembered, ``missing`` of those that nothing knows.

    ``for_each`` gives what an engine shows of a gang for each of its members.
    """

    def __init__(
        self,
        engine: str,
        driver: Driver,
        journal: EngineJournal,
        for_each: Callable[[list[EngineJob]], list[EngineJob]],
        over: Callable[[EngineEntry, EngineJob], None],
        missing: Callable[[list[EngineEntry]], None],
    ) -> None:
        self._driver, self._journal, self._for_each = driver, journal, for_each
        self._over, self._missing = over, missing
        self._breaker = EngineBreaker(f"{engine} (its memory)")
        self._not_before_s = 0.0

    async def ask(self, lost: Sequence[str], busy: Iterable[str], now_s: float) -> None:
        """If they are in nothing that remembers, they are gone for good."""
        if not lost or now_s < self._not_before_s:
            return
        try:
            listing = await self._driver.find(self._asked(lost))
        except EngineError as error:
            self._not_before_s = now_s + self._breaker.failed(str(error), error.after_s)
            return
        self._breaker.answered()
        found, _ = one_each(self._for_each(listing))
        for uid in lost:
            entry, job = self._journal.entries.get(uid), found.get(uid)
            if entry is None or entry.over or uid in busy:
                continue
            if job is None:
                entry = replace(entry, state=Stance.MISSING, order=None)
                self._journal.put([entry])
                self._missing([entry])
            elif job.phase is EnginePhase.ENDED:
                self._over(entry, job)

    def _asked(self, lost: Iterable[str]) -> list[str]:
        """The keys under which the engine may have them."""
        whole = Feature.WHOLE_GANGS in self._driver.features
        known = self._journal.entries
        gangs = {uid: entry.gang for uid in lost if (entry := known.get(uid)) is not None}
        return sorted({gang.leader if whole and gang else uid for uid, gang in gangs.items()})
