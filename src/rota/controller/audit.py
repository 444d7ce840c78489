"""The audit: who did what to which object, from the commands of a tick and from reads.

What a command changed is recorded in the very commit of the change. Reads wait for company: one
commit takes all of a second. Only what is on disk is handed on to files and to syslog.
"""

from __future__ import annotations

import asyncio
import logging
import re
from functools import cache
from typing import TYPE_CHECKING

from rota.controller.commands import commands as cmd
from rota.core.facts.errors import Forbidden, RotaError
from rota.core.facts.site.audit import Audited
from rota.store.api import Batch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from rota.controller.engine import Item
    from rota.core.facts.tenant import Actor

log = logging.getLogger("rota.controller")

#: What running jobs say of themselves, and what the site says to itself.
_UNHEARD = (
    *(cmd.ReportCheckpoint, cmd.SetEndpoint, cmd.BeginStep, cmd.EndStep),
    *(cmd.SetElsewhere, cmd.SetQuotaProvider, cmd.SeeQuotas, cmd.NoteGpus, cmd.NoteQuota),
)
#: A command on more jobs than this is one record.
JOBS_MAX = 100
#: Reads are written after this time, or when there are this many.
FLUSH_S, FLUSH_MANY = 1.0, 500
#: The same read again counts once in this time; from this number on, older ones are forgotten.
AGAIN_S, RECENT_MIN = 60.0, 10 * FLUSH_MANY
#: Where a command says what it is about, and what that is called.
_SUBJECTS = ("job", "node", "queue", "group", "project", "user", "reservation", "token")
_WORDS = re.compile(r"(?<!^)(?=[A-Z])")


class Audit:
    """Collects records, and gives them away once they are on disk."""

    def __init__(
        self, keep: Callable[[Batch], Awaitable[None]], now_s: Callable[[], float]
    ) -> None:
        self._keep = keep
        self._now_s = now_s
        #: Is told of each record that is on disk; None: nobody is.
        self.ship: Callable[[Audited], None] | None = None
        self._reads: list[Audited] = []
        self._recent: dict[tuple[str, ...], float] = {}
        self._recent_max = RECENT_MIN
        self._flushing: asyncio.Task[None] | None = None

    def of_tick(
        self, items: Sequence[Item], answers: Sequence[tuple[int, object]]
    ) -> list[Audited]:
        """What the commands of a tick did, by their answers."""
        if not answers:
            return []
        answered = dict(answers)
        found: list[Audited] = []
        for item in items:
            command: cmd.Command | None = getattr(item, "command", None)
            if command is not None and not isinstance(command, _UNHEARD):
                answer = answered.get(getattr(item, "ticket", 0))
                found += self._records(command, answer)
        return found

    def _records(self, command: cmd.Command, answer: object) -> list[Audited]:
        action = action_of(command)
        if isinstance(answer, RotaError):
            if not isinstance(answer, Forbidden):
                return []  # A slip of the pen: nothing was done, and nobody was kept out.
            about = subject_of(command)
            return [self.record(command.actor, action, about, str(answer))]
        if isinstance(answer, cmd.Submitted):
            return [self.record(command.actor, action, o) for o in _jobs(answer.ids)]
        if isinstance(answer, cmd.ChangedJobs):
            done = [self.record(command.actor, action, o) for o in _jobs(answer.changed)]
            kept = answer.refused[:JOBS_MAX]
            return done + [
                self.record(command.actor, action, f"job {r.id}", r.reason) for r in kept
            ]
        about = subject_of(command) or subject_of_answer(answer)
        return [self.record(command.actor, action, about)]

    def record(self, actor: Actor, action: str, about: str, refused: str = "") -> Audited:
        """One as of now."""
        return Audited(self._now_s(), actor.user, actor.via, actor.address, action, about, refused)

    def note(self, actor: Actor, action: str, about: str, refused: str = "") -> None:
        """A read, or a refusal at the door: written soon, and once in a while when repeated."""
        key = (actor.user, actor.via, actor.address, action, about)
        now_s = self._now_s()
        if now_s - self._recent.get(key, -AGAIN_S) < AGAIN_S:
            return
        if len(self._recent) > self._recent_max:
            self._recent = {k: s for k, s in self._recent.items() if now_s - s < AGAIN_S}
            # Where all of them are recent, the next look is due when there are twice as many.
            self._recent_max = max(RECENT_MIN, 2 * len(self._recent))
        self._recent[key] = now_s
        self._reads.append(self.record(actor, action, about, refused))
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.get_running_loop().create_task(self._flush_later())
        elif len(self._reads) >= FLUSH_MANY:
            self._flushing.cancel()
            self._flushing = asyncio.get_running_loop().create_task(self.flush())

    async def _flush_later(self) -> None:
        await asyncio.sleep(FLUSH_S)
        await self.flush()

    async def flush(self) -> None:
        """Write what waits."""
        reads, self._reads = self._reads, []
        if not reads:
            return
        try:
            await self._keep(Batch(audit=reads))
        except RotaError as error:
            log.error("%s records of the audit were not written: %s", len(reads), error)
            # They wait for the next flush, as long as there are not too many.
            self._reads = (reads + self._reads)[-10 * FLUSH_MANY :]
        else:
            self.hand_on(reads)

    def hand_on(self, records: Sequence[Audited]) -> None:
        """These are on disk."""
        if self.ship is not None:
            for record in records:
                self.ship(record)


def action_of(command: cmd.Command) -> str:
    """``cancel``, ``set-queue``; of a visit its way, such as ``attach``."""
    if isinstance(command, cmd.EnterJob):
        return command.way.partition(" ")[0]
    if isinstance(command, cmd.DrainNode) and not command.drained:
        return "resume-node"
    return _action_of(type(command))


@cache
def _action_of(kind: type[cmd.Command]) -> str:
    return _WORDS.sub("-", kind.__name__).lower()


def subject_of(command: cmd.Command) -> str:
    """``job 12``, ``node n1``; empty: the site."""
    if isinstance(command, cmd.Select):
        return ", ".join(_jobs(command.ids)) or f"jobs of {command.of_user}"
    for name in _SUBJECTS:
        value = getattr(command, name, None)
        if value:
            return f"{name} {_name(value)}"
    return ""


def subject_of_answer(answer: object) -> str:
    """Where only the answer knows what was made."""
    made = getattr(answer, "id", None)
    return f"{type(answer).__name__.lower()} {made}" if made else ""


def _name(value: object) -> object:
    """Of a record, what people call it."""
    if isinstance(value, str | int):
        return value
    return getattr(value, "name", None) or getattr(value, "id", None) or "*"


def _jobs(ids: Sequence[int]) -> list[str]:
    if len(ids) > JOBS_MAX:
        return [f"jobs {min(ids)} to {max(ids)} ({len(ids)})"]
    return [f"job {one}" for one in ids]
