"""When each waiting job will probably start, worked out beside the ticks, and learned from starts.

The plan of the whole line is made in a thread, from a copy of what it needs. The first word about
a job is kept until it starts; then the bands learn from it. What they learned is a bookmark in
the store; run times are those that the controller itself has learned.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_left
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from rota.controller.chores.rounds import rounds
from rota.controller.tick.forecast import size_of
from rota.core.changes import events as ev
from rota.core.facts.array import Array
from rota.core.facts.errors import RotaError
from rota.scheduling.answers.bands import BandRecord, Bands
from rota.scheduling.answers.line_plan import LONG
from rota.scheduling.answers.waiting_line import line_in_steps, packed, piece_of
from rota.scheduling.answers.words import Said, ToldWords
from rota.scheduling.later.predict_runs import kinds_of
from rota.scheduling.limits.least import least_on
from rota.scheduling.order.lengths import run_s_of

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from rota.controller.loop import Host
    from rota.core.changes.events import Recorded
    from rota.core.facts.job import Job, JobSpec
    from rota.scheduling.answers.reasons import Expected
    from rota.scheduling.answers.waiting_line import Part, WaitingLine
    from rota.scheduling.later.predict_runs import Kind
    from rota.store.api import Store

log = logging.getLogger("rota.controller")

#: How often the line is looked at, if anything happened, and even if nothing did.
EVERY_S, ANYWAY_S = 2.0, 60.0
#: How long a long line is left alone, for each job in it.
REST_S = 0.002
#: What was learned is saved at most so often.
SAVE_S = 60.0
BOOKMARK = "bands"
#: Fewer runs of jobs of other names say nothing of a job: its limit stands in.
RUNS_MIN = 10


class Foretelling:
    """The words about all jobs that wait, as of the last look."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.bands = Bands()
        self._words = ToldWords()
        self._line: WaitingLine | None = None
        self._planned_s: dict[int, float] = {}
        #: When the jobs that run leave, in order, from the last look on.
        self._ends: list[tuple[float, int]] = []
        self._looked_s, self._seen, self._saved_s = 0.0, 0, 0.0
        self._saved = 0
        host.watch.listeners.append(self.hear)

    async def run(self) -> None:
        """For ever; a database that is away only puts off what is saved."""
        await self.load()
        await rounds("foretelling starts", self._round, EVERY_S, EVERY_S)

    async def _round(self) -> None:
        await self.look()
        await self.save()

    async def look(self) -> None:
        """Plan the line, if anything happened; the longer it is, the less often."""
        host, now_s = self._host, self._host.clock.now_s()
        rest_s = len(self.jobs) * REST_S if len(self.jobs) > LONG else 0.0
        least_s = ANYWAY_S if host.newest_seq == self._seen else rest_s
        if now_s - self._looked_s < least_s:
            return
        self._seen, self._looked_s = host.newest_seq, now_s
        line = self._line = await _in_turns(line_in_steps(host.scheduler, now_s, self._lasts_s))
        waits_s = await asyncio.to_thread(line.play)
        self._planned_s = dict(zip(line.jobs, waits_s, strict=True))
        ends_s = [piece.run_s for piece in line.running]
        self._ends = sorted(zip(ends_s, line.holders, strict=True))
        for job in [job for job in self._words.jobs if job not in self._planned_s]:
            if job not in host.cluster.jobs or job in host.cluster.lanes.where:
                self._words.forget(job)
        self._words.pass_time(now_s, self.bands)
        for job, planned_s in self._planned_s.items():
            if planned_s < float("inf"):
                self._words.keep(job, Said(now_s, self.bands.say(planned_s)))

    @property
    def jobs(self) -> list[int]:
        """All that something is said of, in the order of the policy."""
        return self._line.jobs if self._line is not None else []

    def of_item(self, item: Job | Array) -> Said | None:
        """Of an array: of its first element that waits."""
        if isinstance(item, Array):
            pending = item.pending()
            return self.of(item.element_id(pending.first())) if pending else None
        return self.of(item.id)

    def of(self, job: int) -> Said | None:
        """What is to be said of a job now; None: nothing is known, or it waits for no room."""
        planned_s = self._planned_s.get(job)
        if planned_s is None or planned_s == float("inf"):
            return None
        return Said(self._looked_s, self.bands.say(planned_s), self._runs_behind(planned_s))

    def _runs_behind(self, planned_s: float) -> int | None:
        """How many runs tell when the job ends whose end lies nearest to a planned start."""
        ends = self._ends
        if not ends or not planned_s:
            return None
        at = bisect_left(ends, (planned_s, 0))
        _, number = min(ends[max(at - 1, 0) : at + 1], key=lambda end: abs(end[0] - planned_s))
        job = self._host.cluster.jobs.get(number)
        return self._runs_of(job.spec) if job is not None else None

    def by(self, expected: Expected) -> Said:
        """Of a job of which is known when it will take the room of others."""
        now_s = self._host.clock.now_s()
        return Said(now_s, self.bands.say(max(expected.start_s - now_s, 0.0)))

    def of_new(self, spec: JobSpec, ahead: int, part: Part) -> Said | None:
        """The same for a job that would stand behind ``ahead`` others and may use these nodes.

        A long line takes long.
        """
        line, now_s = self._line, self._host.clock.now_s()
        if line is None or not (part := part.intersection(line.total)):
            return None
        cluster = self._host.cluster
        size = packed(least_on(cluster, cluster.lanes.shape_of(spec)))
        passes_s = run_s_of(cluster, spec, spec.roles)
        piece = piece_of(cluster, spec, size, passes_s, self._lasts_s)
        at = min(ahead, len(line.pieces))
        more = line._replace(
            pieces=[*line.pieces[:at], piece, *line.pieces[at:]],
            parts=[*line.parts[:at], part, *line.parts[at:]],
        )
        planned_s = more.play(at)[at]
        if planned_s == float("inf"):
            return None
        return Said(now_s, self.bands.say(planned_s), self._runs_behind(planned_s))

    def hear(self, records: Sequence[Recorded]) -> None:
        """Starts teach how far words are to be trusted."""
        for record in records:
            event = record.event
            if isinstance(event, ev.AttemptStarted):
                self._words.start(event.job, event.started_s, self.bands)
            elif isinstance(event, ev.JobSettled):
                self._words.forget(event.job)

    def _lasts_s(self, spec: JobSpec, ran_s: float) -> float:
        predictor, limit_s = self._host.forecast.predictor, _limit_s(spec)
        return predictor.middle_s(_kinds_of(spec), limit_s, ran_s, RUNS_MIN)

    def _runs_of(self, spec: JobSpec) -> int:
        return self._host.forecast.predictor.runs_of(_kinds_of(spec), RUNS_MIN)

    async def load(self) -> None:
        """What an earlier life learned."""
        try:
            kept = await self._host.read(lambda store: store.bookmark(BOOKMARK))
        except RotaError as error:
            log.warning("what was learned about starts cannot be read: %s", error)
            return
        if kept:
            try:
                self.bands = Bands(msgspec.json.decode(kept, type=BandRecord))
            except msgspec.MsgspecError:
                log.info("what was learned about starts has another form; it is learned anew")
        self._saved = self.bands.told

    async def save(self) -> None:
        """Keep what was learned, if that is more than was kept."""
        now_s = self._host.clock.now_s()
        if self.bands.told == self._saved or now_s - self._saved_s < SAVE_S:
            return
        self._saved, self._saved_s = self.bands.told, now_s
        text = msgspec.json.encode(self.bands.record).decode()
        await self._host.write(partial(_keep, text))


async def _in_turns(steps: Generator[None, None, WaitingLine]) -> WaitingLine:
    """Between two steps the loop has its turn: no tick waits for a long line."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            line: WaitingLine = done.value
            return line
        await asyncio.sleep(0)


def _limit_s(spec: JobSpec) -> float:
    return float(spec.time_limit_s or spec.estimate_s)


def _kinds_of(spec: JobSpec) -> tuple[Kind, ...]:
    return kinds_of(spec.user, spec.name, size_of(spec), _limit_s(spec))


def _keep(text: str, store: Store) -> None:
    store.set_bookmark(BOOKMARK, text)
