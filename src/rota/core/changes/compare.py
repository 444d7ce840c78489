"""Whether two Clusters are the same: by their facts, and by the indexes derived from them.

``dump`` gives a plain, sorted picture of a Cluster, ``differences`` lists where two of them part.
Left out is what only remembers work already done: which lanes a pass found blocked, timers that
are moot, and the changes of the current tick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from rota.core.changes.apply import apply
from rota.core.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rota.core.changes.events import Recorded
    from rota.core.derived.lanes import Lane
    from rota.core.facts.array import Array


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
    ended = {i: state for i in range(cluster.ids.next) if (state := cluster.ids.ended.get(i))}
    return {
        "next_id": cluster.ids.next,
        "jobs": _plain(cluster.jobs),
        "arrays": {key: _array(array) for key, array in sorted(cluster.arrays.items())},
        "ended": ended,
        "ended counts": dict(cluster.ids.ended.counts),
        "nodes": _plain(cluster.nodes),
        "queues": _plain(cluster.queues),
        "groups": _plain(cluster.groups),
        "projects": _plain(cluster.accounts.projects),
        "reservations": _plain(cluster.reservations),
        "pilots": _plain(cluster.pilots),
        "tokens": _plain(cluster.accounts.tokens),
        "users": _plain(cluster.accounts.users),
        "usage": _plain(cluster.accounts.usage),
        "outer": _plain(cluster.accounts.outer),
        "policy": _plain(cluster.policy),
        "keys": dict(sorted(cluster.ids.keys.items())),
    }


def _array(array: Array) -> dict[str, Any]:
    """The rows of a sweep matter as long as an element may still be made from one."""
    plain: dict[str, Any] = _plain(array)
    if not array.waiting:
        plain.pop("rows", None)
    return plain


def _indexes(cluster: Cluster) -> dict[str, Any]:
    lanes, live, accounts = cluster.lanes, cluster.live, cluster.accounts
    families, census = cluster.families, cluster.census
    return {
        "array ids": list(families.array_ids),
        "lanes": {
            _key(cluster, lane): sorted(lane.walk())
            for lane in sorted(lanes.lanes.values(), key=lambda lane: _key(cluster, lane))
        },
        "where": {i: _key(cluster, lane) for i, lane in sorted(lanes.where.items())},
        "holdings": dict(sorted(accounts.holdings.of.items(), key=repr)),
        "lent": dict(sorted(accounts.holdings.lent.items(), key=repr)),
        "running": dict(sorted(accounts.running.of.items(), key=repr)),
        "waiting": dict(sorted(accounts.waiting.of.items(), key=repr)),
        "elastic": sorted(census.elastic),
        "demand": dict(sorted(cluster.census.demand.tasks.items(), key=repr)),
        "waited for": {key: sorted(uids) for key, uids in sorted(live.waited_for.items())},
        "live": dict(sorted(live.where.items())),
        "ending": sorted(live.ending),
        "loans": {uid: dict(sorted(lent.items())) for uid, lent in sorted(live.loans.items())},
        "children": {key: sorted(kids) for key, kids in sorted(families.children.items())},
        "active": {key: sorted(ids) for key, ids in sorted(census.active_in.items(), key=repr)},
        "by state": {state: sorted(ids) for state, ids in census.by_state.items()},
        "unfinished elements": {
            key: sorted(ids) for key, ids in sorted(families.unfinished.items()) if ids
        },
        "counts": cluster.count_states(),
    }


def _key(cluster: Cluster, lane: Lane) -> str:
    """Shapes have numbers that depend on which job came first; here they are written out."""
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
