"""Logs that no constant of foresight was chosen on, the same ones for the same seed."""

from __future__ import annotations

from math import ceil
from random import Random
from typing import TYPE_CHECKING

from rota.sim.trace import Trace, TraceJob

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Who asks for how long, as a rule: what users write, in hours.
ROUND_S = (600, 1_800, 3_600, 2 * 3_600, 4 * 3_600, 12 * 3_600, 24 * 3_600)
DAY_S, WEEK_S = 86_400, 7 * 86_400
#: What a job of a lab without limits may take: the same for all, and far too long.
NO_LIMIT_S = 4 * DAY_S


def invented(seed: int = 1, count: int = 4_000) -> list[Trace]:
    """All of them."""
    kinds: dict[str, tuple[Callable[[Random], Iterator[TraceJob]], int, float]] = {
        "overestimated": (_overestimated, 256, 0.9),
        "arrays": (_arrays, 64, 0.85),
        "no-limits": (_no_limits, 64, 0.95),
    }
    return [
        Trace(name, _at_load(make(Random(seed)), count, procs, load), procs)
        for name, (make, procs, load) in kinds.items()
    ]


def _at_load(jobs: Iterator[TraceJob], count: int, procs: int, load: float) -> list[TraceJob]:
    """The first ones, their arrivals drawn out or together until they ask for that load."""
    found = [next(jobs) for _ in range(count)]
    work = sum(job.procs * job.run_s for job in found)
    factor = work / (procs * load) / max(found[-1].submit_s, 1.0)
    return [
        TraceJob(
            number,
            int(job.submit_s * factor),
            job.run_s,
            job.procs,
            job.estimate_s,
            job.user,
            name=job.name,
        )
        for number, job in enumerate(found, 1)
    ]


def _by_day(random: Random, now_s: float, gap_s: float) -> float:
    """The next arrival; by night they are five times as rare."""
    by_night = not 8 <= (now_s % DAY_S) / 3_600 < 20
    return now_s + random.expovariate(1.0 / (gap_s * (5.0 if by_night else 1.0)))


def _overestimated(random: Random) -> Iterator[TraceJob]:
    """Powers of two, two kinds of lengths, and users each of whom overestimates by a factor."""
    factors = [random.choice((1.05, 1.5, 3.0, 10.0)) for _ in range(40)]
    now_s = 0.0
    while True:
        now_s = _by_day(random, now_s, 60.0)
        user = min(int(random.expovariate(0.1)), 39)
        procs = 1 if random.random() < 0.25 else 2 ** random.randint(0, 7)
        long = random.random() < 0.35 + 0.03 * procs.bit_length()
        run_s = ceil(random.lognormvariate(8.5 if long else 4.5, 1.1))
        asked_s = run_s * factors[user] * random.uniform(0.9, 1.3)
        limit_s = next((each for each in ROUND_S if each >= asked_s), ceil(asked_s))
        yield TraceJob(0, now_s, min(run_s, limit_s), procs, limit_s, f"user{user}")


def _arrays(random: Random) -> Iterator[TraceJob]:
    """Sweeps of dozens of equal small jobs at once, and single jobs between them."""
    now_s = 0.0
    while True:
        now_s = _by_day(random, now_s, 900.0)
        user, name = f"user{random.randrange(6)}", f"sweep{random.randrange(20)}"
        if random.random() < 0.5:
            run_s, limit_s = ceil(random.lognormvariate(7.5, 1.2)), random.choice(ROUND_S[2:])
            size = random.choice((1, 4, 16, 32))
            yield TraceJob(0, now_s, min(run_s, limit_s), size, limit_s, user, name="one")
            continue
        middle, limit_s = random.lognormvariate(5.5, 1.0), random.choice(ROUND_S[1:5])
        for _ in range(random.randint(20, 150)):
            run_s = min(ceil(middle * random.lognormvariate(0.0, 0.3)), limit_s)
            yield TraceJob(0, now_s, run_s, random.choice((1, 1, 2)), limit_s, user, name=name)


def _no_limits(random: Random) -> Iterator[TraceJob]:
    """GPUs; most runs are tried first and fail early, some go on for days, and nobody says."""
    now_s = 0.0
    while True:
        now_s = _by_day(random, now_s, 300.0)
        user = random.randrange(15)
        tried = random.random() < 0.5
        run_s = random.lognormvariate(5.0, 1.0) if tried else random.lognormvariate(9.0, 1.3)
        name = f"model{user}-{random.randrange(3)}{'-try' if tried else ''}"
        gpus = random.choice((1, 1, 1, 2, 4, 8, 8, 16))
        yield TraceJob(
            0, now_s, min(ceil(run_s), NO_LIMIT_S), gpus, NO_LIMIT_S, f"u{user}", name=name
        )
