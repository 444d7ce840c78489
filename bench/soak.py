"""``python -m bench.soak``: a day of a busy lab, pressed into minutes, against a real controller.

Two hundred people submit jobs, arrays and gangs, cancel, list, ask why, and read what jobs print;
others follow it to its end. Fifty agents run the work (simulated in one process: real connections,
leases and reports, no processes of jobs); every now and then the controller is killed. Each call is
timed, and every few seconds it is looked how much memory, how many files and how much disk the
controller has. In the end every job must have ended. With ``--slurm`` a real Slurm (slurmctld with
slurmdbd, over slurmrestd) is asked as often to submit, list and cancel; with ``--plain`` Rota is
asked nothing else, either, without followers and kills.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import machine
from bench.chart import Series, log_chart
from bench.herd import Herd
from bench.rota import Rota
from bench.soak_slurm import soak_slurm
from rota.client.errors import ClientError, Refused
from rota.client.http import Client, new_key

if TYPE_CHECKING:
    from collections.abc import Callable

USERS, CALLERS, FOLLOWERS, AGENTS, CPUS = 200, 8, 20, 50, 16
#: Calls of all people together in a second; the rest of it they think.
CALLS_PER_S = 40.0
#: What a Slurm is asked, too, and how often.
PLAIN = ("submit", "cancel", "list mine")
PLAIN_PER_S = CALLS_PER_S * (40 + 10 + 18) / 100
LOOK_S = 5.0
#: So often the controller is killed, as a part of the whole.
KILLS = 5
#: What is left at the end must be over after this time.
DRAIN_S = 300.0
#: What the middle of the second half may have more than that of the first, in memory.
GROWTH_MAX = 1.25


@dataclass
class Lab:
    """What all callers share."""

    url: str
    tokens: list[str]
    over: threading.Event = field(default_factory=threading.Event)
    #: While the controller was killed and is not back: calls may fail.
    away: threading.Event = field(default_factory=threading.Event)
    missed: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    #: Logs that were followed to their end, and their bytes.
    followed: Counter[str] = field(default_factory=Counter)
    took_s: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    failed: Counter[str] = field(default_factory=Counter)
    #: By user: the ids that were acknowledged.
    jobs: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))

    def note(self, verb: str, took_s: float) -> None:
        with self.lock:
            self.took_s[verb].append(took_s)


class Person:
    """One caller thread, which speaks for some of the people in turn."""

    def __init__(self, lab: Lab, users: list[int], seed: int, *, plain: bool) -> None:
        """``plain``: nothing that a Slurm is not asked, too."""
        self._lab = lab
        self._pause_s = CALLERS / (PLAIN_PER_S if plain else CALLS_PER_S)
        self._chance = random.Random(seed)
        self._clients = {user: Client([lab.url], lab.tokens[user]) for user in users}
        self._verbs: list[tuple[int, str, Callable[[int, Client], object]]] = [
            (40, "submit", self._submit),
            (4, "submit an array", self._array),
            (3, "submit a gang", self._gang),
            (10, "cancel", self._cancel),
            (18, "list mine", self._mine),
            (5, "list all that waits", self._everything),
            (10, "why", self._why),
            (7, "show", self._show),
            (5, "read a log", self._log),
            (3, "status", self._status),
        ]
        if plain:
            self._verbs = [verb for verb in self._verbs if verb[1] in PLAIN]

    def run(self) -> None:
        weights = [weight for weight, _, _ in self._verbs]
        users = sorted(self._clients)
        while not self._lab.over.is_set():
            user = self._chance.choice(users)
            _, verb, call = self._chance.choices(self._verbs, weights)[0]
            began_s = time.perf_counter()
            try:
                call(user, self._clients[user])
            except Refused as error:
                # A job that has ended meanwhile, and the like: an answer all the same.
                if error.status >= 500:
                    self._lab.failed[f"{verb}: {error.status}"] += 1
            except ClientError as error:
                if self._lab.away.is_set():
                    self._lab.missed += 1
                else:
                    self._lab.failed[f"{verb}: {type(error).__name__}"] += 1
            self._lab.note(verb, time.perf_counter() - began_s)
            pause_s = self._chance.expovariate(1 / self._pause_s)
            self._lab.over.wait(max(0.0, pause_s - (time.perf_counter() - began_s)))
        for client in self._clients.values():
            client.close()

    def _body(self, **more: object) -> dict[str, object]:
        lasts_s = self._chance.choice((0, 0, 1, 2, 5, 10))
        wide = self._chance.choice((1, 1, 1, 2, 4))
        body = {"command": ["sleep", str(lasts_s)], "workdir": "/tmp", "resources": {"cpus": wide}}
        return {**body, "name": f"job-{self._chance.randrange(50)}", "time_limit_s": 60, **more}

    def _keep(self, user: int, answer: dict[str, Any]) -> None:
        with self._lab.lock:
            self._lab.jobs[user].append(int(answer["id"]))

    def _submit(self, user: int, client: Client) -> None:
        self._keep(user, client.post("/jobs", self._body(), key=new_key()))

    def _array(self, user: int, client: Client) -> None:
        self._keep(user, client.post("/jobs", self._body(array="0-19"), key=new_key()))

    def _gang(self, user: int, client: Client) -> None:
        self._keep(user, client.post("/jobs", self._body(tasks=4), key=new_key()))

    def _one(self, user: int) -> int:
        known = self._lab.jobs[user]
        return self._chance.choice(known[-20:]) if known else 0

    def _cancel(self, user: int, client: Client) -> None:
        if job := self._one(user):
            client.delete(f"/jobs/{job}")

    def _mine(self, user: int, client: Client) -> None:
        client.get("/jobs", user=f"person{user}", limit=50)

    def _everything(self, user: int, client: Client) -> None:
        client.get("/jobs", state="queued", limit=200)

    def _why(self, user: int, client: Client) -> None:
        if job := self._one(user):
            client.get(f"/jobs/{job}/why")

    def _show(self, user: int, client: Client) -> None:
        if job := self._one(user):
            client.get(f"/jobs/{job}")

    def _log(self, user: int, client: Client) -> None:
        if job := self._one(user):
            b"".join(client.stream(f"/jobs/{job}/logs", stream="stdout"))

    def _status(self, user: int, client: Client) -> None:
        client.get("/queue")


class Follower:
    """Follows one log after the other, each to its end."""

    def __init__(self, lab: Lab, seed: int) -> None:
        self._lab, self._chance = lab, random.Random(seed)
        self.client: Client | None = None

    def run(self) -> None:
        while not self._lab.over.wait(0.2):
            with self._lab.lock:
                known = [(user, jobs[-1]) for user, jobs in self._lab.jobs.items() if jobs]
            if known:
                self._follow(*self._chance.choice(known))

    def _follow(self, user: int, job: int) -> None:
        self.client = client = Client([self._lab.url], self._lab.tokens[user])
        seen = 0
        try:
            for part in client.stream(f"/jobs/{job}/logs", stream="stdout", follow=1):
                seen += len(part)
        except Refused as error:
            # An array has none.
            if error.status >= 500 and not self._lab.away.is_set():
                self._lab.failed[f"follow: {error.status}"] += 1
            return
        except ClientError:
            # The controller was killed under it, or all is over.
            self._lab.followed["cut off"] += 1
            return
        finally:
            client.close()
        self._lab.followed["logs"] += 1
        self._lab.followed["bytes"] += seen


class Look:
    """What the controller has, now and then."""

    def __init__(self, rota: Rota) -> None:
        self._rota = rota
        self._began_s = time.monotonic()
        self.seen: list[dict[str, float]] = []

    def take(self) -> None:
        try:
            pid = self._rota.controller_pid()
            memory = machine.memory_mib(pid)
            files = len(os.listdir(f"/proc/{pid}/fd"))
        except (OSError, ValueError):
            return  # It was killed a moment ago.
        disk = sum(path.stat().st_size for path in self._rota.state.glob("rota.db*"))
        self.seen.append(
            {
                "at_s": time.monotonic() - self._began_s,
                "memory_mib": memory["VmRSS"],
                "files": files,
                "disk_mib": disk / (1 << 20),
            }
        )


def people(rota: Rota) -> list[str]:
    """A token for each of them."""
    made = []
    for user in range(USERS):
        body = {"user": f"person{user}", "access": "user", "note": "soak"}
        made.append(rota.wire.post("/tokens", body)["token"])
    return made


def soak(rota: Rota, minutes: float, *, plain: bool) -> dict[str, Any]:
    url = rota.wire.get("/status")["controller"]["url"]
    lab = Lab(url, people(rota))
    shares = [list(range(USERS))[number::CALLERS] for number in range(CALLERS)]
    callers = [Person(lab, share, seed, plain=plain) for seed, share in enumerate(shares)]
    followers = [Follower(lab, seed) for seed in range(0 if plain else FOLLOWERS)]
    threads = [threading.Thread(target=caller.run) for caller in callers]
    threads += [threading.Thread(target=follower.run) for follower in followers]
    look, began_s = Look(rota), time.monotonic()
    back_s: list[float] = []
    with Herd(rota, AGENTS, CPUS):
        for thread in threads:
            thread.start()
        kills = 0 if plain else KILLS
        next_kill_s = 60.0 * minutes / (KILLS + 1)
        while (now_s := time.monotonic() - began_s) < 60.0 * minutes:
            if now_s > next_kill_s * (len(back_s) + 1) and len(back_s) < kills:
                lab.away.set()
                back_s.append(rota.kill_controller())
                time.sleep(1.0)  # Calls that were under way then have failed by now.
                lab.away.clear()
            look.take()
            time.sleep(LOOK_S)
        lab.over.set()
        for follower in followers:
            if follower.client is not None:
                follower.client.hang_up()
        for thread in threads:
            thread.join()
        left = drain(rota)
        look.take()
    jobs = sum(map(len, lab.jobs.values()))
    return {
        "minutes": minutes,
        "acknowledged": jobs,
        "not ended": left,
        "failed calls": dict(lab.failed),
        "calls while it was away": lab.missed,
        "back after a kill, s": back_s,
        "followed": dict(lab.followed),
        "verbs": {verb: percentiles(took) for verb, took in lab.took_s.items()},
        "looks": look.seen,
    }


def percentiles(took_s: list[float]) -> dict[str, float]:
    """In milliseconds."""
    ordered = sorted(1000 * took for took in took_s)
    found = {f"p{part}": ordered[len(ordered) * part // 100] for part in (50, 95, 99)}
    return {"count": len(ordered), **found, "max": ordered[-1]}


def drain(rota: Rota) -> int:
    """How many jobs have not ended, when nobody submits any more."""
    end_s = time.monotonic() + DRAIN_S
    while True:
        queue = rota.wire.get("/queue")
        left = int(queue["queued"]) + int(queue["running"])
        if not left or time.monotonic() > end_s:
            return left
        time.sleep(0.5)


def growth(looks: list[dict[str, float]]) -> float:
    """Memory in the middle of the second half, over that of the first."""
    values = [look["memory_mib"] for look in looks]
    first, second = values[: len(values) // 2], values[len(values) // 2 :]
    return sorted(second)[len(second) // 2] / sorted(first)[len(first) // 2]


def table(verbs: dict[str, dict[str, float]]) -> str:
    lines = [f"{'verb':<22}{'calls':>8}{'p50 ms':>10}{'p95 ms':>10}{'p99 ms':>10}{'max ms':>10}"]
    for verb, spread in sorted(verbs.items()):
        cells = "".join(f"{spread[name]:>10.1f}" for name in ("p50", "p95", "p99", "max"))
        lines.append(f"{verb:<22}{spread['count']:>8.0f}{cells}")
    return "\n".join(lines)


def report(found: dict[str, Any]) -> str:
    last = found["looks"][-1]
    lines = [
        table(found["verbs"]),
        f"acknowledged {found['acknowledged']}, not ended {found['not ended']}, "
        f"failed calls {found['failed calls'] or 'none'}",
        f"back after kill -9: {', '.join(f'{s:.2f} s' for s in found['back after a kill, s'])}; "
        f"{found['calls while it was away']} calls failed meanwhile",
        f"followed {found['followed'].get('logs', 0)} logs to their end "
        f"({found['followed'].get('bytes', 0)} bytes), "
        f"{found['followed'].get('cut off', 0)} were cut off by a kill or the end",
        f"at the end: {last['memory_mib']:.0f} MiB, {last['files']:.0f} files, "
        f"{last['disk_mib']:.0f} MiB on disk; memory grew {growth(found['looks']):.2f} times",
    ]
    return "\n".join(lines)


def chart(found: dict[str, Any]) -> str:
    kinds = (("memory_mib", "memory, MiB", "#1f77b4"), ("disk_mib", "database, MiB", "#d62728"))
    return log_chart(
        "A busy day: what the controller has",
        [
            Series(name, colour, [(1 + look["at_s"], look[kind]) for look in found["looks"]])
            for kind, name, colour in kinds
        ],
        ("seconds", "MiB"),
    )


def beside(minutes: float) -> int:
    """The same for Slurm, as far as it goes."""
    found = soak_slurm(minutes, CALLERS, PLAIN_PER_S)
    print(table({verb: percentiles(took) for verb, took in found["took_s"].items()}))
    print(f"failed calls {found['failed'] or 'none'}")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="script/soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--json", metavar="FILE", default="soak-results.json")
    parser.add_argument("--chart", metavar="FILE", help="an SVG of memory and disk over time")
    parser.add_argument("--slurm", action="store_true", help="ask a real Slurm instead")
    parser.add_argument("--plain", action="store_true", help="only what --slurm asks, no kills")
    options = parser.parse_args()
    if options.slurm:
        return beside(options.minutes)
    folder = Path(tempfile.gettempdir())
    with Rota(folder, "soak", with_agent=False) as rota:
        found = soak(rota, options.minutes, plain=options.plain)
    found["machine"] = machine.description(folder)
    print(report(found))
    Path(options.json).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if options.chart:
        Path(options.chart).write_text(chart(found), encoding="utf-8")
    bounded = growth(found["looks"]) <= GROWTH_MAX
    return 0 if bounded and not found["not ended"] and not found["failed calls"] else 1


if __name__ == "__main__":
    sys.exit(main())
