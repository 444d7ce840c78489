"""The calls of ``cluster.proto`` about endpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.api.grpc import reading
from rota.api.grpc.views import ms_of
from rota.api.jobs import endpoints
from rota.api.views.lookup import ID_MAX, parse_id
from rota.core.facts.errors import Rejected
from rota.rpc import cluster_pb2 as pb

if TYPE_CHECKING:
    from rota.api.grpc.calls import GrpcCall


async def register(call: GrpcCall[pb.RegisterEndpointRequest]) -> pb.Endpoint:
    request = call.request
    asked = endpoints.EndpointRequest(
        name=request.name,
        address=request.address,
        task=reading.within("task", request.task, 0, ID_MAX),
        metadata=dict(request.metadata),
    )
    ref = reading.job_ref(request.job_id)
    return _message(await endpoints.register(call.context, call.actor, ref, asked))


async def unregister(
    call: GrpcCall[pb.UnregisterEndpointRequest],
) -> pb.UnregisterEndpointResponse:
    text = call.request.endpoint_id
    job, _, rest = text.partition(".")
    task, mark, name = rest.partition(".")
    number = parse_id(task)
    if parse_id(job) is None or number is None or not mark:
        raise Rejected.bad("endpoint_id", text, "JOB.TASK.NAME, as it was given at registration")
    await endpoints.unregister(call.context, call.actor, job, number, name)
    return pb.UnregisterEndpointResponse()


async def lookup(call: GrpcCall[pb.LookupEndpointRequest]) -> pb.ListEndpointsResponse:
    name = call.request.name
    found = endpoints.living_views(call.context, call.actor, name=name) if name else []
    if not found:
        raise endpoints.no_endpoint(name)
    return pb.ListEndpointsResponse(endpoints=[_message(view) for view in found])


async def list_all(call: GrpcCall[pb.ListEndpointsRequest]) -> pb.ListEndpointsResponse:
    found = endpoints.living_views(call.context, call.actor, prefix=call.request.prefix)
    return pb.ListEndpointsResponse(endpoints=[_message(view) for view in found])


def _message(view: endpoints.EndpointView) -> pb.Endpoint:
    return pb.Endpoint(
        endpoint_id=view.id,
        name=view.name,
        address=view.address,
        job_id=str(view.job),
        task=view.task,
        metadata=view.metadata,
        user=view.user,
        worker_id=view.node,
        registered_at_ms=ms_of(view.since),
    )
