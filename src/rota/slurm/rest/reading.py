"""``/slurm``: jobs, nodes, partitions, and how the controller fares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rota.slurm.call.view import SlurmView
from rota.slurm.formats.documents import job_document, node_document, partition_document
from rota.slurm.formats.long_documents import LongList
from rota.slurm.formats.site_documents import (
    license_documents,
    ping_documents,
    reservation_document,
)
from rota.slurm.lists.sdiag import statistics
from rota.slurm.records.gather import MIN_JOB_AGE_S, JobSieve, lately_ended, unfinished
from rota.slurm.records.job_records import Recorder
from rota.slurm.records.job_refs import RefIndex, parse_ref
from rota.slurm.records.node_records import node_records, partition_records
from rota.slurm.rest.errors import INVALID_JOB, RestRefusal, error_entry

if TYPE_CHECKING:
    from rota.slurm.records.job_refs import JobRef
    from rota.slurm.records.records import JobRecord
    from rota.slurm.rest.errors import RestRequest


async def ping(asked: RestRequest) -> dict[str, Any]:
    return {"pings": ping_documents()}


async def diag(asked: RestRequest) -> dict[str, Any]:
    return {"statistics": statistics(SlurmView(asked.context), asked.context.host)}


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
    return {"reservations": [reservation_document(one, cluster) for one in known]}


async def reservation(asked: RestRequest) -> dict[str, Any]:
    everything = (await reservations(asked))["reservations"]
    found = [one for one in everything if one["name"] == asked.name]
    if not found:
        entry = {"error": "Requested reservation is invalid", "errno": 2053}
        raise RestRefusal(entry, reservations=[])
    return {"reservations": found}


async def licenses(asked: RestRequest) -> dict[str, Any]:
    return {"licenses": license_documents(asked.context.host.cluster)}
