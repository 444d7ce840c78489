"""What 200 short jobs were told at submit on a real Rota, and what came of it.

    python -m tests.journeys.live_foresight [JOBS] [SEED]

A box of eight CPUs in a folder of its own; jobs of several names, widths and lengths, a third of
them without a limit, by three users where it runs as root. They come a little faster than they can
be served. Prints the load of the machine, how often each band held, and how far the expected start
was off, beside the plan that takes limits for run times (an hour where there is none).
"""

from __future__ import annotations

import os
import sys
import time
from datetime import datetime
from pathlib import Path
from random import Random
from statistics import mean, median
from tempfile import TemporaryDirectory
from typing import NamedTuple

from rota.scheduling.answers.bands import SHARES
from rota.scheduling.answers.line_plan import plan_line
from tests.journeys.box import FINAL, Box, until

CPUS = 8
USERS = ("", "daemon", "bin")
#: Name, width, seconds from and to, limit.
KINDS = (
    ("quick", 1, 1, 4, 60),
    ("train", 2, 5, 9, 0),
    ("sweep", 1, 3, 12, 30),
    ("wide", 4, 2, 8, 120),
    ("plot", 2, 1, 3, 0),
)
#: How long jobs without a limit are taken to run by those who know nothing else.
ASSUMED_S = 3600.0


class Told(NamedTuple):
    """What one job was told."""

    job: int
    at_s: float
    expected_s: float
    bands_s: list[tuple[float, float]]
    limits_s: float


class Crowd:
    """Submits jobs, and keeps what each was told."""

    def __init__(self, box: Box, seed: int) -> None:
        self._random = Random(seed)
        users = USERS if os.geteuid() == 0 else USERS[:1]
        self._seen = [box.at(box.work, user) for user in users]
        self._box = box
        #: Width and limit of every job.
        self._asked: dict[int, tuple[int, float]] = {}
        self.told: list[Told] = []

    def submit(self) -> None:
        random = self._random
        name, cpus, shortest, longest, limit_s = random.choice(KINDS)
        fields = {"time_limit_s": limit_s} if limit_s else {}
        command = ["sleep", f"{random.uniform(shortest, longest):.2f}"]
        seen = random.choice(self._seen)
        job = seen.job(command, name=name, resources={"cpus": cpus}, workdir="/", **fields)
        self._asked[job] = (cpus, float(limit_s or ASSUMED_S))
        _, why = self._box.api("GET", f"/jobs/{job}/why")
        if word := why["foretold"]:
            bands = [(_at(band["from_at"]), _at(band["to_at"])) for band in word["bands"]]
            now_s = time.time()
            limits_s = now_s + self._by_limits(now_s)
            self.told.append(Told(job, now_s, _at(word["expected_at"]), bands, limits_s))

    def pause(self) -> None:
        time.sleep(self._random.expovariate(0.85))

    def _by_limits(self, now_s: float) -> float:
        """The plan of jobs in order with limits as run times."""
        _, page = self._box.api("GET", "/jobs?state=active&limit=1000")
        active = {one["id"]: one for one in page["items"]}
        running, line, free = [], [], CPUS
        for number, (cpus, limit_s) in self._asked.items():
            one = active.get(number)
            if one is None:
                continue
            if one["started_at"]:
                free -= cpus
                running.append((cpus, max(_at(one["started_at"]) + limit_s - now_s, 1.0)))
            else:
                line.append((cpus, limit_s))
        return [*plan_line(max(free, 0), running, line)][-1] if line else 0.0


def _at(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()


def main(count: int, seed: int) -> None:
    with TemporaryDirectory() as folder:
        # Other users speak to it, too.
        Path(folder).chmod(0o755)
        box = Box(Path(folder), cpus=CPUS)
        box.up()
        try:
            crowd = Crowd(box, seed)
            for _ in range(count):
                crowd.submit()
                crowd.pause()
            _judge(box, crowd.told)
        finally:
            box.down("--stop-jobs")


def _judge(box: Box, told: list[Told]) -> None:
    started: dict[int, float] = {}
    for word in told:
        until(lambda job=word.job: _is_over(box, job), f"the end of job {word.job}", 600.0)
        started[word.job] = _at(box.api("GET", f"/jobs/{word.job}")[1]["started_at"])
    wait_s = median(started[word.job] - word.at_s for word in told)
    error_s = median(abs(word.expected_s - started[word.job]) for word in told)
    limits_s = median(abs(word.limits_s - started[word.job]) for word in told)
    print(f"{len(told)} jobs had to wait, {wait_s:.1f} s in the middle")
    print(f"load of the machine {os.getloadavg()[1]:.0f} on {os.cpu_count()} cores")
    print(f"median error {error_s:.2f} s; by limits {limits_s:.2f} s")
    half = len(told) // 2
    parts = {"all": told, "the first half": told[:half], "the second": told[half:]}
    for name, words in parts.items():
        held = [
            mean(word.bands_s[at][0] <= started[word.job] <= word.bands_s[at][1] for word in words)
            for at in range(len(SHARES))
        ]
        print(f"in the bands of 50, 80, 90 %, {name}: {[round(100 * each, 1) for each in held]}")


def _is_over(box: Box, job: int) -> bool:
    return box.api("GET", f"/jobs/{job}")[1]["state"] in FINAL


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    main(*(given + [200, 1][len(given) :]))
