"""How a head waits for its turn.

It says in the database that it is there, looks whether the one that leads still speaks, and stands
in line for the lock all the while: when the leader ends, PostgreSQL hands the lock over at once.
A head that could not lead, for it cannot open what is sealed or does not know the schema, says so
and stands beside the line; so does one while a better successor stands in it, unless that one does
not come to lead.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rota.api.door.certificate import CERTIFICATE, KEY, server_context, wants_tls
from rota.api.heads import shared_keys
from rota.api.heads.reading import Reader
from rota.api.heads.turn import LeadingStart
from rota.api.heads.waiting_room import WaitingRoom
from rota.controller.chores.rounds import begin
from rota.controller.launches.vault import read_vault, refuse_other_key
from rota.core.facts.errors import Rejected, RotaError, Unavailable
from rota.store.errors import NotLeading
from rota.store.heads import SILENT_S, UNNAMED_S, Attention, HeadRecord
from rota.store.open import is_postgres, open_lookout, open_store

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from rota.api.plan import ControllerPlan
    from rota.store.sql import SqlStore

log = logging.getLogger("rota.controller")

#: So long one try for the lock waits: between two of them it is seen whether to go on.
TRY_S = 1.0
PAUSE_S = 0.5
#: How often it says that it is there, and looks whether the leader is.
LOOK_S = 0.25
#: How soon the log is followed again after it could not be.
FOLLOW_AGAIN_S = 5.0
#: After this many looks without a new word of any leader nobody waits for a better successor.
LOOKS_MAX = round(UNNAMED_S / LOOK_S)


def check(plan: ControllerPlan) -> None:
    """Refuse what cannot be shared by several heads."""
    if not is_postgres(plan.database):
        raise Rejected(
            "--standby: heads share a database on a server: set server.database to "
            "postgresql://USER:PASSWORD@HOST:PORT/NAME",
            field="standby",
        )
    if not plan.secrets_key_file:
        raise Rejected(
            "--standby: heads share their certificate and keys in the database, sealed: set "
            "server.secrets_key_file to a file with the same key on each of them",
            field="standby",
        )
    read_vault(plan.secrets_key_file)


class Standby:
    """One head that does not lead yet. ``me`` makes what it says of itself."""

    def __init__(
        self,
        plan: ControllerPlan,
        folder: Path,
        sockets: Sequence[socket.socket],
        me: Callable[[int, int], HeadRecord],
    ) -> None:
        self._plan, self._folder, self._me = plan, folder, me
        self._lookout = open_lookout(plan.database)
        self._attention = Attention()
        #: The other heads that stand by.
        self._others = Attention()
        #: What a leader said last, and how many looks have found nothing newer.
        self._word: HeadRecord | None = None
        self._looks = 0
        #: What it said of itself last.
        self._said = me(0, 0)
        self._reader = Reader(plan)
        self._room = WaitingRoom(sockets, self._reader)
        self._beat = 0

    async def wait(self, waits: Callable[[], None], stop: asyncio.Event) -> LeadingStart | None:
        """Until it leads. None: it was told to stop. ``waits`` is called if it must.

        It answers from the first moment on: who calls a head whose database does not answer goes on
        to the next one.
        """
        await self._open_room()
        try:
            return await self._wait(waits, stop)
        finally:
            self._lookout.close()
            await self._room.close()

    async def _wait(self, waits: Callable[[], None], stop: asyncio.Event) -> LeadingStart | None:
        """``Rejected``: the others have led with another key, or with a newer Rota."""
        try:
            await asyncio.to_thread(self._take_keys)
            return LeadingStart(self._lead(await self._try(0.0)))
        except NotLeading:
            pass
        except Unavailable as error:
            self._room.trouble = str(error)
        await self._meet_others()
        waits()
        log.info("this head stands by: %s leads", self._room.leader or "another controller")
        chores = [
            asyncio.create_task(self._look_out()),
            begin("following the log", self._reader.follow, FOLLOW_AGAIN_S),
        ]
        try:
            store = await self._stand_in_line(stop)
        finally:
            for chore in chores:
                chore.cancel()
            await asyncio.gather(*chores, return_exceptions=True)
        if store is None:
            return None
        return LeadingStart(store, await self._reader.ended(store), self._reader.app)

    async def _stand_in_line(self, stop: asyncio.Event) -> SqlStore | None:
        while not stop.is_set():
            if self._stands_aside():
                await asyncio.sleep(PAUSE_S)
                continue
            try:
                store = self._lead(await self._try(TRY_S))
            except NotLeading:
                continue
            except (Unavailable, Rejected) as error:
                self._room.trouble = str(error)
                await asyncio.sleep(PAUSE_S)
                continue
            log.warning("this head leads now")
            return store
        return None

    def _stands_aside(self) -> bool:
        if self._said.unfit:
            return True
        return self._looks < LOOKS_MAX and self._said.gives_way(self._others.present())

    def _lead(self, store: SqlStore) -> SqlStore:
        """With the keys of those that led before."""
        try:
            shared_keys.take(self._folder, read_vault(self._plan.secrets_key_file), store.bookmark)
        except BaseException:
            store.close()
            raise
        return store

    async def _try(self, wait_s: float) -> SqlStore:
        # A lock that is asked for without any patience would be waited for without end.
        wait_s = max(wait_s, 0.05)
        return await asyncio.to_thread(open_store, self._plan.database, wait_s=wait_s)

    async def _meet_others(self) -> None:
        try:
            await asyncio.to_thread(self._take_keys)
            await asyncio.to_thread(self._see)
        except RotaError as error:
            self._room.trouble = str(error)
        await self._room.close()
        await self._open_room()

    async def _open_room(self) -> None:
        """With the certificate that is at hand."""
        secure: ssl.SSLContext | None = None
        encrypted = wants_tls(self._plan.tls, self._plan.host)
        if encrypted and (self._folder / CERTIFICATE).exists() and (self._folder / KEY).exists():
            secure, _ = server_context(self._folder, ())
        await self._room.open(secure, encrypted=encrypted)

    def _take_keys(self) -> None:
        vault = read_vault(self._plan.secrets_key_file)
        shared_keys.take(self._folder, vault, self._lookout.bookmark)

    async def _look_out(self) -> None:
        while True:
            try:
                await asyncio.to_thread(self._see)
                self._room.trouble = ""
            except RotaError as error:
                self._room.trouble = str(error)
            await asyncio.sleep(LOOK_S)

    def _see(self) -> None:
        self._beat += 1
        lag_s = self._reader.lag_s
        leader = self._lookout.leader()
        said = replace(
            self._me(self._beat, 0),
            lag_s=None if lag_s is None else round(lag_s, 1),
            ahead_s=round(self._lookout.ahead_s(), 1),
            unfit=self._unfit(leader),
        )
        if said.unfit != self._said.unfit:
            log.warning("this head %s", said.unfit or "can take over again")
        self._lookout.say(said)
        self._said = said
        self._others.hears({one.url: one for one in self._lookout.heads() if one.url != said.url})
        self._room.leader = leader.url if leader is not None else ""
        self._looks = self._looks + 1 if leader in (None, self._word) else 0
        self._word = leader or self._word
        if leader is None:
            # One that was cut off before its first word holds the lock, and nobody knows its name.
            leader = HeadRecord("", "", epoch=self._lookout.epoch())
        self._attention.hears({leader.url: leader})
        patience_s = SILENT_S if leader.url else UNNAMED_S
        if self._attention.silent_s(leader.url) > patience_s:
            name = leader.url or "another head"
            log.warning("%s leads, and has said nothing for %.0f s", name, patience_s)
            self._lookout.depose()
            self._attention.hears({})

    def _unfit(self, leader: HeadRecord | None) -> str:
        """Why this head could not lead; empty: it could."""
        if leader is not None and leader.database > self._said.database:
            return f"cannot take over: {leader.url} has led with a newer Rota ({leader.version})"
        try:
            vault = read_vault(self._plan.secrets_key_file)
            refuse_other_key(vault, self._lookout.bookmark)
        except Rejected as error:
            return f"cannot take over: {error}"
        return ""
