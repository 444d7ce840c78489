"""Keeps what a provider of quotas outside says on record, and sets there what Rota was told to.

The provider is asked now and then, by a thread, never within a tick. While it is silent what it
said last holds, with a warning; of a project that it never told of nothing starts. Limits are
written only when Rota was told other ones; those that somebody else changed there are shown as
drift and hold.
"""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from rota.controller.chores.elsewhere import in_thread
from rota.controller.commands.commands import SeeQuotas, SetQuotaProvider
from rota.core.facts.errors import RotaError
from rota.core.facts.resources import NOTHING, Amount
from rota.core.facts.site.outer import Outer, limits_there
from rota.core.facts.tenant import UNLIMITED, Access, Actor
from rota.inventory.breaker import Breaker
from rota.quotas.api import QuotaAway, QuotaRefused

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from rota.controller.loop import Host
    from rota.core.cluster import Cluster
    from rota.core.facts.tenant import Limits
    from rota.quotas.api import QuotaSource, SourceAnswer

log = logging.getLogger("rota.controller")

#: How soon a project that comes new, or limits that are to be set, are noticed.
GLANCE_S = 0.5
#: What a project has had changes all the time; a change of this much is news.
LOAD_DIGITS = 3
ROTA = Actor("rota", Access.ADMIN, "quotas")
_FIELDS = (
    ("cpu_milli", "CPUs", 1000),
    ("memory_mib", "GB of memory", 1024),
    ("device_milli", "GPUs", 1000),
)


class ProviderStanding(msgspec.Struct):
    """How things are with the provider; ``state`` is ``waiting``, ``ok`` or ``silent``."""

    provider: str
    state: str = "waiting"
    #: When it last answered; 0: not since Rota started.
    answered_s: float = 0.0
    #: Since when it has not, and why.
    silent_s: float = 0.0
    problem: str = ""


class QuotaSync:
    """Keeps the state in step with one source."""

    def __init__(self, host: Host, source: QuotaSource, poll_s: float) -> None:
        self._host = host
        self._source = source
        self._poll_s = poll_s
        self._breaker = Breaker()
        self._busy = asyncio.Lock()
        self.standing = ProviderStanding(source.name)
        #: By project: what kept it from being read or written.
        self._problems: dict[str, str] = {}
        #: What Rota counted when the provider last told.
        self._counted: dict[str, Amount] = {}

    async def begin(self) -> None:
        """From the first pass on this provider is the one that counts."""
        await self._host.ask(SetQuotaProvider(actor=ROTA, provider=self._source.name))

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            news = self._news()
            if not self._breaker.wait_s(time.monotonic()):
                await self.look()
            due_s = time.monotonic() + self._poll_s
            # A glance looks at accounts only, and is needed only where there is a provider.
            while time.monotonic() < due_s and self._news() <= news:  # noqa: ASYNC110
                await asyncio.sleep(GLANCE_S)

    async def look(self, push: str = "") -> None:
        """Ask once, and act on the answer; ``push``: write this project, whatever it has."""
        async with self._busy:
            problems, written = await self._write(push)
            made = await self._make()
            await self._admit({*written, *made})
            wanted = self._wanted()
            before = {name: self._ours(name) for name in wanted}
            try:
                answer = await in_thread(partial(self._source.read, wanted))
            except (QuotaAway, QuotaRefused) as error:
                self._silent(str(error))
                self._tell(self._problems | problems)
                return
            except (ValueError, TypeError, LookupError, AttributeError) as error:
                log.exception("an answer of %s cannot be read", self._name)
                self._silent(f"its answer makes no sense: {error}")
                return
            self._breaker.succeeded()
            try:
                await self._see(
                    answer, before, {name: o.asked for name, o in written.items()} | made
                )
            except RotaError as error:
                log.warning("what %s says of quotas could not be noted: %s", self._name, error)
                return
            self._tell(problems | answer.problems)
            self.standing = ProviderStanding(self._name, "ok", self._host.clock.now_s())

    def warning(self, project: str) -> str:
        """What people must know of a project's quota; empty: nothing."""
        now, outer = self.standing, self._host.cluster.accounts.outer.get(project)
        parts = []
        if now.state == "silent":
            held = outer is not None and outer.seen_s
            then = "what it said last holds" if held else "until it does, no job of it may start"
            parts.append(f"{self._name} does not answer: {now.problem}; {then}")
        if problem := self._problems.get(project, ""):
            parts.append(problem)
        if outer is not None and outer.asked is not None and self._source.writes:
            parts.append(self._source.writes)
        return "; ".join(parts)

    def synced_s(self, project: str) -> float:
        """When the provider last told of a project; 0: never."""
        outer = self._host.cluster.accounts.outer.get(project)
        if outer is None or not outer.seen_s:
            return 0.0
        return max(outer.seen_s, self.standing.answered_s or outer.seen_s)

    def drift(self, project: str) -> list[str]:
        """Where Rota and the provider differ: in limits that both have, and in what is used."""
        accounts = self._host.cluster.accounts
        outer, known = accounts.outer.get(project), accounts.projects.get(project)
        if outer is None or not outer.seen_s:
            return []
        found = []
        hard = self._source.as_kept(limits_there(known.quota.hard if known else UNLIMITED))
        mine = self._counted.get(project, outer.used)
        for field, unit, size in _FIELDS:
            own, there = getattr(hard, field), getattr(outer.limits, field)
            if own is not None and own != there:
                limit = "no limit" if there is None else f"{there / size:g}"
                found.append(f"limit of {unit}: {own / size:g} in Rota, {limit} in {self._name}")
            counted, used = getattr(mine, field), getattr(outer.used, field)
            if counted != used:
                numbers = f"{counted / size:g} by Rota, {used / size:g} by {self._name}"
                found.append(f"use of {unit}: {numbers}")
        return found

    @property
    def _name(self) -> str:
        return self._source.name

    def _silent(self, problem: str) -> None:
        self._breaker.failed(time.monotonic())
        now = self._host.clock.now_s()
        before = self.standing
        if before.state != "silent" or before.problem != problem:
            log.warning("%s, which has the quotas, does not answer: %s", self._name, problem)
        since_s = before.silent_s if before.state == "silent" else now
        self.standing = ProviderStanding(self._name, "silent", before.answered_s, since_s, problem)

    def _tell(self, problems: dict[str, str]) -> None:
        for project, problem in problems.items():
            if self._problems.get(project) != problem:
                log.warning("the quota of project %s in %s: %s", project, self._name, problem)
        self._problems = problems

    def _wanted(self) -> set[str]:
        """Projects on record, and those that jobs have."""
        accounts = self._host.cluster.accounts
        used = {*accounts.waiting.of, *accounts.holdings.of}
        return {*accounts.projects, *(str(name) for kind, name in used if kind == "project")} - {""}

    def _unwritten(self) -> dict[str, Outer]:
        if self._source.writes:
            return {}
        known = self._host.cluster.accounts.outer.items()
        return {
            name: outer
            for name, outer in known
            if outer.asked is not None and outer.asked != outer.written
        }

    def _news(self) -> set[str]:
        """What there is to ask for or to write, and no attempt has failed to."""
        admit = (f"{name} {user}" for name, users in self._strangers().items() for user in users)
        return {*self._wanted(), *(f"write {name}" for name in self._unwritten()), *admit}

    async def _write(self, push: str) -> tuple[dict[str, str], dict[str, Outer]]:
        """Set what is to be set; what could not be, and what was."""
        cluster, source = self._host.cluster, self._source
        due = self._unwritten()
        known = cluster.accounts.outer.get(push)
        if known is not None and known.asked is not None and not source.writes:
            due[push] = known
        problems: dict[str, str] = {}
        written: dict[str, Outer] = {}
        for name, outer in sorted(due.items()):
            assert outer.asked is not None
            project = cluster.accounts.projects.get(name)
            parent = project.parent if project is not None else ""
            try:
                await in_thread(partial(source.write, name, parent, outer.asked))
            except (QuotaAway, QuotaRefused) as error:
                problems[name] = f"its limits could not be set in {self._name}: {error}"
            else:
                written[name] = outer
        return problems, written

    async def _make(self) -> dict[str, Limits]:
        """Projects on record have a place at the provider, also those without limits."""
        accounts = self._host.cluster.accounts
        lacking = {
            name: project.parent
            for name, project in sorted(accounts.projects.items())
            if (outer := accounts.outer.get(name)) is None or outer.users is None
        }
        if not lacking or self._source.writes:
            return {}
        try:
            made = await in_thread(partial(self._source.make, lacking))
        except (QuotaAway, QuotaRefused) as error:
            log.warning("projects could not be made in %s: %s", self._name, error)
            return {}
        return dict.fromkeys(made, UNLIMITED)

    async def _admit(self, fresh: Collection[str]) -> None:
        """Users with jobs of projects that Rota has made, or whose limits it has set."""
        users = self._strangers(fresh)
        try:
            if users:
                await in_thread(partial(self._source.admit, users))
        except (QuotaAway, QuotaRefused) as error:
            log.warning("users could not be let into %s: %s", self._name, error)

    def _strangers(self, fresh: Collection[str] = ()) -> dict[str, list[str]]:
        """By project that is Rota's there: users with jobs that are not let in yet."""
        outers = self._host.cluster.accounts.outer
        kept = (
            name
            for name, outer in outers.items()
            if outer.written is not None and outer.users is not None
        )
        ours = {*kept, *fresh}
        accounts = self._host.cluster.accounts
        found: dict[str, list[str]] = {}
        # Those with jobs that wait, and with jobs that hold something.
        for kind, both in sorted({*accounts.waiting.of, *accounts.holdings.of}, key=str):
            if kind in ("ready", "account"):
                user, _, name = str(both).partition("\n")
                known = (outers[name].users if name in outers else None) or ()
                if name in ours and user not in (*known, *found.get(name, ())):
                    found.setdefault(name, []).append(user)
        return found

    async def _see(
        self, answer: SourceAnswer, before: dict[str, Amount], written: Mapping[str, Limits | None]
    ) -> None:
        cluster, now_s = self._host.cluster, self._host.clock.now_s()
        known, outers = cluster.accounts.outer, []
        asked = cluster.policy.share.source == "provider"
        for name, seen in sorted(answer.seen.items()):
            mine = self._counted[name] = _most(before[name], self._ours(name))
            last = known.get(name)
            wrote = written.get(name) or (last.written if last is not None else None)
            outers.append(
                Outer(
                    project=name,
                    provider=self._name,
                    limits=seen.limits,
                    used=seen.used,
                    foreign=_less(seen.used, mine),
                    users=None if seen.users is None else tuple(sorted(seen.users)),
                    load=None if seen.load is None or not asked else round(seen.load, LOAD_DIGITS),
                    seen_s=now_s,
                    written=wrote,
                )
            )
        wanted, left = self._wanted(), self._unwritten()
        gone = tuple(name for name in sorted(known) if name and name not in {*wanted, *left})
        await self._host.ask(SeeQuotas(actor=ROTA, outers=tuple(outers), gone=gone))

    def _ours(self, project: str) -> Amount:
        """What attempts of Rota hold in engines, as far as the provider counts them."""
        cluster, held = self._host.cluster, NOTHING
        names = cluster.accounts.below(project) if self._source.nested else [project]
        for name in names:
            for number in cluster.census.active_in.get(("project", name), ()):
                held = held.plus(_in_engines(cluster, number, self._source))
        return held


def _in_engines(cluster: Cluster, number: int, source: QuotaSource) -> Amount:
    held = NOTHING
    for attempt in cluster.jobs[number].live_attempts:
        node = cluster.nodes.get(attempt.allocation.node)
        waits = not attempt.started_s and source.is_held(attempt.detail)
        if node is not None and node.spec.engine and not waits:
            held = held.plus(cluster.accounts.holdings.count_of(attempt).kept)
    return held


def _most(one: Amount, other: Amount) -> Amount:
    """What starts or ends while the provider is asked counts as ours: it sees the rest itself."""
    return Amount(
        max(one.cpu_milli, other.cpu_milli),
        max(one.memory_mib, other.memory_mib),
        0,
        max(one.device_milli, other.device_milli),
    )


def _less(used: Amount, mine: Amount) -> Amount:
    return Amount(
        max(0, used.cpu_milli - mine.cpu_milli),
        max(0, used.memory_mib - mine.memory_mib),
        0,
        max(0, used.device_milli - mine.device_milli),
    )
