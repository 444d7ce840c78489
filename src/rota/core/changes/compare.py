"""Whether two Clusters are the same: by their facts, and by the indexes derived from them.

``dump`` gives a plain, sorted picture of a Cluster, ``differences`` lists where two of them part.
Left out is what only remembers work already done: which
lanes a pass found blocked, timers that are moot, and the changes of the current tick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from rota.core.changes.apply import apply
from rota.core.cluster import Cluster
from rota.core.facts.job import Array, Job
from rota.core.facts.states import ACTIVE, WAITING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rota.core.changes.events import Recorded
    from rota.core.derived.lanes import Lane


def fold(log: Iterable[Recorded], cluster_id: str = "") -> Cluster:
    """The Cluster that a log leads to from nothing."""
    cluster = Cluster(cluster_id)
    for record in log:
        apply(cluster, record.event, record.at_s)
    return cluster


def dump(cluster: Cluster) -> dict[str, Any]:
    """Everything that matters for the next decision, as plain values."""
    return _facts(cluster) | _indexes(cluster)


def differences(first: Cluster, second: Cluster) -> list[str]:
    """Where two Clusters differ, one line each; empty when they are the same."""
    return list(_differ("", dump(first), dump(second)))


def _differ(path: str, one: object, other: object) -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in {**one, **other}:
            yield from _differ(f"{path}/{key}", one.get(key, "absent"), other.get(key, "absent"))
    elif one != other:
        yield f"{path}: {one!r} is not {other!r}"


def _facts(cluster: Cluster) -> dict[str, Any]:
    ended = {i: state for i in range(cluster.next_id) if (state := cluster.ended.get(i))}
    return {
        "next_id": cluster.next_id,
        "jobs": _plain(cluster.jobs),
        "arrays": {key: _array(array) for key, array in sorted(cluster.arrays.items())},
        "ended": ended,
        "ended counts": dict(cluster.ended.counts),
        "nodes": _plain(cluster.nodes),
        "queues": _plain(cluster.queues),
        "groups": _plain(cluster.groups),
        "projects": _plain(cluster.projects),
        "reservations": _plain(cluster.reservations),
        "tokens": _plain(cluster.tokens),
        "users": _plain(cluster.users),
        "usage": _plain(cluster.usage),
        "policy": _plain(cluster.policy),
        "keys": dict(sorted(cluster.keys.items())),
    }


def _array(array: Array) -> dict[str, Any]:
    """The rows of a sweep matter as long as an element may still be made from one."""
    plain: dict[str, Any] = _plain(array)
    if not array.waiting:
        plain.pop("rows", None)
    return plain


def _indexes(cluster: Cluster) -> dict[str, Any]:
    return {
        "array ids": list(cluster.array_ids),
        "lanes": {
            _key(cluster, lane): sorted(lane.walk())
            for lane in sorted(cluster.lanes.lanes.values(), key=lambda lane: _key(cluster, lane))
        },
        "where": {i: _key(cluster, lane) for i, lane in sorted(cluster.lanes.where.items())},
        "holdings": dict(sorted(cluster.holdings.of.items(), key=repr)),
        "lent": dict(sorted(cluster.holdings.lent.items(), key=repr)),
        "running": dict(sorted(cluster.running.of.items(), key=repr)),
        "waiting": dict(sorted(cluster.waiting.of.items(), key=repr)),
        "elastic": sorted(cluster.elastic),
        "waited for": {key: sorted(uids) for key, uids in sorted(cluster.waited_for.items())},
        "live": dict(sorted(cluster.live.items())),
        "loans": {uid: dict(sorted(lent.items())) for uid, lent in sorted(cluster.loans.items())},
        "children": {key: sorted(kids) for key, kids in sorted(cluster.children.items())},
        "active": {key: sorted(ids) for key, ids in sorted(cluster.active_in.items(), key=repr)},
        "by state": {state: sorted(ids) for state, ids in cluster.by_state.items()},
        "unfinished elements": {
            key: sorted(ids) for key, ids in sorted(cluster.unfinished_elements.items()) if ids
        },
        "counts": cluster.count_states(),
    }


def _key(cluster: Cluster, lane: Lane) -> str:
    """Shapes have numbers that depend on who came first; here they are written out."""
    return repr((cluster.lanes.shapes[lane.key.shape], lane.key[1:]))


def _plain(value: Any) -> Any:  # noqa: ANN401 - any record, field by field
    """Structs as dictionaries with every field: leaving out defaults would blur 0 and absent."""
    if isinstance(value, msgspec.Struct):
        return {name: _plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return {key: _plain(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def missing_timers(cluster: Cluster, now_s: float) -> list[tuple[float, str, int]]:
    """Moments to come at which something is due and no timer will ring, then or before."""
    rings: dict[tuple[str, int], float] = {}
    for timer in cluster.timers:
        known = rings.get((timer.kind, timer.id), timer.at_s)
        rings[timer.kind, timer.id] = min(known, timer.at_s)
    waiting: list[Job | Array] = [*cluster.jobs.values()]
    waiting += [array for array in cluster.arrays.values() if array.waiting]
    due = [moment for item in waiting for moment in _due(item)]
    return [
        (at_s, kind, item)
        for at_s, kind, item in due
        if at_s > now_s and rings.get((kind, item), at_s + 1) > at_s
    ]


def _due(item: Job | Array) -> Iterator[tuple[float, str, int]]:
    spec = item.spec
    waits = isinstance(item, Array) or item.state in WAITING
    if waits and item.not_before_s and not item.eligible_s and not item.held:
        yield item.not_before_s, "begin", item.id
    if waits and spec.dependency_timeout_s and spec.dependencies and not item.parents_met:
        yield item.submitted_s + spec.dependency_timeout_s, "parents", item.id
    if waits and spec.scheduling_timeout_s and item.eligible_s:
        yield item.eligible_s + spec.scheduling_timeout_s, "unschedulable", item.id
    if isinstance(item, Job) and item.state in ACTIVE and item.limit_due_s:
        stopping = any(attempt.stop_cause is not None for attempt in item.live_attempts)
        yield from () if stopping else [(item.limit_due_s, "time-limit", item.id)]
