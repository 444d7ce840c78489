"""When a job will probably start, in words: ``about 14:20, nine in ten before 15:05``."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from rota.client.errors import ClientError

if TYPE_CHECKING:
    from rota.client.http import Client


def in_words(foretold: dict[str, Any], now: datetime | None = None) -> str:
    """The expected start, and by when nine in ten such jobs have started."""
    about = _clock(foretold["expected_at"], now)
    before = _clock(foretold["nine_in_ten_at"], now)
    return f"about {about}, nine in ten before {before}"


def foretold_lines(answer: dict[str, Any]) -> list[str]:
    """A line for what is said of a job that waits; none where nothing is."""
    foretold = answer.get("foretold")
    return [f"  it will probably start {in_words(foretold)}"] if foretold else []


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
