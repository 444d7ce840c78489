"""Faults in a seeded order: what breaks, for how long, and what is mended when."""

from __future__ import annotations

import heapq
import itertools
import os
import random
import signal
import time
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

from tests.network import witness
from tests.network.ether import Weather

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.network.site import Node, Site
    from tests.support.postgres import PostgresServer

CUT = Weather(cut=True)
#: Jobs are handed in while it storms, so many at a time.
BATCH = 25
SETTLE_S = 120.0
#: What the grace of a job may become.
GRACES = (0, 1, 3)


class Database(NamedTuple):
    """What keeps the state, where that is a server."""

    server: PostgresServer
    url: str

    @property
    def address(self) -> str:
        """For a controller in a network namespace of its own."""
        return self.server.by_socket(self.url)


class Storm:
    """Runs jobs on a site and breaks things meanwhile; afterwards everything is mended."""

    def __init__(
        self, site: Site, jobs: int, seed: int, pause_s: float, *, murders: bool = False,
        database: Database | None = None,
    ) -> None:  # fmt: skip
        """``pause_s`` lies between two faults, on average. ``database``: it breaks, too."""
        self._site = site
        self._database = database
        self._rare = list(_MURDER) if murders else []
        self._rare += _OF_DATABASE if database is not None else []
        self._chance = random.Random(seed)
        self._plans = witness.plans(jobs, self._chance)
        self._pause_s = pause_s
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        #: (what, node): a link and a process of one node may well be in trouble at once.
        self._troubled: set[tuple[str, str]] = set()
        self._head_away = False
        #: Faults to come: all kinds come up before one of them comes up again too often.
        self._deck: list[str] = []
        self._numbers: dict[int, int] = {}
        self._began_s = time.monotonic()
        self._next_fault_s = 0.0
        #: What was done, in words, with the second at which it began.
        self.story: list[str] = []

    def run(self, book: witness.Book) -> list[str]:
        """Everything that went wrong; nothing: no job lost, none live twice, all codes right."""
        waiting = [self._plans[n : n + BATCH] for n in range(0, len(self._plans), BATCH)]
        while waiting or self._site_is_busy():
            self._step()
            if waiting and not self._head_away:
                self._submit(waiting.pop(0), book)
        self._mend()
        self._settle()
        records = {self._numbers[r["id"]]: r for r in self._site.records()}
        found = witness.faults(self._plans, records, book)
        if "Traceback" in self._site.logs():
            found.append("there is a traceback in the logs")
        return found

    def tally(self, book: witness.Book) -> str:
        """The closing line: how much happened."""
        lines = book.lines()
        begun = sum(word == "began" for word, *_ in lines)
        again = begun - len(self._plans)
        counts = Counter(line.split()[1] for line in self.story)
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
        ether = self._site.ether
        return (
            f"{len(self._plans)} jobs, {begun} starts ({again} again after a lost node), "
            f"{len(self.story)} faults ({kinds}), {ether.carried} packets carried, "
            f"{ether.dropped} dropped, {time.monotonic() - self._began_s:.0f} s"
        )

    def _submit(self, plans: list[witness.Plan], book: witness.Book) -> None:
        key = f"batch-{plans[0].number}"
        ids = self._site.submit([plan.request(book.folder) for plan in plans], key)
        self._numbers |= {job: plan.number for job, plan in zip(ids, plans, strict=True)}

    def _site_is_busy(self) -> bool:
        """Whether it is worth to go on: once little is left, it is time to mend."""
        if self._head_away:
            return True
        return len(self._site.unfinished()) > len(self._plans) // 10

    def _step(self) -> None:
        """Do what is due; then a short rest."""
        now_s = time.monotonic()
        while self._due and self._due[0][0] <= now_s:
            heapq.heappop(self._due)[2]()
        if now_s >= self._next_fault_s:
            self._next_fault_s = now_s + self._chance.expovariate(1 / self._pause_s)
            self._break_something()
        time.sleep(0.05)

    def _later(self, wait_s: float, work: Callable[[], None]) -> None:
        heapq.heappush(self._due, (time.monotonic() + wait_s, next(self._order), work))

    def _break_something(self) -> None:
        if not self._deck:
            self._deck = [*_OF_LINKS, *_OF_AGENTS] * 2 + [*_OF_HEAD, *self._rare]
            self._chance.shuffle(self._deck)
        kind = self._deck.pop()
        lasts_s = self._chance.choice((0.4, 0.8, 1.3, 2.5)) * self._site.lease_s
        if kind in _OF_HEAD or kind in _OF_DATABASE:
            if not self._head_away:
                self._tell(kind, "head", lasts_s)
                (_OF_HEAD | _OF_DATABASE)[kind](self, lasts_s)
            return
        part = "link" if kind in _OF_LINKS else "agent"
        fair = [node for node in self._site.nodes if (part, node.name) not in self._troubled]
        if fair:
            node = self._chance.choice(fair)
            self._troubled.add((part, node.name))
            self._tell(kind, node.name, lasts_s)
            (_OF_LINKS | _OF_AGENTS | _MURDER)[kind](self, node, lasts_s)

    def _tell(self, kind: str, whom: str, lasts_s: float) -> None:
        at_s = time.monotonic() - self._began_s
        self.story.append(f"{at_s:6.1f} {kind} {whom} {lasts_s:.1f} s")

    def _mend_weather(self, node: Node, lasts_s: float) -> None:
        def mend() -> None:
            node.weather()
            self._troubled.discard(("link", node.name))

        self._later(lasts_s, mend)

    def _cut(self, node: Node, lasts_s: float) -> None:
        node.weather(to_head=CUT, from_head=CUT)
        self._mend_weather(node, lasts_s)

    def _mute(self, node: Node, lasts_s: float) -> None:
        node.weather(to_head=CUT)
        self._mend_weather(node, lasts_s)

    def _deafen(self, node: Node, lasts_s: float) -> None:
        node.weather(from_head=CUT)
        self._mend_weather(node, lasts_s)

    def _delay(self, node: Node, lasts_s: float) -> None:
        """Late, in another order, twice or not at all."""
        late_s = self._chance.choice((0.02, 0.1, 0.3))
        bad = Weather(delay_s=late_s, jitter_s=2 * late_s, loss=0.05, twice=0.05)
        node.weather(to_head=bad, from_head=bad)
        self._mend_weather(node, 2 * lasts_s)

    def _kill(self, node: Node, lasts_s: float) -> None:
        """Its agent dies without a word, and is started again; its jobs live on."""
        node.tell(signal.SIGKILL)

        def mend() -> None:
            node.start()
            self._troubled.discard(("agent", node.name))

        self._later(self._chance.choice((0.0, lasts_s)), mend)

    def _kill_keeper(self, node: Node, lasts_s: float) -> None:
        """Its agent starts another one, which adopts the jobs; how they end nobody can tell."""
        node.kill_keeper()
        self._later(lasts_s, lambda: self._troubled.discard(("agent", node.name)))

    def _murder(self, node: Node, lasts_s: float) -> None:
        """Keeper and agent at once, on a node that is cut off: the next keeper has to know until
        when its jobs may live.
        """
        if ("link", node.name) not in self._troubled:
            self._troubled.add(("link", node.name))
            self._cut(node, lasts_s)
        node.tell(signal.SIGKILL)
        node.kill_keeper()
        node.start()
        self._later(lasts_s, lambda: self._troubled.discard(("agent", node.name)))

    def _freeze(self, node: Node, lasts_s: float) -> None:
        node.tell(signal.SIGSTOP)

        def mend() -> None:
            node.tell(signal.SIGCONT)
            self._troubled.discard(("agent", node.name))

        self._later(lasts_s, mend)

    def _freeze_keeper(self, node: Node, lasts_s: float) -> None:
        """It ends nothing meanwhile: nothing may be given up on its node, which is in touch."""
        if ("link", node.name) in self._troubled:
            self._troubled.discard(("agent", node.name))
            return
        self._troubled.add(("link", node.name))
        go_on = node.freeze_keeper()

        def mend() -> None:
            go_on()
            self._troubled -= {("link", node.name), ("agent", node.name)}

        self._later(lasts_s, mend)

    def _change_grace(self, _lasts_s: float) -> None:
        """For later attempts only: what runs keeps the grace that it was launched with."""
        for job in self._site.unfinished():
            # A job that has ended meanwhile is not changed, and says so. It may be said twice.
            change = {"grace_s": self._chance.choice(GRACES)}
            self._site.head.api("PATCH", f"/jobs/{job}", change, {"Idempotency-Key": "grace"})

    def _kill_controller(self, _lasts_s: float) -> None:
        """The supervisor starts another one at once."""
        self._site.head.kill("controller")

    def _kill_head(self, lasts_s: float) -> None:
        """Nobody starts another one before we do, and that one may have another lease."""
        self._head_away = True
        self._site.head.kill("supervisor", "controller")

        def mend() -> None:
            self._site.head.set_lease(self._chance.choice((1, 2)) * self._site.lease_s)
            self._site.head.up("--no-agent")
            self._head_away = False

        self._later(lasts_s, mend)

    def _stall(self, lasts_s: float) -> None:
        """It stands still for a while: when it goes on, it must not blame others for that."""
        controller = os.pidfd_open(self._site.head.living("controller"))
        signal.pidfd_send_signal(controller, signal.SIGSTOP)
        self._head_away = True

        def mend() -> None:
            signal.pidfd_send_signal(controller, signal.SIGCONT)
            os.close(controller)
            self._head_away = False

        self._later(lasts_s, mend)

    def _hang_up(self, _lasts_s: float) -> None:
        """The database ends all connections of the controller, as it does in a failover."""
        assert self._database is not None
        self._database.server.terminate(self._database.url)

    def _freeze_database(self, lasts_s: float) -> None:
        assert self._database is not None
        frozen = ExitStack()
        frozen.enter_context(self._database.server.frozen())
        self._head_away = True

        def mend() -> None:
            frozen.close()
            self._head_away = False

        self._later(lasts_s, mend)

    def _mend(self) -> None:
        """Everything at once, and no more faults."""
        due, self._due = self._due, []
        for _, _, work in sorted(due, key=lambda item: item[:2]):
            work()
        self._site.ether.clear_up()

    def _settle(self) -> None:
        end_s = time.monotonic() + SETTLE_S
        while self._site.unfinished() or set(self._site.states()) != {"up"}:
            if time.monotonic() > end_s:
                return  # The judge names what is missing.
            time.sleep(0.05)


_OF_LINKS: dict[str, Callable[..., None]] = {
    "cut": Storm._cut,
    "mute": Storm._mute,
    "deafen": Storm._deafen,
    "delay": Storm._delay,
}
_OF_AGENTS: dict[str, Callable[..., None]] = {
    "kill": Storm._kill,
    "freeze": Storm._freeze,
    "keeper": Storm._kill_keeper,
    "numb": Storm._freeze_keeper,
}
#: The lease goes on while an agent starts: this is for machines and leases that leave it the time.
_MURDER: dict[str, Callable[..., None]] = {"murder": Storm._murder}
#: Without a controller nothing else can be seen to break: that happens half as often.
_OF_HEAD: dict[str, Callable[..., None]] = {
    "controller": Storm._kill_controller,
    "head": Storm._kill_head,
    "stall": Storm._stall,
    "grace": Storm._change_grace,
}
#: Only where it is a server.
_OF_DATABASE: dict[str, Callable[..., None]] = {
    "hang-up": Storm._hang_up,
    "database": Storm._freeze_database,
}
