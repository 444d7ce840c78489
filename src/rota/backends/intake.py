"""From attempts that shall start to submits: each once, and a gang when all of it is there."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rota.backends import gangs
from rota.backends.api import EngineAway, EngineError, EngineRefused, Feature, Full, Paced
from rota.backends.journal import Stance
from rota.backends.news import unstarted
from rota.backends.pace import ASKED_MOST_S
from rota.core.facts.states import Blame

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from rota.backends.api import Driver, EngineJob
    from rota.backends.journal import EngineEntry, EngineJournal
    from rota.backends.orders import Gang
    from rota.core.facts.node import NodeSpec

#: The most submits at a time.
SUBMITS_MAX = 8
#: What an engine does not take for now is tried again.
AGAIN_S = 1.0
STOPPED = "stopped before it was started"

log = logging.getLogger("rota.engine")


class Intake:
    """``over`` hears of attempts that end here, ``waits`` of those that are not taken now.

    ``spec_of`` gives a node of ours by its name; ``is_silent`` whether the engine says nothing at
    all: then what it was to be handed is held like what runs in it.
    """

    def __init__(
        self,
        name: str,
        driver: Driver,
        journal: EngineJournal,
        give_back_s: float,
        spec_of: Callable[[str], NodeSpec],
        over: Callable[[EngineEntry, EngineJob], None],
        waits: Callable[[EngineEntry, str], None],
        is_silent: Callable[[], bool],
    ) -> None:
        self._name, self._driver, self._journal = name, driver, journal
        self._is_silent = is_silent
        self._give_back_s, self._spec_of = give_back_s, spec_of
        self._over, self._waits = over, waits
        #: Submits under way, of which no list of the engine says anything.
        self.busy: dict[str, asyncio.Task[None]] = {}
        self._door = asyncio.Semaphore(SUBMITS_MAX)
        self._turns: dict[str, asyncio.Lock] = {}
        #: Not to be started any more.
        self._withdrawn: set[str] = set()
        #: Once handed in, the engine may have it.
        self._tried: set[str] = set()
        #: Since when and why the engine has not taken one, by the first of those handed in with it.
        self._troubles: dict[str, tuple[float, str]] = {}

    @property
    def whole(self) -> bool:
        """Whether a gang is one job of the engine."""
        return Feature.WHOLE_GANGS in self._driver.features

    def cancel(self) -> None:
        for task in self.busy.values():
            task.cancel()

    def submit(self, uid: str) -> None:
        """Hand it in, unless that is being done; a member of a gang with the last one of it."""
        entry = self._journal.entries.get(uid)
        if entry is None:
            return
        members = gangs.peers(entry, self._journal.entries)
        if not members and uid in self._tried and not self.whole:
            members = [entry]  # Its peers have been, and are forgotten.
        groups = [members] if self.whole else [[member] for member in members]
        for group in groups:
            if group and not any(member.uid in self.busy for member in group):
                self._begin(group)

    def _begin(self, group: list[EngineEntry]) -> None:
        uids = [member.uid for member in group]
        self._tried.update(uids)
        task = asyncio.create_task(self._hand_in(uids))
        self.busy |= dict.fromkeys(uids, task)
        task.add_done_callback(lambda _: [self.busy.pop(uid, None) for uid in uids])

    async def _hand_in(self, uids: list[str]) -> None:
        """Once. What may have happened is found out by the next looks, not by another try."""
        while group := self._intended(uids):
            order = gangs.whole(group, self._spec_of) if len(group) > 1 else group[0].order
            if order is None or self._withdrawn.intersection(uids):
                self._end(group, STOPPED, Blame.NODE)
                return
            if why := self._given_up(uids):
                self._end(group, why, Blame.NODE)
                return
            try:
                async with self._turn(group[0].node), self._door:
                    number = await self._driver.submit(order)
                self._taken(uids, number, order.gang)
                return
            except EngineRefused as error:
                self._end(group, str(error), error.fault)
                return
            except (Full, EngineAway) as error:
                # For certain not there: the next try is as good as this one was.
                self._put_off(group, error)
                pause_s = max(AGAIN_S, min(error.after_s, ASKED_MOST_S))
            except EngineError as error:
                log.warning("%s may not have reached %s: %s", uids[0], self._name, error)
                self._put_off(group, error)
                return
            except Exception as error:
                # A bug of ours, or of a plug-in. If it is there all the same, it will be stopped.
                log.exception("attempt %s cannot be handed in to %s", uids[0], self._name)
                why = f"it cannot be handed in to engine {self._name}: {error!r}"
                self._end(group, why, Blame.JOB)
                return
            await asyncio.sleep(pause_s)

    def _put_off(self, group: list[EngineEntry], error: EngineError) -> None:
        """Say why it is not inside. Only what lasts while the engine answers wears us out."""
        uid, now_s, why = group[0].uid, time.monotonic(), str(error)
        if isinstance(error, Paced):
            self._troubles.pop(uid, None)
        else:
            since_s, _ = self._troubles.get(uid, (now_s, ""))
            self._troubles[uid] = (now_s if self._is_silent() else since_s, why)
        for entry in group:
            self._waits(entry, why)

    def _given_up(self, uids: list[str]) -> str:
        """Why it goes back to where others may take it; empty: it is tried on."""
        since_s, why = self._troubles.get(uids[0], (0.0, ""))
        lasted = self._give_back_s and time.monotonic() - since_s > self._give_back_s
        return why if lasted and not self._is_silent() else ""

    def _turn(self, node: str) -> asyncio.Lock | nullcontext[None]:
        """Where attempts wait inside for others to end, they must stand there in our order."""
        early = self._spec_of(node).early
        return self._turns.setdefault(node, asyncio.Lock()) if early else nullcontext()

    def _intended(self, uids: list[str]) -> list[EngineEntry]:
        """All of them, if none was handed in or has ended; else none."""
        known = [self._journal.entries.get(uid) for uid in uids]
        group = [entry for entry in known if entry is not None and entry.state is Stance.INTENDED]
        return group if len(group) == len(uids) else []

    def _taken(self, uids: list[str], number: str, gang: Gang | None) -> None:
        """The answer may come after its start, its end, and all that followed from them."""
        now_s = time.time()
        self._troubles.pop(uids[0], None)
        self._journal.put(
            replace(entry, state=Stance.SUBMITTED, id=number, at_s=now_s, gang=gang)
            for uid in uids
            if (entry := self._journal.entries.get(uid)) is not None
            and entry.state is Stance.INTENDED
        )

    def _end(self, group: list[EngineEntry], why: str, fault: Blame) -> None:
        for entry in group:
            self._over(entry, unstarted(entry.uid, why, fault))

    def withdraw(self, uids: Iterable[str]) -> None:
        """They shall not start. Of a gang that is not complete nothing has reached the engine."""
        for uid in uids:
            self._withdrawn.add(uid)
            entry = self._journal.entries.get(uid)
            if entry is not None and self._lacks_peers(entry):
                self._end([entry], STOPPED, Blame.NODE)

    def give_back_incomplete(self, now_s: float) -> None:
        """Members whose peers do not come do not wait for ever."""
        if not self._give_back_s:
            return
        for entry in [*self._journal.entries.values()]:
            if now_s - entry.at_s > self._give_back_s and self._lacks_peers(entry):
                self._end([entry], "the rest of its gang did not come", Blame.NODE)

    def _lacks_peers(self, entry: EngineEntry) -> bool:
        if entry.state is not Stance.INTENDED or entry.uid in self._tried:
            return False
        return not gangs.peers(entry, self._journal.entries)

    def forget(self, uids: Collection[str]) -> None:
        self._withdrawn.difference_update(uids)
        self._tried.difference_update(uids)
        for uid in uids:
            self._troubles.pop(uid, None)
