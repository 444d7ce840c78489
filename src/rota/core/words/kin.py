"""What a job that asks for itself may change: itself, and the jobs that it submitted."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rota.core.facts.job import JobSpec
    from rota.core.facts.tenant import Actor

#: The label of a job that another one submitted: the id of that one.
PARENT_LABEL = "parent"


def is_kin(actor: Actor, item: int, spec: JobSpec) -> bool:
    """Whether a job or array is the actor's own affair; that of a person it always is."""
    return not actor.job or actor.job == item or spec.labels.get(PARENT_LABEL) == str(actor.job)
