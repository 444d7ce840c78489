"""When a job will probably start, in words: ``about 14:20, nine in ten before 15:05``."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from rota.client.errors import ClientError
from rota.core.words.units import counted

if TYPE_CHECKING:
    from rota.client.http import Client


def in_words(foretold: dict[str, Any], now: datetime | None = None) -> str:
    """The expected start, and by when nine in ten such jobs have started, if that is known."""
    about, most = f"about {_clock(foretold['expected_at'], now)}", foretold["nine_in_ten_at"]
    return f"{about}, nine in ten before {_clock(most, now)}" if most else about


def basis_of(foretold: dict[str, Any]) -> str:
    """What that rests on: ``(from 12 such jobs that ran and 34 starts)``."""
    runs, starts = foretold.get("runs"), foretold.get("starts")
    if starts is None:
        # An older server does not say.
        return ""
    ran = (
        "" if runs is None else f"{counted(runs, 'such jobs')} that ran" if runs else "time limits"
    )
    if foretold["nine_in_ten_at"]:
        return f" (from {' and '.join(filter(None, (ran, counted(starts, 'starts'))))})"
    few = f"{counted(starts, 'starts')} so far, too few to say how sure"
    return f" ({f'from {ran}; ' if ran else ''}{few})"


def foretold_lines(answer: dict[str, Any]) -> list[str]:
    """A line for what is said of a job that waits; none where nothing is."""
    foretold = answer.get("foretold")
    return (
        [f"  it will probably start {in_words(foretold)}{basis_of(foretold)}"] if foretold else []
    )


def promise_line(said: dict[str, Any]) -> str:
    """What is said of a deadline that was to be promised."""
    by = _clock(said["by_at"])
    if said["answer"] == "yes":
        return f"promised: done by {by}, it starts at {_clock(said['start_at'])} at the latest"
    if said["answer"] == "chance":
        return f"not promised: done by {by} with {said['percent']} %"
    return f"not promised: {said['reason']}"


def add_starts(client: Client, jobs: list[dict[str, Any]]) -> None:
    """Put what is said of them into those that wait."""
    try:
        said = {one["id"]: one for one in client.get("/jobs/starts")["items"]}
    except ClientError:
        # An older server does not know of it.
        return
    for job in jobs:
        if job["id"] in said:
            job["foretold"] = said[job["id"]]


def _clock(moment: str, now: datetime | None = None) -> str:
    """The time of day on this machine's clock; the day too, where it is not today."""
    at = datetime.fromisoformat(moment).astimezone()
    now = now or datetime.now().astimezone()
    return f"{at:%H:%M}" if at.date() == now.date() else f"{at:%Y-%m-%d %H:%M}"
