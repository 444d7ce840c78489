"""The command about endpoints, and which of them live."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.controller.commands.change import own_job
from rota.core.changes import events as ev
from rota.core.facts.endpoints import Endpoint
from rota.core.facts.errors import Conflict, NotFound

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rota.controller.commands.commands import SetEndpoint
    from rota.controller.tick.scribe import Scribe
    from rota.core.cluster import Cluster
    from rota.core.facts.job import Job

#: Of one job at a time; they are part of its record.
ENDPOINTS_MAX = 1000
PORT_MAX = 65_535


def set_endpoint(scribe: Scribe, command: SetEndpoint) -> Endpoint:
    """The job's own word, or its owner's. Telling the same again replaces what was told."""
    job = own_job(scribe, command.actor, command.job)
    uid = next((uid for uid, task in _live_tasks(job) if task == command.task), "")
    if not uid:
        raise Conflict(
            f"task {command.task} of job {job.id} does not run, so nobody can reach it",
            field="task",
            value=command.task,
        )
    known = {(one.task, one.name) for one in job.endpoints if one.uid == uid}
    told = (command.task, command.name)
    if not command.address and told not in known:
        raise NotFound(
            f"task {command.task} of job {job.id} has no endpoint {command.name}",
            field="name",
            value=command.name,
        )
    if command.address and told not in known and len(job.endpoints) >= ENDPOINTS_MAX:
        raise Conflict(f"job {job.id} has {ENDPOINTS_MAX} endpoints already, which is the most")
    endpoint = Endpoint(
        name=command.name,
        task=command.task,
        uid=uid,
        address=command.address,
        metadata=command.metadata,
        since_s=scribe.now_s,
    )
    scribe.emit(ev.EndpointSet(job=job.id, endpoint=endpoint))
    return endpoint


def note_ports(scribe: Scribe, job: Job, task: int, ports: Mapping[str, int]) -> None:
    """Where a task that has just started has its named ports: an endpoint for each."""
    attempt = job.tasks[task].attempts[-1]
    node = scribe.cluster.nodes[attempt.allocation.node]
    host = node.spec.address or node.name
    for name in job.spec.ports:
        port = ports.get(name, 0)
        if not 0 < port <= PORT_MAX:
            continue  # Nobody could listen there, whatever an agent says.
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        endpoint = Endpoint(
            name=name, task=task, uid=attempt.uid, address=address, since_s=scribe.now_s
        )
        scribe.emit(ev.EndpointSet(job=job.id, endpoint=endpoint))


def living(cluster: Cluster) -> Iterator[tuple[Job, Endpoint]]:
    """Every endpoint whose attempt has not ended, in the order of jobs, tasks and names."""
    for job_id in sorted({job_id for job_id, _task in cluster.live.where.values()}):
        job = cluster.jobs[job_id]
        if job.endpoints:
            alive = dict(_live_tasks(job))
            found = [one for one in job.endpoints if one.uid in alive]
            yield from ((job, one) for one in sorted(found, key=lambda one: (one.task, one.name)))


def _live_tasks(job: Job) -> list[tuple[str, int]]:
    """The uid of each live attempt and its task."""
    return [
        (task.attempts[-1].uid, task.index)
        for task in job.tasks
        if task.attempts and task.attempts[-1].live
    ]
