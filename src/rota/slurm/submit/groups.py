"""Heterogeneous jobs: one job of Rota with a role for each group, so that all start together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rota.api.bodies.request_fields import Resources
from rota.api.bodies.roles import request_of
from rota.core.facts.job import Role
from rota.slurm.orders.detail import LABEL, label_of
from rota.slurm.orders.shapes import share_of
from rota.slurm.orders.surroundings import WITHOUT_GANG, of_group
from rota.slurm.submit.submitting import NotTaken, prepare

if TYPE_CHECKING:
    from rota.controller.commands.commands import Submission
    from rota.slurm.call.command import Call
    from rota.slurm.orders.detail import Detail
    from rota.slurm.orders.orders import JobOrder
    from rota.slurm.orders.shapes import Share
    from rota.slurm.submit.submitting import BatchWork


def prepare_groups(
    call: Call, orders: list[JobOrder], work: BatchWork, extra: Detail
) -> Submission:
    """What concerns the job as a whole is the first group's: its queue, its limit, its files."""
    if any(order.has("array") for order in orders):
        raise NotTaken("Invalid job array specification")
    made, share, detail = prepare(call, orders[0], work, extra)
    nodes = list(call.context.host.cluster.nodes.values())
    shares = [share, *(share_of(order, nodes) for order in orders[1:])]
    roles = tuple(
        _role(number, order, one)
        for number, (order, one) in enumerate(zip(orders, shares, strict=True))
    )
    told = msgspec.structs.replace(
        detail,
        het_tasks=tuple(one.ntasks for one in shares),
        het_names=_names(orders, made.spec.name),
        het_size=len(shares),
    )
    spec = msgspec.structs.replace(
        made.spec,
        roles=roles,
        # Groups may share a node: only all of them together must fit.
        placement=msgspec.structs.replace(made.spec.placement, node_count=0),
        labels={**made.spec.labels, LABEL: label_of(told)},
        variables={**WITHOUT_GANG, **made.spec.variables, **_variables(orders, shares, told, made)},
    )
    return msgspec.structs.replace(made, spec=spec)


def _variables(
    orders: list[JobOrder], shares: list[Share], told: Detail, made: Submission
) -> dict[str, str]:
    found = {"SLURM_HET_SIZE": str(len(shares)), "SLURM_CPUS_PER_TASK": ""}
    for number, (order, share) in enumerate(zip(orders, shares, strict=True)):
        found |= of_group(number, order, share, told, made.spec)
    return found


def _names(orders: list[JobOrder], first: str) -> tuple[str, ...]:
    """A group that names itself has that name, and so have those behind it."""
    names = [first]
    for order in orders[1:]:
        names.append(order.text("job-name") or names[-1])
    return tuple(names)


def _role(number: int, order: JobOrder, share: Share) -> Role:
    asked = Resources(
        cpus=share.cpus,
        memory_mb=share.memory_mib,
        gpus=share.gpus,
        gpu_type=order.gpu_type if share.gpus else "",
    )
    return Role(name=f"group{number}", count=share.nodes, request=request_of(asked))
