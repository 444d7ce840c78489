"""Visits: a user went into a running job. On record, because it changes nothing else."""

from __future__ import annotations

from rota.core.facts.event import Event


class JobEntered(Event, frozen=True, tag="job-entered"):
    """A user attached to a task of a job or reached into one of its ports.

    ``way`` is ``attach`` or ``forward 8888``; the user stands with every event.
    """

    job: int
    task: int
    way: str
