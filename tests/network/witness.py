"""Jobs that bear witness of themselves, and the judge who reads what they wrote.

Each job holds a lock of its own from its first moment to its last, so that a second live copy of it
finds the lock taken and says so. Beginnings and ends are lines of one book, written under a lock.
"""

from __future__ import annotations

import random
import signal
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

SCRIPT = """
import fcntl, os, signal, sys, time
folder, number, lasts_s, end, deaf = sys.argv[1:]
lock = open(f"{folder}/locks/{number}", "a")
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    word = "began"
except OSError:
    word = "TWICE"
def say(word):
    with open(f"{folder}/book", "a") as book:
        fcntl.flock(book, fcntl.LOCK_EX)
        line = [word, number, os.environ["ROTA_ATTEMPT"], os.environ["ROTA_NODELIST"]]
        book.write(" ".join([*line, f"{time.monotonic():.3f}"]) + "\\n")
def leave(*_):
    say("told")
    os._exit(99)
signal.signal(signal.SIGTERM, signal.SIG_IGN if int(deaf) else leave)
say(word)
time.sleep(float(lasts_s))
signal.signal(signal.SIGTERM, signal.SIG_IGN)
say("ended")
code = int(end)
if code < 0:
    os.kill(os.getpid(), -code)
os._exit(code)
"""
#: How long a job may take to end after TERM; those that are deaf need a KILL after it.
GRACES_S = (1, 1, 4)
START_FAILED = "start_failed"


@dataclass(frozen=True)
class Plan:
    """What one job is to do: how long it lasts, and its exit code (below 0: a signal)."""

    number: int
    lasts_s: float
    end: int
    deaf: bool
    grace_s: int

    def request(self, folder: Path) -> dict[str, Any]:
        """What is posted to submit it. Only a lost node is a reason to try again."""
        words = [str(self.number), f"{self.lasts_s:.2f}", str(self.end), str(int(self.deaf))]
        return {
            "command": [sys.executable, "-I", "-S", "-c", SCRIPT, str(folder), *words],
            "workdir": str(folder),
            "grace_s": self.grace_s,
            "retries": 1000,
            "retry_on": ["node_lost"],
            "backoff_s": 0,
        }


def plans(count: int, chance: random.Random) -> list[Plan]:
    """Most last a second, a few outlast a lease; every third does not end with 0."""
    made = []
    for number in range(1, count + 1):
        lasts_s = chance.uniform(0.1, 1.5) if chance.random() < 0.9 else chance.uniform(3, 6)
        end = chance.choice((0, 0, 0, 0, 1, 3, 77, 255, -signal.SIGKILL, -signal.SIGUSR1))
        deaf = chance.random() < 0.25
        made.append(Plan(number, lasts_s, end, deaf, grace_s=chance.choice(GRACES_S)))
    return made


class Book:
    """Where the jobs write."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "locks").mkdir(parents=True)
        self._file = folder / "book"

    def lines(self) -> list[tuple[str, int, int, str]]:
        """(word, number of the job, number of the attempt, node) in the order of writing."""
        if not self._file.exists():
            return []
        parts = (line.split() for line in self._file.read_text().splitlines())
        return [(word, int(job), int(attempt), node) for word, job, attempt, node, _ in parts]


def faults(planned: Iterable[Plan], records: dict[int, dict[str, Any]], book: Book) -> list[str]:
    """Everything that must not be, by the book and by the controller's records."""
    lines = book.lines()
    found = [
        f"job {job}: live twice, at attempt {n}" for word, job, n, _ in lines if word[0] == "T"
    ]
    begun = Counter((job, n) for word, job, n, _ in lines if word in ("began", "TWICE"))
    found += [f"job {job}: attempt {n} began {k} times" for (job, n), k in begun.items() if k > 1]
    ended = {(job, n) for word, job, n, _ in lines if word == "ended"}
    for plan in planned:
        record = records.get(plan.number)
        if record is None:
            found.append(f"job {plan.number}: lost")
            continue
        found += _faults_of(plan, record, begun, ended)
        known = {attempt["number"] for attempt in record["attempts"]}
        unknown = sorted(n for job, n in begun if job == plan.number and n not in known)
        if unknown:
            found.append(f"job {plan.number}: attempts {unknown} are not on record")
    return found


def _faults_of(
    plan: Plan,
    record: dict[str, Any],
    begun: Collection[tuple[int, int]],
    ended: Collection[tuple[int, int]],
) -> list[str]:
    """Whether it ended as planned, and in the attempt that the record names."""
    found = []
    job = f"job {plan.number} (id {record['id']})"
    state = "completed" if plan.end == 0 else "failed"
    if record["state"] != state:
        found.append(f"{job}: {record['state']}, not {state}: {record.get('reason')}")
    last = record["attempts"][-1]
    code, number = last.get("exit_code"), last.get("signal") or 0
    wanted = (plan.end, 0) if plan.end >= 0 else (None, -plan.end)
    if (code, number) != wanted:
        found.append(f"{job}: exit code {code} and signal {number}, not {wanted}")
    if (plan.number, last["number"]) not in ended:
        found.append(f"{job}: ended at attempt {last['attempt']}, which never said so")
    for attempt in record["attempts"][:-1]:
        # A start may fail for the node's sake, which costs no try; then there was no process.
        began = (plan.number, attempt["number"]) in begun
        if attempt["cause_code"] not in (("node_lost",) if began else ("node_lost", START_FAILED)):
            found.append(f"{job}: tried again after {attempt}")
    return found
