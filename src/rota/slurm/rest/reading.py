"""``/slurm``: jobs, nodes, partitions, and how the controller fares."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

from rota import hostlist
from rota.core.facts.states import ACTIVE, WAITING, JobState
from rota.scheduling.limits.licenses import held_of, limits_of
from rota.slurm.call.view import SlurmView
from rota.slurm.formats.documents import job_document, node_document, partition_document
from rota.slurm.formats.long_documents import LongList
from rota.slurm.records.gather import MIN_JOB_AGE_S, JobSieve, lately_ended, unfinished
from rota.slurm.records.job_records import Recorder
from rota.slurm.records.job_refs import RefIndex, parse_ref
from rota.slurm.records.node_records import node_records, partition_records, reservation_name
from rota.slurm.rest.errors import INVALID_JOB, RestRefusal, error_entry

if TYPE_CHECKING:
    from rota.core.cluster import Cluster
    from rota.core.facts.tenant import Reservation
    from rota.slurm.records.job_refs import JobRef
    from rota.slurm.records.records import JobRecord
    from rota.slurm.rest.errors import RestRequest


async def ping(asked: RestRequest) -> dict[str, Any]:
    host = socket.gethostname()
    return {"pings": [{"hostname": host, "ping": "UP", "status": 0, "mode": "primary"}]}


async def diag(asked: RestRequest) -> dict[str, Any]:
    """The counters; Rota counts no messages by their type."""
    view, host = SlurmView(asked.context), asked.context.host
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


async def jobs(asked: RestRequest) -> dict[str, Any]:
    view = SlurmView(asked.context)
    found = await _records(asked, view, None)
    return {"jobs": LongList(found, lambda one: job_document(one, view.cluster_name))}


async def job(asked: RestRequest) -> dict[str, Any]:
    view, ref = SlurmView(asked.context), parse_ref(asked.name)
    found = await _records(asked, view, ref) if ref is not None else []
    if not found:
        description = f"Unable to find JobId={asked.name}"
        raise RestRefusal(
            error_entry(description, INVALID_JOB, "Invalid job id specified", "slurm_load_job"),
            jobs=[],
        )
    return {"jobs": [job_document(one, view.cluster_name) for one in found]}


async def _records(asked: RestRequest, view: SlurmView, ref: JobRef | None) -> list[JobRecord]:
    context = asked.context
    recorder = Recorder(context, view.now_s, actor=asked.actor)
    wanted = JobSieve(refs=RefIndex(() if ref is None else (ref,)))
    found = {job.shown_id: job for job in await unfinished(context.host, wanted, recorder)}
    await context.host.on_disk()
    since_s = view.now_s - MIN_JOB_AGE_S
    over = await lately_ended(context.host, wanted, recorder, since_s)
    found |= {job.shown_id: job for job in over}
    return sorted(found.values(), key=lambda job: job.job_id)


async def nodes(asked: RestRequest) -> dict[str, Any]:
    host = asked.context.host
    found = node_records(host.cluster, host.scheduler.promises.kept)
    return {"nodes": [node_document(node) for node in found]}


async def node(asked: RestRequest) -> dict[str, Any]:
    found = [one for one in (await nodes(asked))["nodes"] if one["name"] == asked.name]
    if not found:
        description = f"Failure to query node {asked.name}"
        raise RestRefusal(error_entry(description, 2018, "Invalid node name specified"), nodes=[])
    return {"nodes": found}


async def partitions(asked: RestRequest) -> dict[str, Any]:
    found = partition_records(asked.context.host.cluster)
    return {"partitions": [partition_document(one) for one in found]}


async def partition(asked: RestRequest) -> dict[str, Any]:
    found = [one for one in (await partitions(asked))["partitions"] if one["name"] == asked.name]
    if not found:
        description = f"Unable to find partition {asked.name}"
        entry = error_entry(description, 2000, "Invalid partition name specified")
        raise RestRefusal(entry, partitions=[])
    return {"partitions": found}


async def reservations(asked: RestRequest) -> dict[str, Any]:
    cluster = asked.context.host.cluster
    known = cluster.reservations.values()
    return {"reservations": [_reservation(one, cluster) for one in known]}


def _reservation(item: Reservation, cluster: Cluster) -> dict[str, Any]:
    """A reservation of nodes, or of devices on one of them."""
    nodes = item.nodes or ((item.node,) if item.node else ())
    known = [cluster.nodes[name] for name in nodes if name in cluster.nodes]
    cpus = sum(max(1, node.spec.cpu_milli // 1000) for node in known)
    nothing = ("burst_buffer", "features", "groups", "licenses", "partition")
    return {
        "flags": ["SPEC_NODES"],
        "accounts": item.project,
        **dict.fromkeys(nothing, ""),
        "core_count": cpus,
        "core_spec_cnt": 0,
        "end_time": int(item.end_s),
        "max_start_delay": 0,
        "name": reservation_name(item),
        "node_count": len(nodes),
        "node_list": hostlist.compress(nodes),
        "start_time": int(item.start_s),
        # Slurm's word for none.
        "watts": 4294967294,
        "tres": f"cpu={cpus}",
        "users": item.owner,
    }


async def reservation(asked: RestRequest) -> dict[str, Any]:
    everything = (await reservations(asked))["reservations"]
    found = [one for one in everything if one["name"] == asked.name]
    if not found:
        entry = {"error": "Requested reservation is invalid", "errno": 2053}
        raise RestRefusal(entry, reservations=[])
    return {"reservations": found}


async def licenses(asked: RestRequest) -> dict[str, Any]:
    cluster = asked.context.host.cluster
    found = []
    for name, total in sorted(limits_of(cluster.policy.licenses).items()):
        used = held_of(cluster, name)
        counts = {"Total": total, "Used": used, "Free": total - used, "Reserved": 0}
        found.append({"LicenseName": name, **counts, "Remote": False})
    return {"licenses": found}
