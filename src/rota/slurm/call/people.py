"""Commands that need users of this machine which are not known yet: put off, then begun anew.

Entries are needed before anything is changed, and by commands that only show.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from rota.api.people import PEOPLE, NotLookedUp

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from rota.api.people import Key
    from rota.core.cluster import Cluster

T = TypeVar("T")


def users_of(cluster: Cluster) -> set[str]:
    """Those with a record, with use, or with unfinished jobs."""
    names = {name for name in cluster.accounts.users if name}
    names |= {usage.user for usage in cluster.accounts.usage.values()}
    names |= {job.spec.user for job in cluster.jobs.values()}
    return names | {array.spec.user for array in cluster.arrays.values()} | {"root"}


async def knowing(work: Callable[[], Awaitable[T]], others: Callable[[], Iterable[Key]]) -> T:
    """Do it once all that it needs is known. ``others`` may be needed as well, if one is."""
    while True:
        try:
            return await work()
        except NotLookedUp as missing:
            await PEOPLE.look_up({missing.key, *others()})
