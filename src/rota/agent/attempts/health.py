"""Asking tasks on this node whether they are well, at a port that each of them named.

Only a connection to the loopback is made: nothing is run, so nobody's rights are needed. A task
that is suspended or about to end is not asked, because it cannot answer.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from rota.session.charge import UNHEALTHY

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from rota.core.facts.health import Health
    from rota.session.instructions import KnownAttempt

#: How often it is looked who is to be asked.
LOOK_S = 0.25
#: A task that takes longer to answer has not answered.
ANSWER_S = 5.0


class _Patient:
    """One task that is asked, and what it said so far."""

    def __init__(self, health: Health, port: int) -> None:
        self.health = health
        self.port = port
        #: When it was first seen running; asked next; and how often it failed in a row.
        self.since_s = self.due_s = 0.0
        self.failed = 0
        self.answered = False

    def judge(self, problem: str, now_s: float) -> bool:
        """Take an answer in (empty: a good one); whether it was one bad answer too many."""
        self.due_s = now_s + self.health.every_s
        if not problem:
            self.failed, self.answered = 0, True
        elif self.answered or now_s - self.since_s >= self.health.delay_s:
            self.failed += 1
        return self.failed >= self.health.failures


class HealthWatch:
    """All tasks of this node that want to be asked. Without any it sleeps."""

    def __init__(self) -> None:
        self._patients: dict[str, _Patient] = {}
        self._some = asyncio.Event()

    def add(self, uid: str, health: Health, ports: dict[str, int]) -> None:
        """From when it is started, or found running; a second time changes nothing."""
        if uid not in self._patients and health.port in ports:
            self._patients[uid] = _Patient(health, ports[health.port])
            self._some.set()

    def adopt(self, attempts: Iterable[KnownAttempt]) -> None:
        """After a restart of the agent the keeper knows who wants to be asked."""
        for known in attempts:
            if known.keep.health is not None and known.phase == "running":
                self.add(known.uid, known.keep.health, known.keep.ports)

    def forget(self, uid: str) -> None:
        self._patients.pop(uid, None)

    async def run(
        self, awake: Callable[[], Collection[str]], unwell: Callable[[str, str], object]
    ) -> None:
        """Ask all that are ``awake``, for ever; ``unwell`` hears which shall end, and why."""
        while True:
            if not self._patients:
                self._some.clear()
                await self._some.wait()
            await asyncio.sleep(LOOK_S)
            now_s = time.monotonic()
            running = awake()
            due = []
            for uid, patient in self._patients.items():
                if uid in running:
                    patient.since_s = patient.since_s or now_s
                    if patient.due_s <= now_s:
                        due.append((uid, patient))
            problems = await asyncio.gather(*(_ask(patient) for _, patient in due))
            still = awake() if due else ()
            for (uid, patient), problem in zip(due, problems, strict=True):
                # One that was suspended or stopped meanwhile could not answer.
                if (not problem or uid in still) and patient.judge(problem, time.monotonic()):
                    self.forget(uid)
                    unwell(uid, f"{UNHEALTHY}{problem}, {patient.failed} times in a row")


async def _ask(patient: _Patient) -> str:
    """What is wrong with its answer; empty: nothing."""
    health = patient.health
    where = f"port {health.port} ({patient.port})"
    try:
        async with asyncio.timeout(ANSWER_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", patient.port)
            try:
                return await _request(reader, writer, health.path) if health.path else ""
            finally:
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()
    except TimeoutError:
        return f"{where} did not answer within {ANSWER_S:g}s"
    except (OSError, ValueError) as error:
        return f"{where}: {getattr(error, 'strerror', None) or error}"


async def _request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str) -> str:
    writer.write(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode("ascii"))
    words = (await reader.readline()).decode("latin-1").split()
    status = words[1] if len(words) > 1 and words[0].startswith("HTTP/") else ""
    if status[:1] in ("2", "3"):
        return ""
    return f"{path} answered {status}" if status else f"{path} gave no answer in HTTP"
