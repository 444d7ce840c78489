"""Limits that are nearly used up, or wholly: found, and put on record once for the receivers."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from rota.api.site.usage import budget_views
from rota.api.views.quota_use import AccountKind, quota_uses
from rota.controller.commands.commands import NoteQuota
from rota.core.facts.errors import RotaError
from rota.core.facts.tenant import Access, Actor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.controller.loop import Host
    from rota.core.cluster import Cluster
    from rota.store.api import Store

log = logging.getLogger("rota.api")

ROTA = Actor("rota", Access.ADMIN, "quotas")
#: Per cent of a limit that are worth a word, the higher ones first.
LEVELS = (100, 80)
LOOK_S = 15.0
#: The same is told again when it was not so for this long: use swings with every job.
QUIET_S = 3600.0
BOOKMARK = "quota alerts"


class Alert(NamedTuple):
    """A limit of which 80 % or all is used now; of money, within its period."""

    kind: AccountKind
    name: str
    resource: str
    used: float
    limit: float
    percent: float
    level: int

    @property
    def words(self) -> str:
        return f"{self.used:g} of {self.limit:g} {self.resource} ({self.percent:g} %)"


class AlertTold(msgspec.Struct):
    """What was told of one limit, and when it was last so."""

    level: int
    so_s: float


def alerts(cluster: Cluster, now_s: float) -> list[Alert]:
    """The fullest first."""
    found = [*_held(cluster), *_spent(cluster, now_s)]
    return sorted(found, key=lambda alert: (-alert.percent, alert.kind, alert.name, alert.resource))


def _held(cluster: Cluster) -> Iterator[Alert]:
    for use in quota_uses(cluster):
        if level := _level(use.part):
            yield Alert(*use, round(100 * use.part, 1), level)


def _spent(cluster: Cluster, now_s: float) -> Iterator[Alert]:
    for budget in budget_views(cluster, now_s):
        limit = budget.hard if budget.hard is not None else budget.soft
        part = budget.spent / limit if limit else float(bool(budget.spent))
        if level := _level(part):
            facts = (budget.kind, budget.name, "money", budget.spent, limit or 0.0)
            yield Alert(*facts, round(100 * part, 1), level)


def _level(part: float) -> int:
    return next((level for level in LEVELS if 100 * part >= level), 0)


class QuotaWatch:
    """Looks now and then. The store keeps what was told: a restart repeats nothing."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._told: dict[str, AlertTold] = {}

    async def run(self) -> None:
        """Until cancelled."""
        await self.recall()
        while True:
            try:
                await self.look()
            except RotaError as error:
                log.warning("what is used of quotas could not be noted: %s", error)
            await asyncio.sleep(LOOK_S)

    async def recall(self) -> None:
        """What an earlier life of this store has told."""
        said = await self._host.read(lambda store: store.bookmark(BOOKMARK))
        self._told = msgspec.json.decode(said, type=dict[str, AlertTold]) if said else {}

    async def look(self) -> None:
        """Put on record what has reached a level that was not told yet."""
        now_s = self._host.clock.now_s()
        told = {key: one for key, one in self._told.items() if now_s - one.so_s < QUIET_S}
        news = len(told) != len(self._told)
        for alert in alerts(self._host.cluster, now_s):
            key = f"{alert.kind} {alert.name} {alert.resource}"
            known = told.get(key)
            if known is None or known.level < alert.level:
                news = True
                await self._note(alert)
            level = max(alert.level, known.level if known is not None else 0)
            told[key] = AlertTold(level, now_s)
        self._told = told
        if news:
            await self._host.write(partial(_keep, msgspec.json.encode(told).decode()))

    async def _note(self, alert: Alert) -> None:
        whose = {alert.kind: alert.name}
        await self._host.ask(NoteQuota(actor=ROTA, level=alert.level, note=alert.words, **whose))


def _keep(told: str, store: Store) -> None:
    store.set_bookmark(BOOKMARK, told)
