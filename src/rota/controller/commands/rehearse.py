"""What a change would do, or why it would be refused: the same checks, and nothing is changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from rota.controller.commands.change import (
    change_job,
    changed_spec,
    concerns,
    named_ids,
    own_job,
    refuse_ended,
    refuse_stranger,
    with_known_parents,
)
from rota.controller.commands.commands import ChangedJobs, Refusal
from rota.controller.tick.scribe import Scribe
from rota.core.facts.errors import Rejected

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.controller.commands.commands import Select, Update
    from rota.core.changes import events as ev
    from rota.core.cluster import Cluster
    from rota.core.facts.array import Array
    from rota.core.facts.job import Job, JobSpec
    from rota.core.facts.tenant import Actor


class WouldChange(Exception):
    """All that could refuse has been asked; here the first event would be written."""


class Rehearsal(Scribe):
    """Writes nothing: it stops at the first event."""

    def emit(self, event: ev.AnyEvent) -> NoReturn:
        raise WouldChange(event)


def rehearse_selected(cluster: Cluster, command: Select, now_s: float) -> ChangedJobs:
    """What the command would change, and what of it would be refused."""
    scribe = Rehearsal(cluster, now_s, 0)
    changed: dict[int, None] = {}
    refused: list[Refusal] = []
    for item in command.ids or named_ids(cluster, command):
        try:
            changed.update(dict.fromkeys(_would_change(scribe, command, item)))
        except Rejected as error:
            refused.append(Refusal(item, error.detail))
    return ChangedJobs(tuple(changed), tuple(refused))


def _would_change(scribe: Rehearsal, command: Select, item: int) -> list[int]:
    cluster = scribe.cluster
    array = cluster.arrays.get(item)
    if array is None:
        _would_change_job(scribe, command, _job(scribe, command.actor, item))
        return [item]
    refuse_stranger(command.actor, array.spec, item)
    refuse_ended(cluster, array)
    found = [item]
    for job_id in sorted(cluster.families.unfinished.get(item, ())):
        job = cluster.jobs.get(job_id)
        if job is not None and concerns(command, job):
            _would_change_job(scribe, command, job)
            found.append(job_id)
    return found


def _would_change_job(scribe: Rehearsal, command: Select, job: Job) -> None:
    try:
        change_job(scribe, command, job)
    except WouldChange:
        return


def _job(scribe: Rehearsal, actor: Actor, item: int) -> Job:
    """As ``own_job``; an element stays in its array."""
    array = scribe.cluster.array_of(item)
    if array is None:
        return own_job(scribe, actor, item)
    refuse_stranger(actor, array.spec, item)
    return array.expand(array.position(item))


def rehearse_update(
    cluster: Cluster, command: Update, read_array: Callable[[int], Array | None], now_s: float
) -> JobSpec:
    """The spec that the job or array would have."""
    command = with_known_parents(cluster, command, read_array)
    array = cluster.arrays.get(command.job)
    if array is not None:
        refuse_stranger(command.actor, array.spec, array.id)
    scribe = Rehearsal(cluster, now_s, 0)
    return changed_spec(cluster, array or _job(scribe, command.actor, command.job), command)
