"""``srun -W``: how long the other tasks may go on when the first one has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.hostlist import compress

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def overdue(step: str, waited_s: int, running: Iterable[int], ended: Mapping[int, int]) -> str:
    """What srun says before it ends the rest: who still runs, and how the others ended."""
    groups = {
        "running": list(running),
        "exited": [rank for rank, status in ended.items() if not status],
        "exited abnormally": [rank for rank, status in ended.items() if status],
    }
    lines = [f"First task exited {waited_s}s ago"]
    lines += [f"StepId={step} {_tasks(ranks)}: {how}" for how, ranks in groups.items() if ranks]
    lines.append(f"launch/slurm: _step_signal: Terminating StepId={step}")
    return "".join(f"srun: {line}\n" for line in lines)


def _tasks(ranks: list[int]) -> str:
    listed = compress(f"t{rank}" for rank in sorted(ranks))
    return f"{'tasks' if len(ranks) > 1 else 'task'} {listed.strip('t[]')}"
