"""What people call jobs in a line of text: ``15_3`` for an element of an array, not its number."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rota.core.facts.indices import index_at

if TYPE_CHECKING:
    from rota.core.cluster import Cluster

#: Where a line of a reason, or of advice, names jobs by number.
_VERBS = "|".join(rf"(?<=\brota {verb} )" for verb in ("cancel", "release", "resume", "update"))
_NAMED = re.compile(rf"(?:(?<=\bjob )|(?<=\bjobs )|(?<=of it: )|{_VERBS})[0-9]+(?:, [0-9]+)*")
_NUMBER = re.compile(r"[0-9]+")


def known_ref(cluster: Cluster, item: int) -> str:
    """Of a job of an array that is not over: the array and the index."""
    family = cluster.families.family_of(item)
    if family is None or item == family.id:
        return str(item)
    return f"{family.id}_{index_at(family.runs, family.position(item))}"


def with_refs(cluster: Cluster, line: str) -> str:
    """A line about jobs, in which elements have their names."""
    return _NAMED.sub(
        lambda found: _NUMBER.sub(lambda number: known_ref(cluster, int(number[0])), found[0]), line
    )
