"""``/slurm``: jobs, nodes, partitions, and how the controller fares."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

from rota.core.facts.states import ACTIVE, WAITING, JobState
from rota.slurm.call.view import View, each
from rota.slurm.formats.documents import job_document, node_document, partition_document
from rota.slurm.records.gather import MIN_JOB_AGE_S, Wanted, lately_ended, unfinished
from rota.slurm.records.job_records import Recorder
from rota.slurm.records.job_refs import parse_ref
from rota.slurm.records.node_records import node_records, partition_records
from rota.slurm.rest.errors import INVALID_JOB, Refusal, error_entry

if TYPE_CHECKING:
    from rota.slurm.records.job_refs import JobRef
    from rota.slurm.records.records import JobRecord
    from rota.slurm.rest.errors import Asked


async def ping(asked: Asked) -> dict[str, Any]:
    host = socket.gethostname()
    return {"pings": [{"hostname": host, "ping": "UP", "status": 0, "mode": "primary"}]}


async def diag(asked: Asked) -> dict[str, Any]:
    """The counters; Rota counts no messages by their type."""
    view, host = View(asked.context), asked.context.host
    counts = view.cluster.count_states()
    failed = (JobState.FAILED, JobState.TIMEOUT, JobState.NODE_FAILED)
    running = sum(counts[state] for state in ACTIVE)
    return {
        "statistics": {
            "rpcs_by_message_type": [],
            "rpcs_by_user": [],
            "req_time": int(view.now_s),
            "req_time_start": int(view.started_s),
            "server_thread_count": 1,
            "agent_queue_size": host.waiting,
            "jobs_submitted": sum(counts.values()),
            "jobs_started": sum(counts[s] for s in ACTIVE)
            + sum(view.cluster.ids.ended.counts.values()),
            "jobs_completed": counts[JobState.COMPLETED],
            "jobs_canceled": counts[JobState.CANCELLED],
            "jobs_failed": sum(counts[state] for state in failed),
            "jobs_pending": sum(counts[state] for state in WAITING),
            "jobs_running": running,
            "schedule_cycle_total": host.meters.ticks,
        }
    }


async def jobs(asked: Asked) -> dict[str, Any]:
    view = View(asked.context)
    found = await _records(asked, view, None)
    return {"jobs": await each(found, lambda one: job_document(one, view.cluster_name))}


async def job(asked: Asked) -> dict[str, Any]:
    view, ref = View(asked.context), parse_ref(asked.name)
    found = await _records(asked, view, ref) if ref is not None else []
    if not found:
        description = f"Unable to find JobId={asked.name}"
        raise Refusal(
            error_entry(description, INVALID_JOB, "Invalid job id specified", "slurm_load_job"),
            jobs=[],
        )
    return {"jobs": [job_document(one, view.cluster_name) for one in found]}


async def _records(asked: Asked, view: View, ref: JobRef | None) -> list[JobRecord]:
    context = asked.context
    recorder = Recorder(context, view.now_s, actor=asked.actor)
    wanted = Wanted(refs=() if ref is None else (ref,))
    found = {job.shown_id: job for job in await unfinished(context.host, wanted, recorder)}
    await context.host.on_disk()
    since_s = view.now_s - MIN_JOB_AGE_S
    over = await lately_ended(context.host, wanted, recorder, since_s)
    found |= {job.shown_id: job for job in over}
    return sorted(found.values(), key=lambda job: job.job_id)


async def nodes(asked: Asked) -> dict[str, Any]:
    host = asked.context.host
    found = node_records(host.cluster, host.scheduler.promises.kept)
    return {"nodes": [node_document(node) for node in found]}


async def node(asked: Asked) -> dict[str, Any]:
    found = [one for one in (await nodes(asked))["nodes"] if one["name"] == asked.name]
    if not found:
        description = f"Failure to query node {asked.name}"
        raise Refusal(error_entry(description, 2018, "Invalid node name specified"), nodes=[])
    return {"nodes": found}


async def partitions(asked: Asked) -> dict[str, Any]:
    found = partition_records(asked.context.host.cluster)
    return {"partitions": [partition_document(one) for one in found]}


async def partition(asked: Asked) -> dict[str, Any]:
    found = [one for one in (await partitions(asked))["partitions"] if one["name"] == asked.name]
    if not found:
        description = f"Unable to find partition {asked.name}"
        entry = error_entry(description, 2000, "Invalid partition name specified")
        raise Refusal(entry, partitions=[])
    return {"partitions": found}
