"""Steps: what was started inside a running job, on record for later questions.

A step holds nothing of its own; its job only counts them, so that no number is given twice.
"""

from __future__ import annotations

from rota.core.facts.event import Event


class StepStarted(Event, frozen=True, tag="step-started"):
    job: int
    step: int
    name: str
    nodes: tuple[str, ...] = ()
    tasks: int = 1
    cpus: int = 0


class StepEnded(Event, frozen=True, tag="step-ended"):
    """Its job may be over already: both end at the same moment when a user ends the job."""

    job: int
    step: int
    state: str
    exit_code: int = 0
    signal: int = 0
    #: What its tasks used: CPU time of all of them, memory of the largest.
    cpu_s: float = 0.0
    memory_mib: int = 0
