"""Whether a recorded log follows from the rules: every pass is made again and compared.

The events of a log are folded tick by tick into a Cluster. Where the controller made a pass, the
same pass is made on the folded state, and what it decides must be what was recorded, event by
event and in the same order.

A tick is a run of records with one time. In it the events of the pass come last and are recorded
on behalf of ``passing.SCHEDULER``. Passes that decided nothing and the beginnings of new
controllers are in ``PassesMade``. What timers and callers caused is in the log as such; of timers
only those are rung again that make a pass look.
"""

from __future__ import annotations

from heapq import heapify
from typing import TYPE_CHECKING

import msgspec

from rota.controller.tick.plan_events import SCHEDULER, Passes
from rota.controller.tick.scribe import Scribe
from rota.controller.tick.timers import RINGS
from rota.core.changes import events as ev
from rota.core.changes.apply import apply
from rota.core.changes.events import AnyEvent
from rota.core.cluster import Cluster
from rota.core.facts.errors import Rejected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rota.core.changes.events import Recorded
    from rota.core.facts.policy import Policy
    from rota.scheduling.registry import Catalog

#: Timers that change no fact but let a pass look again.
LOOKS = ("pass", "reservation")


class Difference(msgspec.Struct, frozen=True):
    """Where a replay first parts from the log; None: nothing on that side."""

    at_s: float
    #: Of the first event of the tick.
    seq: int
    recorded: AnyEvent | None
    came_out: AnyEvent | None

    @property
    def job(self) -> int:
        """The job that it is about; 0: none."""
        event = self.recorded if self.recorded is not None else self.came_out
        return int(getattr(event, "job", 0) or getattr(event, "array", 0))


class ReplayVerdict(msgspec.Struct):
    """What a replay found."""

    events: int = 0
    passes: int = 0
    #: Jobs (or members that join a running one) that were given room, and jobs that gave way.
    decisions: int = 0
    #: How often a controller began, the first one included.
    controllers: int = 0
    #: Passes that could not be compared because a plug-in had failed.
    unsure: int = 0
    first_s: float = 0.0
    last_s: float = 0.0
    difference: Difference | None = None


def verify(
    log: Iterable[Recorded], load: Callable[[Policy], Catalog] | None = None
) -> ReplayVerdict:
    """Make every pass of a log again, up to the first difference.

    ``load`` finds the plug-ins that a policy names. A log with holes (old events are dropped
    after a while, if the site wants that) is refused: what it leads to cannot be known.
    """
    replay = _Replay(load)
    for tick in ticks(log):
        replay.play(tick)
        if replay.verdict.difference is not None:
            break
    return replay.verdict


def ticks(log: Iterable[Recorded]) -> Iterator[list[Recorded]]:
    """The records of each tick; refuses a log of which parts are gone."""
    tick: list[Recorded] = []
    expected = 1
    for record in log:
        if record.seq != expected:
            raise Rejected(
                f"log: events {expected} to {record.seq - 1} are gone (old jobs were forgotten, as"
                " server.retention_days asks); decisions can be replayed only from the first event"
                " on: give the folder of retention.archive where there is one",
                field="log",
            )
        expected += 1
        if tick and _is_next(tick[-1], record):
            yield tick
            tick = []
        tick.append(record)
    if tick:
        yield tick


def _is_next(last: Recorded, record: Recorded) -> bool:
    """Whether a record belongs to a later tick: another time, or a pass was over."""
    passed = last.actor == SCHEDULER and record.actor != SCHEDULER
    return record.at_s != last.at_s or passed


class _Replay:
    """The state as folded so far, and the passes over it."""

    def __init__(self, load: Callable[[Policy], Catalog] | None) -> None:
        self.verdict = ReplayVerdict()
        self._load = load
        self._cluster = Cluster()
        self._passes = Passes(self._cluster, load)
        #: A plug-in failed: what passes decide since then may depend on how fast a machine was.
        self._unsure = False

    def play(self, tick: list[Recorded]) -> None:
        first, verdict = tick[0], self.verdict
        verdict.events += len(tick)
        verdict.first_s = verdict.first_s or first.at_s
        verdict.last_s = first.at_s
        verdict.controllers += first.seq == 1
        made = [record.event for record in tick if isinstance(record.event, ev.PassesMade)]
        decided = [record.event for record in tick if record.actor == SCHEDULER]
        decided = [event for event in decided if not isinstance(event, ev.PassesMade)]
        self._catch_up(made)
        for record in tick:
            if record.actor != SCHEDULER:
                self._happened(record)
        reopened = any(first.at_s in event.reopened_s for event in made)
        self._pass(first.at_s, decided, first.seq, reopened=reopened)
        self._cluster.take_dirty()

    def _catch_up(self, made: list[ev.PassesMade]) -> None:
        """What the log did not tell when it happened."""
        for event in made:
            if event.anew:
                self._begin_anew()
            for at_s in event.quiet_s:
                self._pass(at_s, [], 0, reopened=at_s in event.reopened_s)

    def _begin_anew(self) -> None:
        """A new controller knows the facts and nothing else."""
        self.verdict.controllers += 1
        timers = [timer for timer in self._cluster.agenda.timers if timer.kind != "pass"]
        heapify(timers)
        self._cluster.agenda.timers = timers
        self._passes = Passes(self._cluster, self._load)
        self._unsure = False

    def _happened(self, record: Recorded) -> None:
        if isinstance(record.event, ev.AttemptPlaced):
            raise Rejected(
                f"log: event {record.seq} was recorded by an older Rota, which did not say where"
                " a pass begins; it cannot be replayed",
                field="log",
            )
        apply(self._cluster, record.event, record.at_s)
        if isinstance(record.event, ev.PolicySet) and self._unsure:
            self._passes = Passes(self._cluster, self._load)
            self._unsure = False

    def _pass(self, at_s: float, decided: list[AnyEvent], seq: int, *, reopened: bool) -> None:
        if self.verdict.difference is not None:
            return
        self.verdict.passes += 1
        self._unsure = self._unsure or any(isinstance(e, ev.RuleDropped) for e in decided)
        if self._unsure:
            self.verdict.unsure += 1
            for event in decided:
                apply(self._cluster, event, at_s)
            return
        scribe = Scribe(self._cluster, at_s, 1)
        while (timer := self._cluster.agenda.pop_due(at_s)) is not None:
            if timer.kind in LOOKS:
                RINGS[timer.kind](scribe, timer)
        if reopened:
            self._cluster.rules_changed()
        self._passes.run(scribe)
        came_out = [record.event for record in scribe.recorded]
        came_out = [event for event in came_out if not isinstance(event, ev.PassesMade)]
        self._compare(at_s, seq, decided, came_out)

    def _compare(
        self, at_s: float, seq: int, decided: list[AnyEvent], came_out: list[AnyEvent]
    ) -> None:
        if decided == came_out:
            self.verdict.decisions += count_decisions(decided)
            return
        for place in range(max(len(decided), len(came_out))):
            one = decided[place] if place < len(decided) else None
            other = came_out[place] if place < len(came_out) else None
            if one != other:
                self.verdict.difference = Difference(at_s, seq, one, other)
                return


def count_decisions(events: list[AnyEvent]) -> int:
    """Jobs that were given room, and jobs that had to give way."""
    placed = {event.job for event in events if isinstance(event, ev.AttemptPlaced)}
    stopped = (ev.AttemptStopAsked, ev.JobSuspended)
    gave_way = {event.job for event in events if isinstance(event, stopped)}
    return len(placed) + len(gave_way)
