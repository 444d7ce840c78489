"""How jobs look in a notebook, and a bar over many of them, there and in a terminal."""

from __future__ import annotations

import sys
from html import escape
from typing import TYPE_CHECKING, Any

from rota.client.errors import ClientError
from rota.client.handle import as_completed, handles_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rota.client.handle import JobHandle

COLOURS = {"completed": "#2a7f3f", "running": "#1f5fbf", "failed": "#b3261e", "cancelled": "#777"}


def job_line(job: JobHandle[Any]) -> str:
    """One job as HTML: id, name, state, and a bar where it says how far it is."""
    state, said = job.ended_as, None
    try:
        state = state or job.status().state
        said = job.progress() if job.tasks else None
    except ClientError:
        state = state or "unknown"
    words = [f"job {job.id}", f"<b>{escape(job.name)}</b>" if job.name else "", _state(state)]
    if said is not None:
        words.append(bar(float(said["fraction"]), 1.0, str(said["message"])))
    return f"<span>{' '.join(word for word in words if word)}</span>"


def _state(state: str) -> str:
    return f'<span style="color:{COLOURS.get(state, "inherit")}">{escape(state)}</span>'


def bar(value: float, most: float, words: str = "") -> str:
    """A bar as HTML, with words behind it."""
    return f'<progress value="{value:g}" max="{most:g}"></progress> {escape(words)}'.rstrip()


def watch(*jobs: JobHandle[Any] | Iterable[JobHandle[Any]], timeout: float | None = None) -> None:
    """Show a bar until all these jobs have ended, in a notebook or a terminal.

    Nothing is raised for a job that fails: the bar counts it.
    """
    listed = handles_in(jobs)
    show = _in_notebook(len(listed)) or _in_terminal(len(listed))
    done = failed = 0
    show(done, failed)
    try:
        for job in as_completed(listed, timeout=timeout):
            done += 1
            failed += job.ended_as != "completed"
            show(done, failed)
    finally:
        show(-1, failed)


def told(done: int, failed: int, total: int) -> str:
    """How far many jobs are, in words."""
    return f"{done}/{total} ended" + (f", {failed} failed" if failed else "")


def _in_notebook(total: int) -> Callable[[int, int], None] | None:
    """Draws where IPython runs with more than a terminal; None elsewhere."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is None or not hasattr(shell, "kernel"):
        return None
    display = sys.modules["IPython"].display
    place = display.display(display.HTML(bar(0, total)), display_id=True)

    def show(done: int, failed: int) -> None:
        if done >= 0:
            place.update(display.HTML(bar(done, total, told(done, failed, total))))

    return show


def _in_terminal(total: int) -> Callable[[int, int], None]:
    """Draws with rich on standard error; where that is no terminal, only at the end."""
    from rich.console import Console
    from rich.progress import Progress

    progress = Progress(console=Console(stderr=True), transient=False)
    task = progress.add_task(told(0, 0, total), total=total)
    progress.start()

    def show(done: int, failed: int) -> None:
        if done < 0:
            progress.stop()
        else:
            progress.update(task, completed=done, description=told(done, failed, total))

    return show
