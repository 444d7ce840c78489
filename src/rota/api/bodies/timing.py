"""What a job says of its time: a deadline that it can meet, a warning before its limit."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

from rota.api.bodies.placing import signal_name
from rota.core.facts.errors import Rejected
from rota.core.words.units import format_duration

if TYPE_CHECKING:
    from rota.api.bodies.requests import JobRequest

#: A client reads "in ten minutes" a moment before we do.
SLACK_S = 1.0


def kept_deadline(request: JobRequest, deadline_s: float, begins_s: float) -> float:
    """One that the job cannot meet even if it started at once is refused."""
    takes_s = request.estimate_s or request.time_limit_s
    if deadline_s and takes_s and begins_s + takes_s > deadline_s + SLACK_S:
        word = "estimate" if request.estimate_s else "time limit"
        left = format_duration(max(0, int(deadline_s - begins_s)))
        raise Rejected.because(
            "deadline_at",
            request.deadline_at,
            f"cannot be met: by its {word} the job takes {format_duration(ceil(takes_s))}, and the "
            f"deadline is {left} after its earliest start",
        )
    return deadline_s


def warning(request: JobRequest) -> dict[str, Any]:
    """The signal before its limit is over, and how long before."""
    name, before_s = signal_name(request.warn_signal, "warn_signal"), ceil(request.warn_s)
    if bool(name) != bool(before_s):
        raise Rejected.because("warn_signal", name, "warn_signal and warn_s go together")
    if before_s and not request.time_limit_s:
        raise Rejected.because("warn_signal", name, "it comes before a limit: give time_limit_s")
    return {"warn_signal": name, "warn_s": before_s}
