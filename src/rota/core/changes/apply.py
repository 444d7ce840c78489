"""``apply(cluster, event, at_s)``: the only way that a Cluster changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.changes.apply_attempts import ATTEMPT_RULES
from rota.core.changes.apply_clock import CLOCK_RULES
from rota.core.changes.apply_gpus import GPU_RULES
from rota.core.changes.apply_jobs import JOB_RULES
from rota.core.changes.apply_saving import SAVING_RULES
from rota.core.changes.apply_site import SITE_RULES
from rota.core.changes.apply_steps import STEP_RULES

if TYPE_CHECKING:
    from rota.core.changes.events import AnyEvent
    from rota.core.cluster import Cluster

#: Each rule takes its own kind of event; the key says which.
_RULES = {
    **JOB_RULES,
    **ATTEMPT_RULES,
    **SAVING_RULES,
    **STEP_RULES,
    **SITE_RULES,
    **CLOCK_RULES,
    **GPU_RULES,
}


def apply(cluster: Cluster, event: AnyEvent, at_s: float) -> None:
    """Make the event's change. Raises ``IllegalMove`` when our own rules forbid it."""
    _RULES[type(event)](cluster, event, at_s)
