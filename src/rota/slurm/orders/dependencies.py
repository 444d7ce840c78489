"""``--dependency`` in Rota's words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from rota.core.facts.errors import NotFound
from rota.core.facts.parents import Dependency, DependencyKind
from rota.core.facts.states import FINAL
from rota.digits import is_digits

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.cluster import Cluster
    from rota.core.facts.array import Array
    from rota.core.facts.job import Job

_KINDS = {
    "after": DependencyKind.AFTER,
    "afterany": DependencyKind.AFTER_ANY,
    "afterok": DependencyKind.AFTER_OK,
    "afternotok": DependencyKind.AFTER_NOT_OK,
    "aftercorr": DependencyKind.AFTER_OK,
    "afterburstbuffer": DependencyKind.AFTER_ANY,
}
#: Nothing is waited for any more.
_OVER = (None, *FINAL)
_ID = re.compile(r"([0-9]{1,15})(?:_([0-9]{1,15}|\*))?(?:\+0{1,9})?")


class NamedParents(NamedTuple):
    """Whom to wait for, and whether one of them is enough."""

    dependencies: tuple[Dependency, ...] = ()
    any_of: bool = False


def read_dependencies(
    text: str, cluster: Cluster, find: Callable[[str], int], user: str, name: str
) -> NamedParents:
    """``afterok:1:2,afterany:3``, ``afterok:1?afterok:2``, ``singleton``.

    A time behind a job (``after:1+5``) would be lost, so it is refused unless it is 0.
    A job that nobody knows (any more) counts as met, as it does in Slurm; ``ValueError`` for
    what nobody can read.
    """
    found: dict[Dependency, None] = {}
    for part in re.split(r"[,?]", text.strip()):
        kind, _, ids = part.strip().partition(":")
        if kind == "singleton" and not ids:
            found |= dict.fromkeys(_same_name(cluster, user, name))
        elif kind in _KINDS and ids:
            for word in ids.split(":"):
                if (parent := _parent(word, cluster, find)) is not None:
                    found[Dependency(_KINDS[kind], parent, kind == "aftercorr")] = None
        elif not is_digits(kind):
            raise ValueError(text)
        elif (parent := _parent(kind, cluster, find)) is not None:
            # ``afterok:1,2``: what has no kind has that of the one before.
            found[_like_last(found, parent)] = None
    return NamedParents(tuple(found), "?" in text)


def _like_last(found: dict[Dependency, None], parent: int) -> Dependency:
    last = next(reversed(found), None)
    return Dependency(last.kind if last is not None else DependencyKind.AFTER_OK, parent)


def _parent(word: str, cluster: Cluster, find: Callable[[str], int]) -> int | None:
    match = _ID.fullmatch(word.strip())
    if match is None:
        raise ValueError(word)
    index = match[2]
    ref = match[1] if index in (None, "*") else f"{match[1]}_{index}"
    try:
        parent = find(ref)
    except NotFound:
        return None
    return parent if cluster.state_of(parent) is not None else None


def _same_name(cluster: Cluster, user: str, name: str) -> list[Dependency]:
    """Every unfinished job of the same user with the same name."""
    items: list[Job | Array] = [job for job in cluster.jobs.values() if not job.array_id]
    items += cluster.arrays.values()
    return [
        Dependency(DependencyKind.AFTER_ANY, item.id)
        for item in items
        if item.spec.user == user
        and item.spec.name == name
        and cluster.state_of(item.id) not in _OVER
    ]
