"""Members of a gang on an engine: when all of them are there, and how one job stands for all.

Without I/O. Engines of one sort take a gang as one job, under the key of its first member; others
take each member by itself.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from rota.backends.api import EngineJob
    from rota.backends.journal import EngineEntry
    from rota.backends.orders import AttemptOrder
    from rota.core.facts.node import NodeSpec


def peers(entry: EngineEntry, entries: Mapping[str, EngineEntry]) -> list[EngineEntry]:
    """All members of its gang by rank, or itself alone; nothing: some have not arrived."""
    if entry.gang is None:
        return [entry]
    found = [entries[uid] for uid in entry.gang.uids if uid in entries]
    return found if len(found) == len(entry.gang.uids) else []


def whole(members: list[EngineEntry], spec_of: Callable[[str], NodeSpec]) -> AttemptOrder:
    """The one order for a gang: on the nodes that were chosen, or as few machines as it takes."""
    orders = [member.order for member in members if member.order is not None]
    first = orders[0]
    assert first.gang is not None
    size = len(members)
    if first.pool:
        fits = max(1, _fitting(first, spec_of(members[0].node)))
        nodes = first.gang.nodes or -(-size // fits)
        per_node, on = -(-size // nodes), ""
    else:
        counts = Counter(order.node for order in orders)
        nodes, per_node, on = len(counts), max(counts.values()), ",".join(sorted(counts))
    outputs = tuple((order.launch.stdout, order.launch.stderr) for order in orders)
    gang = replace(
        first.gang,
        per_node=per_node,
        nodes=nodes,
        outputs=outputs if len(set(outputs)) > 1 else (),
    )
    return replace(first, node=on, gang=gang)


def _fitting(order: AttemptOrder, spec: NodeSpec) -> int:
    """How many of it one machine of a pool takes."""
    machine, launch = spec.machine, order.launch
    asked = (
        (machine.cpu_milli, launch.cpu_milli),
        (machine.memory_mib, launch.memory_mib),
        (len(machine.devices), order.gpus),
    )
    return min((has // wants for has, wants in asked if wants), default=1)


def spread(listing: Iterable[EngineJob], entries: Mapping[str, EngineEntry]) -> Iterator[EngineJob]:
    """What the engine shows of a gang, for each of its members."""
    for job in listing:
        entry = entries.get(job.uid)
        if entry is None or entry.gang is None or job.uid != entry.gang.leader:
            yield job
            continue
        for rank, uid in enumerate(entry.gang.uids):
            at = rank // max(1, entry.gang.per_node)
            node = job.nodes[at] if at < len(job.nodes) else job.node
            yield replace(job, uid=uid, node=node)
