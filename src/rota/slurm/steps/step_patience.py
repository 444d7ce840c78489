"""How long srun waits: ``-W`` for the other tasks when one has ended, and for a second Ctrl-C."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from rota.hostlist import compress

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: A Ctrl-C within this time of the one before means more than that one.
AGAIN_S = 1.0


class Interrupt(Enum):
    ASKED = auto()
    PASSED = auto()
    ENDED = auto()


def overdue(step: str, waited_s: int, running: Iterable[int], ended: Mapping[int, int]) -> str:
    """What srun says before it ends the rest: who still runs, and how the others ended."""
    last = f"launch/slurm: _step_signal: Terminating StepId={step}"
    lines = [f"First task exited {waited_s}s ago", *_standing(step, running, ended), last]
    return "".join(f"srun: {line}\n" for line in lines)


def asked(step: str, running: Iterable[int], ended: Mapping[int, int]) -> str:
    """What srun says to the first Ctrl-C: how its tasks stand."""
    lines = ["interrupt (one more within 1 sec to abort)", *_standing(step, running, ended)]
    return "".join(f"srun: {line}\n" for line in lines)


def _standing(step: str, running: Iterable[int], ended: Mapping[int, int]) -> list[str]:
    groups = {
        "running": list(running),
        "exited": [rank for rank, status in ended.items() if not status],
        "exited abnormally": [rank for rank, status in ended.items() if status],
    }
    return [f"StepId={step} {_tasks(ranks)}: {how}" for how, ranks in groups.items() if ranks]


class Interrupts:
    """What each Ctrl-C means: a question, an interrupt of the tasks, or their end."""

    def __init__(self, *, quits: bool, silent: bool) -> None:
        self._quits, self._silent = quits, silent
        self._asked_s = self._sent_s = float("-inf")

    def one(self, now_s: float) -> Interrupt:
        if not self._quits and now_s - self._asked_s > AGAIN_S:
            self._asked_s = now_s
            return Interrupt.PASSED if self._silent else Interrupt.ASKED
        if now_s - self._sent_s < AGAIN_S:
            return Interrupt.ENDED
        self._sent_s = now_s
        return Interrupt.PASSED


def _tasks(ranks: list[int]) -> str:
    listed = compress(f"t{rank}" for rank in sorted(ranks))
    return f"{'tasks' if len(ranks) > 1 else 'task'} {listed.strip('t[]')}"
