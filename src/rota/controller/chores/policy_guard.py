"""A change of the rules on trial: undone when jobs wait longer than the replay foretold.

A replay says how long the jobs of each project would have waited under these rules. For some
days what they really wait is compared with that. Nothing is counted on the side: waits are
those of the jobs on record that came since. The guard is a bookmark in the store, so that a
restart goes on with it. It ends by itself when its time is over, or when the rules are changed
again.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from rota.controller.chores.rounds import rounds
from rota.controller.commands.commands import SetPolicy
from rota.controller.past import read_jobs
from rota.core.facts.states import WAITING
from rota.core.facts.tenant import Access, Actor
from rota.core.words.policy_text import flatten
from rota.core.words.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.controller.loop import Host
    from rota.core.facts.job import Job
    from rota.core.facts.policy import Policy
    from rota.store.api import Store

log = logging.getLogger("rota.controller")

ROTA = Actor("rota", Access.ADMIN, "policy guard")
#: How often waits are looked at.
EVERY_S = 60.0
#: Fewer jobs of a project say nothing about its waits.
LEAST = 10
#: The newest jobs that are looked at.
JOBS_MAX = 5000
#: A mean wait below this is no reason to undo anything.
NOTICED_S = 60.0
BOOKMARK = "policy-guard"


class Guard(msgspec.Struct, frozen=True, kw_only=True):
    """What was changed, what to go back to, and how long jobs may wait meanwhile."""

    name: str
    since_s: float
    until_s: float
    #: The rules that were changed, by their keys: as they are now, and as they were.
    rules: dict[str, Any]
    undo: dict[str, Any]
    #: By project, the longest mean wait that was foretold.
    most_s: dict[str, float]
    #: The same of all jobs together: for projects that the replay did not have.
    others_s: float
    #: Why it watches no more; empty: it does.
    ended: str = ""


class Breach(NamedTuple):
    """A project whose jobs wait longer than was foretold."""

    project: str
    jobs: int
    mean_s: float
    most_s: float

    def __str__(self) -> str:
        whose = f"project {self.project}" if self.project else "no project"
        return (
            f"{self.jobs} jobs of {whose} waited {_span(self.mean_s)} on average, "
            f"foretold were at most {_span(self.most_s)}"
        )


def breach_of(guard: Guard, jobs: Iterable[Job], now_s: float) -> Breach | None:
    """The project that is worst off against what was foretold; None: all are within it.

    A job that waits still counts with its wait so far.
    """
    waits: dict[str, list[float]] = {}
    for job in jobs:
        wait_s = _wait_s(job, now_s)
        if job.submitted_s >= guard.since_s and wait_s is not None:
            waits.setdefault(job.spec.project, []).append(wait_s)
    found = [
        Breach(project, len(own), sum(own) / len(own), _most_s(guard, project))
        for project, own in waits.items()
        if len(own) >= LEAST
    ]
    beyond = [one for one in found if one.mean_s > one.most_s]
    return max(beyond, key=lambda one: one.mean_s / one.most_s, default=None)


def _most_s(guard: Guard, project: str) -> float:
    return max(guard.most_s.get(project, guard.others_s), NOTICED_S)


def _wait_s(job: Job, now_s: float) -> float | None:
    """From the submit to the first start; None: it left before one, or waits for something else."""
    starts = [a.started_s for task in job.tasks for a in task.attempts if a.started_s]
    if starts:
        return max(min(starts) - job.submitted_s, 0.0)
    if job.state in WAITING and job.eligible_s:
        return max(now_s - job.submitted_s, 0.0)
    return None


class PolicyGuard:
    """Watches the last change of the rules that was applied."""

    def __init__(self, host: Host) -> None:
        self._host = host
        #: The last one, also after it ended; None: none was ever set.
        self.guard: Guard | None = None

    async def run(self) -> None:
        """For ever."""
        await self.load()
        await rounds("guarding the rules", self.look, EVERY_S)

    async def load(self) -> None:
        kept = await self._host.read(lambda store: store.bookmark(BOOKMARK))
        if kept:
            try:
                self.guard = msgspec.json.decode(kept, type=Guard)
            except msgspec.MsgspecError:
                log.warning("the guard of the rules has another form, and is dropped")

    async def watch(self, guard: Guard) -> None:
        """On record before the rules change: a crash in between leaves a guard that ends."""
        await self._keep(guard)

    async def look(self) -> None:
        await self.judge(self._host.clock.now_s())

    async def judge(self, now_s: float) -> None:
        """Is the change still there, does any project wait too long, is its time over?"""
        guard, host = self.guard, self._host
        if guard is None or guard.ended:
            return
        if not _holds(guard.rules, host.cluster.policy):
            await self._end(guard, "the rules were changed again")
            return
        await host.on_disk()
        jobs, _ = await host.read(lambda store: read_jobs(store, guard.since_s, JOBS_MAX))
        breach = breach_of(guard, jobs, now_s)
        if breach is not None:
            await host.ask(SetPolicy(actor=ROTA, rules=guard.undo))
            log.warning("%s is undone: %s", guard.name, breach)
            await self._end(guard, f"undone: {breach}")
        elif now_s >= guard.until_s:
            await self._end(guard, "kept: no project waited longer than was foretold")

    async def _end(self, guard: Guard, why: str) -> None:
        await self._keep(msgspec.structs.replace(guard, ended=why))

    async def _keep(self, guard: Guard) -> None:
        self.guard = guard
        await self._host.write(partial(_write, msgspec.json.encode(guard).decode()))


def _holds(rules: dict[str, Any], policy: Policy) -> bool:
    """Whether all of these rules are in force."""
    now = msgspec.to_builtins(flatten(policy))
    return all(now.get(key) == value for key, value in rules.items())


def _write(text: str, store: Store) -> None:
    store.set_bookmark(BOOKMARK, text)


def _span(seconds: float) -> str:
    return format_duration(round(seconds))
