"""The heads of one Rota: the controllers that share a PostgreSQL, of which one leads.

Each head writes a row of its own now and then, and the one that leads renews another one, in a
commit that only a leader can make. One that does not lead any more is known by its lock, which the
server takes from it when its connection ends; one that hangs, or that lost its way to the server,
by a row that stays the same: then the server is asked to end its connection.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import msgspec
import psycopg

from rota.core.facts.errors import Unavailable
from rota.heads import GONE_S
from rota.store.migrations import HEAD as SCHEMA
from rota.store.patience import ENCODING, settle
from rota.store.postgres import CONNECT_TIMEOUT_S, KEEPALIVE_S, LEADER_LOCK, public_name
from rota.store.rows import FORMAT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: Rows in ``meta``: one per head, and the one of the head that leads. The store reads and writes
#: the latter as a bookmark.
HEAD, LEADER = "head ", "leader"
#: How long a question may take.
PATIENCE_S = 3
#: A leader that renews nothing for so long has its connection ended. With the time that it takes
#: to notice, and to open the door of the next one, a submit waits for less than five seconds.
SILENT_S = 3.0
#: One that has taken the lead and said nothing yet may still read the state, or upgrade the tables.
#: Shorter than clients wait for a head that leads.
UNNAMED_S = 15.0


class HeadRecord(msgspec.Struct, frozen=True):
    """One of them, in its own words."""

    url: str
    version: str
    #: Another number each time it is said.
    beat: int = 0
    #: Which reign it leads; 0: it stands by.
    epoch: int = 0
    #: How many seconds behind it can be read, while it stands by; None: it cannot.
    lag_s: float | None = None
    #: What it knows of a database: the number of the schema, and of the rows. 0: it did not say.
    schema: int = 0
    rows: int = 0
    #: By how much its wall clock is ahead of the database's; None: it did not say.
    ahead_s: float | None = None
    #: Why it cannot lead; empty: it can.
    unfit: str = ""

    @property
    def database(self) -> tuple[int, int]:
        """Of two heads the one with the lower numbers cannot lead after the other one."""
        return self.schema, self.rows

    @property
    def age(self) -> tuple[list[int], tuple[int, int]]:
        """Of two heads the newer one has the higher value."""
        return [int(digits) for digits in re.findall(r"\d+", self.version)], self.database

    def barred(self, leader: HeadRecord) -> str:
        """Why it must not lead after this leader; empty: it may."""
        if not self.unfit and self.age < leader.age:
            return f"runs an older Rota ({self.version})"
        return self.unfit

    def doubt(self, leader: HeadRecord) -> str:
        """Why the leader must not hand over to it now; empty: it may."""
        if why := self.barred(leader):
            return why
        # With another schema it cannot read before it leads.
        if self.lag_s is None and self.database == leader.database:
            return "has not read the state yet"
        return ""

    def gives_way(self, others: Iterable[HeadRecord]) -> bool:
        """Whether another one that stands by is the better successor: newer, or up to date."""
        return any(not other.unfit and other._worth > self._worth for other in others)

    @property
    def _worth(self) -> tuple[object, bool]:
        return self.age, self.lag_s is not None


def own_record(url: str, version: str, beat: int, epoch: int) -> HeadRecord:
    """What a head of this code says of itself."""
    return HeadRecord(url, version, beat, epoch, schema=int(SCHEMA), rows=FORMAT)


class Lookout:
    """A connection that writes nothing but the row of its own head. For one thread."""

    def __init__(self, address: str) -> None:
        """``address`` is what follows ``postgresql://`` in the URL."""
        self._conninfo = f"postgresql://{address}"
        self.name = public_name(self._conninfo)
        self._connection: psycopg.Connection | None = None

    def say(self, head: HeadRecord) -> None:
        """That this head is there."""
        self._ask(
            "INSERT INTO meta (key, value) VALUES (%s, %s)"
            " ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            HEAD + head.url,
            msgspec.json.encode(head).decode(),
        )

    def unsay(self, url: str) -> None:
        self._ask("DELETE FROM meta WHERE key = %s", HEAD + url)

    def heads(self) -> list[HeadRecord]:
        """All that have said that they are there, and were not unsaid."""
        found = self._ask("SELECT value FROM meta WHERE key LIKE %s ORDER BY key", f"{HEAD}%")
        return [msgspec.json.decode(value, type=HeadRecord) for (value,) in found]

    def leader(self) -> HeadRecord | None:
        """Who leads in the present reign, if it has said so."""
        said = self.bookmark(LEADER)
        if not said:
            return None
        head = msgspec.json.decode(said, type=HeadRecord)
        return head if head.epoch == self.epoch() else None

    def epoch(self) -> int:
        """The number of the present reign; 0 before the first one."""
        found = self._ask("SELECT value FROM meta WHERE key = 'epoch'")
        return int(found[0][0]) if found else 0

    def bookmark(self, name: str) -> str:
        """As ``Store.bookmark``, for one who does not lead; empty before there are any tables."""
        found = self._ask("SELECT value FROM meta WHERE key = %s", f"bookmark {name}")
        return str(found[0][0]) if found else ""

    def ahead_s(self) -> float:
        """By how much our wall clock is ahead of the database's."""
        began_s = time.time()
        ((said,),) = self._ask("SELECT extract(epoch FROM clock_timestamp())::text")
        return (began_s + time.time()) / 2 - float(said)

    def depose(self) -> bool:
        """End the connection of who holds the lock. Whether anybody held it."""
        return bool(
            self._ask(
                "SELECT pg_terminate_backend(pid) FROM pg_locks"
                " WHERE locktype = 'advisory' AND granted AND classid = 0 AND objid = %s"
                " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
                LEADER_LOCK,
            )
        )

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _ask(self, text: str, *values: object) -> list[tuple[str, ...]]:
        """The rows; none where the tables are not made yet."""
        try:
            cursor = self._connected().execute(text.encode(), values)
            return cursor.fetchall() if cursor.description else []
        except psycopg.errors.UndefinedTable:
            return []
        except psycopg.Error as error:
            self.close()
            said = " ".join(str(error).split())
            raise Unavailable(f"cannot use {self.name}: {said}") from None

    def _connected(self) -> psycopg.Connection:
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(
                self._conninfo,
                autocommit=True,
                connect_timeout=CONNECT_TIMEOUT_S,
                application_name="rota head",
                client_encoding=ENCODING,
                tcp_user_timeout=PATIENCE_S * 1000,
                keepalives_idle=KEEPALIVE_S,
                keepalives_interval=1,
                keepalives_count=KEEPALIVE_S,
            )
            settle(self._connection, PATIENCE_S)
        return self._connection


class Attention:
    """Who of the heads still speaks: by what they say, and by our own clock."""

    def __init__(self) -> None:
        self._heard: dict[str, tuple[HeadRecord, float]] = {}

    def hears(self, heads: Mapping[str, HeadRecord]) -> None:
        """What each of them has said last; what was said before is not news."""
        now_s = time.monotonic()
        self._heard = {
            name: self._heard[name]
            if name in self._heard and self._heard[name][0] == head
            else (head, now_s)
            for name, head in heads.items()
        }

    def silent_s(self, name: str) -> float:
        """How long it has said nothing new; 0: nobody knows it."""
        if name not in self._heard:
            return 0.0
        return time.monotonic() - self._heard[name][1]

    def known(self) -> list[tuple[HeadRecord, float]]:
        """Each head that was heard, and for how long it has said nothing new."""
        return [(head, self.silent_s(name)) for name, (head, _) in self._heard.items()]

    def present(self) -> list[HeadRecord]:
        """Those that are there."""
        return [head for name, (head, _) in self._heard.items() if self.silent_s(name) < GONE_S]

    def gone(self, after_s: float) -> list[str]:
        """Those that have been silent for so long that nobody waits for them."""
        return [name for name in self._heard if self.silent_s(name) > after_s]
