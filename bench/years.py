"""How a controller starts on the record of years: ``python -m bench.years [FINISHED] [WAITING]``.

Writes a database of many finished jobs, in sealed pages as they are an hour after their
end, and of some that wait, each with a command of its own; then a fresh process opens it, builds
the state and takes one submit. It is SQLite; with a FOLDER as the third word it is kept and used
again: ten millions take 6.4 GB. With the URL of an empty database there it is PostgreSQL. Not a
section of ``script/bench``.
"""

from __future__ import annotations

import asyncio
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench import gauge
from rota.controller.commands.commands import Submission, Submit
from rota.controller.loop import Host
from rota.core.changes.events import NodeSilent, Recorded
from rota.core.facts.job import Attempt, Job, JobSpec, Outcome, Task
from rota.core.facts.node import Allocation
from rota.core.facts.states import Cause, JobState, Phase
from rota.core.facts.tenant import Access, Actor
from rota.store import rows, statements
from rota.store.api import Batch
from rota.store.open import is_postgres, open_store
from rota.store.writer import InlineWriter

if TYPE_CHECKING:
    from collections.abc import Iterator

FINISHED, WAITING = 10_000_000, 100_000
DAY_S = 86_400.0
COMMAND = ("python", "train.py")


def job(number: int, at_s: float, *, ended: bool) -> Job:
    command = COMMAND if ended else (*COMMAND, str(number))
    spec = JobSpec(name="train", user=f"user{number % 50}", command=command, workdir="/home/user")
    made = Job(id=number, uid=f"uid-{number}", spec=spec, submitted_s=at_s, tasks=[Task(0)])
    if ended:
        room = Allocation("box", 1000, 512, cpus=(0,))
        made.tasks[0].attempts = [
            Attempt(f"{made.uid}.0.1", 1, room, "i1", at_s, Phase.ENDED, started_s=at_s)
        ]
        made.outcome, made.ended_s = Outcome(JobState.COMPLETED, Cause.EXIT, exit_code=0), at_s + 60
    return made


def record(finished: int, waiting: int) -> Iterator[rows.Row]:
    now_s = time.time()
    first = rows.job_row(job(1, now_s - 80 * DAY_S, ended=True))
    place = statements.JOB_COLUMNS.index("created_at")
    for number in range(1, finished + 1):
        at_s = now_s - 80 * DAY_S + number * 0.5
        yield (number, f"uid-{number}", *first[2:place], at_s, *first[place + 1 :])
    for number in range(finished + 1, finished + waiting + 1):
        yield rows.job_row(job(number, now_s - 3600, ended=False))


def write(path: Path, finished: int, waiting: int) -> None:
    open_store(str(path)).close()
    database = sqlite3.connect(path, isolation_level=None)
    for setting in ("synchronous = OFF", "journal_mode = OFF", "cache_size = -400000"):
        database.execute(f"PRAGMA {setting}")
    columns = ", ".join(statements.JOB_COLUMNS)
    marks = ", ".join("?" * len(statements.JOB_COLUMNS))
    # Sorted at once they take a few minutes; row by row it was half an hour.
    named = "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql > ''"
    indexes = database.execute(f"{named} AND tbl_name = 'jobs'").fetchall()
    for name, _ in indexes:
        database.execute(f"DROP INDEX {name}")
    database.execute("BEGIN")
    database.executemany(
        f"INSERT INTO jobs ({columns}) VALUES ({marks})", record(finished, waiting)
    )
    for _, made in indexes:
        database.execute(made)
    # The newest event: keys of the day before it are read at start.
    last = rows.event_row(Recorded(1, time.time(), "", NodeSilent(node="box", note="gone")))
    database.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", last)
    database.execute("COMMIT")
    database.close()
    store = open_store(str(path))
    while store.seal_outcomes(limit=64):
        pass
    store.close()


def write_server(url: str, finished: int, waiting: int) -> None:
    import psycopg

    store = open_store(url)
    columns = ", ".join(statements.JOB_COLUMNS)
    into = f"COPY jobs ({columns}) FROM STDIN".encode()
    with psycopg.connect(url) as own, own.cursor() as cursor, cursor.copy(into) as stream:
        for row in record(finished, waiting):
            stream.write_row(row)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE jobs")
    store.commit(Batch(events=[Recorded(1, time.time(), "", NodeSilent(node="box", note="gone"))]))
    while store.seal_outcomes(limit=64):
        pass
    store.close()


async def start(place: str) -> None:
    """What a controller does until it has taken its first submit."""
    began_s = time.monotonic()
    store = open_store(place)
    host = Host(store, InlineWriter(store))
    ticking = asyncio.create_task(host.run())
    spec = JobSpec(name="first", user="ann", command=("true",))
    actor = Actor("ann", Access.USER)
    await host.ask(Submit(actor=actor, submissions=(Submission(spec=spec),)))
    wall_s = time.monotonic() - began_s
    usage = resource.getrusage(resource.RUSAGE_SELF)
    ended = sum(host.cluster.ids.ended.counts.values())
    print(f"{ended:,} finished and {len(host.cluster.jobs):,} waiting jobs; first submit after")
    print(f"{wall_s:.1f} s, {usage.ru_utime + usage.ru_stime:.1f} s of CPU time with imports,")
    print(f"{gauge.memory_mib('VmHWM'):.0f} MiB at the most")
    host.stop()
    await ticking
    store.close()


def main(words: list[str]) -> None:
    if words[:1] == ["start"]:
        asyncio.run(start(words[1]))
        return
    finished = int(words[0]) if words else FINISHED
    waiting = int(words[1]) if words[1:] else WAITING
    with tempfile.TemporaryDirectory() as own:
        place = words[2] if words[2:] else own
        if is_postgres(place):
            write_server(place, finished, waiting)
        else:
            path = Path(place) / "rota.db"
            place = str(path)
            if not path.exists():
                write(path, finished, waiting)
        subprocess.run([sys.executable, "-m", "bench.years", "start", place], check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
