"""What the controller tells 200 short jobs at their submit, on a clock of its own.

The same code as on a live box, beside passes of the real core: only processes and the wall clock
are missing.
"""

import asyncio
from random import Random
from statistics import mean, median

import pytest

from rota.controller.chores.foretelling import Foretelling
from rota.controller.tick.forecast import Forecast
from rota.core.changes import events as ev
from rota.core.changes.events import Recorded
from rota.core.facts.job import Job
from rota.core.facts.policy import DEFAULT
from rota.scheduling.answers.bands import SHARES
from rota.scheduling.answers.line_play import Rule, play_line
from rota.scheduling.answers.waiting_line import KINDS as KINDS_COUNTED
from rota.scheduling.answers.waiting_line import waiting_line
from rota.scheduling.answers.words import Said
from rota.testing.stage import Stage, node, spec

#: Name, width, seconds from and to, limit.
KINDS = (
    ("quick", 1, 1, 4, 60),
    ("train", 2, 5, 9, 0),
    ("sweep", 1, 3, 12, 30),
    ("wide", 4, 2, 8, 120),
    ("plot", 2, 1, 3, 0),
)


class Listening:
    """Where a host tells what happened."""

    def __init__(self) -> None:
        self.listeners = []


class StagedHost:
    """A host as foretelling sees it, with a stage behind it."""

    def __init__(self) -> None:
        self.stage = Stage(nodes=[node("box", cpus=8)], policy=DEFAULT, checked=False)
        self.forecast, self.watch, self.clock = Forecast(), Listening(), self
        self.newest_seq = 0
        self.foretelling = Foretelling(self)
        self._heard: set[int] = set()
        self._learned: set[int] = set()
        self._jobs: dict[int, Job] = {}
        #: What each job that had to wait was told, and what limits would have said.
        self.said: dict[int, Said] = {}
        self.by_limits_s: dict[int, float] = {}

    def now_s(self) -> float:
        return self.stage.now_s

    @property
    def scheduler(self):
        return self.stage.scheduler

    @property
    def cluster(self):
        return self.stage.cluster

    def submit(self, job_spec, runs_s: float) -> None:
        job = self.stage.submit(self.forecast.tell(0, job_spec, DEFAULT), runs_s)
        self._jobs[job] = self.cluster.jobs[job]
        self.stage.run()
        self.look()
        if said := self.foretelling.of(job):
            self.said[job] = said
            self.by_limits_s[job] = planned_by_limits(self, job)

    def waited_s(self, job: int) -> float:
        return self.stage.started_s[job] - self.said[job].at_s

    def pass_time(self, seconds: float) -> None:
        """Until then, whatever happens by itself happens, and is heard of."""
        until_s, stage = self.stage.now_s + seconds, self.stage
        stage.look_later(until_s - stage.begin_s)
        while stage.now_s < until_s and stage.step():
            self._hear()

    def look(self) -> None:
        self._hear()
        self.newest_seq += 1
        asyncio.run(self.foretelling.look())

    def _hear(self) -> None:
        stage = self.stage
        for job, at_s in stage.started_s.items():
            if job not in self._heard:
                self._heard.add(job)
                event = ev.AttemptStarted(job=job, task=0, uid=f"a{job}", pid=1, started_s=at_s)
                self.foretelling.hear([Recorded(0, at_s, "", event)])
        for job in stage.ended_s:
            if job not in self._learned:
                self._learned.add(job)
                self.forecast.learn(self._jobs[job])


def lived(seed: int, count: int = 200) -> StagedHost:
    """Jobs of several names, widths and users, a third without a limit, that come a little faster
    than they can be served."""
    random, host = Random(seed), StagedHost()
    for _ in range(count):
        name, cpus, shortest, longest, limit_s = random.choice(KINDS)
        user = random.choice(("ann", "bob", "cleo"))
        wanted = spec(name=name, user=user, cpus=cpus, time_limit_s=limit_s)
        host.submit(wanted, random.uniform(shortest, longest))
        host.pass_time(random.expovariate(0.9))
    host.pass_time(3600.0)
    return host


def planned_by_limits(host: StagedHost, job: int) -> float:
    """The usual answer: jobs in order, each as long as it may be, an hour where nothing is said."""
    line = waiting_line(
        host.scheduler, host.now_s(), lambda spec, ran_s: max(spec.time_limit_s or 3600.0, ran_s)
    )
    waits_s = play_line(Rule.PLANNED, line.free, line.running, line.pieces, KINDS_COUNTED)
    return waits_s[line.jobs.index(job)]


@pytest.fixture(scope="module")
def boxes() -> list[StagedHost]:
    return [lived(seed) for seed in (21, 22, 23, 24)]


@pytest.mark.slow
def test_bands_told_to_200_short_jobs_at_submit_hold_their_shares(boxes: list[StagedHost]):
    shares = []
    for host in boxes:
        waits = [(said.word, host.waited_s(job)) for job, said in host.said.items()]
        shares.append(
            [
                mean(
                    word.bands_s[at][0] <= waited_s <= word.bands_s[at][1]
                    for word, waited_s in waits
                )
                for at in range(len(SHARES))
            ]
        )

    assert min(len(host.said) for host in boxes) > 100
    assert [mean(each) for each in zip(*shares, strict=True)] == pytest.approx(SHARES, abs=0.03)
    for each in shares:
        assert each == pytest.approx(SHARES, abs=0.08)


@pytest.mark.slow
def test_expected_starts_are_nearer_than_a_plan_by_limits(boxes: list[StagedHost]):
    for host in boxes:
        errors_s = [abs(said.word.wait_s - host.waited_s(job)) for job, said in host.said.items()]
        by_limits_s = [abs(host.by_limits_s[job] - host.waited_s(job)) for job in host.said]

        assert median(errors_s) < 0.7 * median(by_limits_s)
