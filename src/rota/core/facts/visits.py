"""Somebody went into a running job: on record, because it changes nothing else."""

from __future__ import annotations

from rota.core.facts.event import Event


class JobEntered(Event, frozen=True, tag="job-entered"):
    """Somebody attached to a task of a job or reached into one of its ports.

    ``way`` is ``attach`` or ``forward 8888``; who it was stands with every event.
    """

    job: int
    task: int
    way: str
