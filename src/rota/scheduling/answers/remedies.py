"""What could be changed beside the job itself: caps, quotas, queues, nodes, reservations.

A remedy is a change to try and the command that makes it; whether it helps is for ``advice.py``
to find out.
"""

from __future__ import annotations

from math import ceil
from shlex import quote
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from rota.core.facts.tenant import Limits, Quota, User
from rota.core.words.units import format_mib
from rota.scheduling.answers import reasons as why
from rota.scheduling.answers.whatif import Replaced, Resumed, Together, WithoutRecord, active
from rota.scheduling.limits.quota_rules import Dimension

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.core.cluster import Cluster
    from rota.scheduling.answers.reasons import Reason
    from rota.scheduling.answers.whatif import Supposed

#: Field of ``Limits`` and option of ``rota quota set``.
_LIMITS = {
    Dimension.JOBS: ("jobs", "--jobs"),
    Dimension.CPU_MILLI: ("cpu_milli", "--cpus"),
    Dimension.MEMORY_MIB: ("memory_mib", "--mem"),
    Dimension.DEVICE_MILLI: ("device_milli", "--gpus"),
    Dimension.DEVICE_HOURS: ("device_hours", "--gpu-hours"),
    Dimension.COST: ("cost", "--cost"),
}


class Remedy(NamedTuple):
    """A change around the job, mostly for an operator to make."""

    text: str
    command: str
    change: Supposed
    loss: float
    #: Only an operator may.
    operator: bool = True


def remedies(reason: Reason, cluster: Cluster) -> Iterator[Remedy]:
    """What would take one reason away."""
    match reason:
        case why.QueueShut():
            name, queue = quote(reason.queue), cluster.queues[reason.queue]
            option = "--hours ''" if queue.outside else "--state active"
            text = f"{'open' if queue.outside else 'activate'} queue {reason.queue}"
            yield Remedy(text, f"rota queue-admin set {name} {option}", active(queue), 0.3)
        case why.OverQuota():
            yield from _of_limit(reason, cluster)
        case why.Away() if reason.state == "drained":
            command = f"rota node resume {quote(reason.node)}"
            yield Remedy(f"resume node {reason.node}", command, Resumed(reason.node), 0.3)
        case why.Claimed() if reason.reservation:
            command = f"rota reserve remove {reason.reservation}"
            text = f"remove reservation {reason.reservation}"
            yield Remedy(text, command, WithoutRecord("reservations", reason.reservation), 0.8)
        case _:
            return


def _of_limit(reason: why.OverQuota, cluster: Cluster) -> Iterator[Remedy]:
    if reason.note:
        return
    kind, _, name = reason.scope.partition(" ")
    more = int(reason.used + reason.wanted)
    if kind == "license":
        return  # What a site has bought is no rule that somebody could relax.
    if kind == "group" and name in cluster.groups:
        group = msgspec.structs.replace(cluster.groups[name], max_concurrent=more)
        command = f"rota group set {quote(name)} --max-concurrent {more}"
        text = f"raise the cap of group {name} to {more}"
        yield Remedy(text, command, Replaced("groups", name, group), 0.1, operator=False)
    elif kind == "array":
        array = msgspec.structs.replace(cluster.arrays[int(name)], cap=more)
        command = f"rota update {name} --max-concurrent {more}"
        text = f"raise the cap of array {name} to {more}"
        yield Remedy(text, command, Replaced("arrays", int(name), array), 0.1, operator=False)
    elif (queue := reason.scope.rpartition("queue ")[2]) in cluster.queues and _is_cap(reason):
        yield _of_queue(reason, cluster, queue, more)
    else:
        yield from _of_quota(reason, cluster)


def _is_cap(reason: why.OverQuota) -> bool:
    return reason.scope.startswith("queue ") or " in queue " in reason.scope


def _of_queue(reason: why.OverQuota, cluster: Cluster, name: str, more: int) -> Remedy:
    field = "max_running"
    if " in queue " in reason.scope:
        field = "max_per_project" if reason.scope.startswith("project ") else "max_per_user"
    queue = msgspec.structs.replace(cluster.queues[name], **{field: more})
    option = "--" + field.replace("_", "-")
    command = f"rota queue-admin set {quote(name)} {option} {more}"
    text = f"raise the cap of {reason.scope} to {more}"
    return Remedy(text, command, Replaced("queues", name, queue), 0.6)


def _of_quota(reason: why.OverQuota, cluster: Cluster) -> Iterator[Remedy]:
    scope, _, kind = reason.scope.partition(" for ")
    if "vdc " in scope:
        return
    table, _, name = scope.partition(" ")
    dimension = Dimension[reason.dimension.upper()]
    field, option = _LIMITS[dimension]
    needed = reason.used + reason.wanted
    # A budget binds as soon as it is used up, so a little more than that is needed.
    value = ceil(needed) + (1 if dimension >= Dimension.DEVICE_HOURS else 0)
    account = f"--{table} {quote(name)}"
    extra = f" --type {kind}" if kind else "" if reason.hard else " --soft"
    command = f"rota quota set {account} {option} {_shown(dimension, value)}{extra}"
    text = f"raise the quota of {reason.scope} to {_shown(dimension, value)}"
    if table == "project":
        change = _of_project(reason, cluster, name, field, value, kind)
        if change is not None:
            yield Remedy(text, command, change, 0.6)
        return
    user = cluster.accounts.users.get(name) or User(name)
    quota = _raised(cluster.accounts.quota_of(name), field, value, kind, reason.hard)
    changed = msgspec.structs.replace(user, quota=quota, own_quota=True)
    yield Remedy(text, command, Replaced("accounts.users", name, changed), 0.6)


def _of_project(
    reason: why.OverQuota, cluster: Cluster, name: str, field: str, value: int, kind: str
) -> Supposed | None:
    """The command sets a hard limit in Rota and, where Rota writes there, at the provider."""
    project, outer = cluster.accounts.projects.get(name), cluster.accounts.outer.get(name)
    changes: list[Supposed] = []
    if project is not None:
        own = getattr(project.quota.hard, field, None)
        if reason.provider and own is not None and own < value:
            return None  # Its own reason brings the same command.
        if not reason.provider:
            quota = _raised(project.quota, field, value, kind, reason.hard)
            changed = msgspec.structs.replace(project, quota=quota)
            changes.append(Replaced("accounts.projects", name, changed))
    if outer is not None and not kind and reason.hard and getattr(outer.limits, field, None):
        limits = msgspec.structs.replace(outer.limits, **{field: value})
        changed_there = msgspec.structs.replace(outer, limits=limits)
        changes.append(Replaced("accounts.outer", name, changed_there))
    if len(changes) == 1:
        return changes[0]
    return Together(tuple(changes)) if changes else None


def _raised(quota: Quota, field: str, value: int, kind: str, hard: bool) -> Quota:
    if kind:
        limits = msgspec.structs.replace(quota.types.get(kind, Limits()), **{field: value})
        return msgspec.structs.replace(quota, types={**quota.types, kind: limits})
    part = "hard" if hard else "soft"
    limits = msgspec.structs.replace(getattr(quota, part), **{field: value})
    return msgspec.structs.replace(quota, **{part: limits})


def _shown(dimension: Dimension, value: int) -> str:
    if dimension is Dimension.MEMORY_MIB:
        return format_mib(value)
    if dimension in (Dimension.CPU_MILLI, Dimension.DEVICE_MILLI):
        return f"{value / 1000:g}"
    return str(value)
