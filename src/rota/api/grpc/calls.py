"""The calls of ``cluster.proto``: each one translates, asks what REST asks, and translates back."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import msgspec

from rota.api.grpc import reading, views
from rota.api.jobs.changes import change_one
from rota.api.jobs.jobs import view_of
from rota.api.jobs.logs import open_log
from rota.api.jobs.submit import SubmittedView, submit_one
from rota.api.site.nodes import node_view
from rota.api.views.listing import list_page
from rota.api.views.lookup import ID_MAX, find, resolve
from rota.api.watch.live import (
    EventWish,
    event_view,
    heard,
    is_open,
    parse_kinds,
    refuse_too_old,
)
from rota.controller.commands.commands import Cancel
from rota.rpc import cluster_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from rota.api.context import Context
    from rota.core.facts.tenant import Actor

M = TypeVar("M")


class GrpcCall(NamedTuple, Generic[M]):
    """What was asked, and by whom. ``begin`` tells the caller of a stream that we listen."""

    context: Context
    actor: Actor
    request: M
    begin: Callable[[], Awaitable[None]]


async def launch_job(call: GrpcCall[pb.LaunchJobRequest]) -> pb.LaunchJobResponse:
    key = call.request.idempotency_key
    answer = await submit_one(call.context, call.actor, reading.job_body(call.request), key)
    made = msgspec.json.decode(answer.body, type=SubmittedView)
    return pb.LaunchJobResponse(job_id=str(made.id), uid=made.uid, count=made.count or 0)


async def get_job_status(call: GrpcCall[pb.GetJobStatusRequest]) -> pb.JobStatus:
    return await _status(call, reading.job_ref(call.request.job_id))


async def terminate_job(call: GrpcCall[pb.TerminateJobRequest]) -> pb.JobStatus:
    found = await find(call.context.host, reading.job_ref(call.request.job_id))
    command = Cancel(actor=call.actor, ids=(found.id,))
    await change_one(call.context, call.actor, found, command)
    return await _status(call, found.id)


async def _status(call: GrpcCall[M], ref: int | str) -> pb.JobStatus:
    found = await find(call.context.host, ref)
    return views.job_status(view_of(call.context, found, call.actor))


async def list_jobs(call: GrpcCall[pb.ListJobsRequest]) -> pb.ListJobsResponse:
    host = call.context.host
    ids = [await resolve(host, ref) for ref in reading.listed_refs(call.request)]
    page = await list_page(host, reading.query_of(call.request, ids), call.actor)
    jobs = [views.job_status(view) for view in page.items]
    return pb.ListJobsResponse(jobs=jobs, cursor=page.cursor or "")


async def fetch_logs(call: GrpcCall[pb.FetchLogsRequest]) -> AsyncIterator[pb.LogChunk]:
    wish = reading.log_wish(call.request)
    ref = reading.job_ref(call.request.job_id)
    pieces = await open_log(call.context, call.actor, ref, wish)
    await call.begin()
    if pieces is not None:
        async for piece in pieces:
            yield pb.LogChunk(data=piece)


async def watch_events(call: GrpcCall[pb.WatchEventsRequest]) -> AsyncIterator[pb.Event]:
    request = call.request
    after = None
    if request.HasField("after_seq"):
        after = reading.within("after_seq", request.after_seq, 0, ID_MAX)
    job = await resolve(call.context.host, request.job_id) if request.job_id else 0
    wanted = EventWish(job, parse_kinds(",".join(request.kinds)))
    refuse_too_old(call.context, call.actor, after, wanted)
    open_ = await is_open(call.context, call.actor, wanted)
    async with aclosing(heard(call.context, call.actor, after, wanted)) as records:
        async for record in records:
            if record is None:
                await call.begin()
            elif view := event_view(record, call.actor, open_=open_):
                yield views.event(view)


async def list_workers(call: GrpcCall[pb.ListWorkersRequest]) -> pb.ListWorkersResponse:
    cluster = call.context.host.cluster
    found = [node_view(cluster, cluster.nodes[name]) for name in sorted(cluster.nodes)]
    return pb.ListWorkersResponse(workers=[views.worker(view) for view in found])


async def health_check(call: GrpcCall[pb.HealthCheckRequest]) -> pb.HealthCheckResponse:
    context = call.context
    return pb.HealthCheckResponse(
        ready=not context.closing.is_set(),
        version=context.settings.version,
        now_ms=views.to_ms(context.host.clock.now_s()),
    )
