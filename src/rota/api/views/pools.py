"""What is so of a pool of an engine, in words for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rota.core.facts.node import Node


def pool_words(node: Node) -> str:
    """What is so of a pool, or waits in a machine's engine, for people; empty: nothing is."""
    spec, early = node.spec, node.early
    told = [f"{len(early)} handed in early"] if early else []
    if not spec.pool or spec.largest is None:
        return ", ".join(told)
    count, inside = spec.largest.count, len(node.inside.keys() - set(early))
    parts = [f"{count} machine{'' if count == 1 else 's'} of engine {spec.engine}"]
    parts += [f"{inside} of {max(inside, spec.inside_max)} wait inside"] if inside else []
    parts += told
    closed = len(node.closures)
    parts += [f"closed to {closed} kind{'' if closed == 1 else 's'} of task"] if closed else []
    return ", ".join(parts)
