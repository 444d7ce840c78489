"""What an actor that is no person may change.

A job that asks for itself: itself, and the jobs that it submitted. A token of a project: its jobs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rota.core.facts.job import JobSpec
    from rota.core.facts.tenant import Actor

#: The label of a job that another one submitted: the id of that one.
PARENT_LABEL = "parent"


def is_kin(actor: Actor, item: int, spec: JobSpec) -> bool:
    """Whether a job or array is the actor's own affair; that of a person it always is."""
    if actor.project and spec.project != actor.project:
        return False
    return not actor.job or actor.job == item or spec.labels.get(PARENT_LABEL) == str(actor.job)
