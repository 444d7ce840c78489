"""Nodes and devices on which jobs keep dying: what counts against them, and when it is enough.

A broken disk or a GPU that fell off the bus kills whatever starts there, within seconds, and the
next job is sent there at once. One user's broken program looks the same, so the failures of one
user never suffice: jobs of two users must have died, each several times. Jobs of these users must
not die like that on other nodes, too, and nothing must have run well there in between.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rota.core.facts.node import EarlyEnd
from rota.core.facts.states import Cause

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from rota.core.facts.job import Attempt, Job
    from rota.core.facts.node import Node

#: A job that ends later than this after its start was not killed by the node.
EARLY_S = 10.0
#: The users that must have failed, and the jobs of each.
USERS_MIN, JOBS_EACH = 2, 3
#: The most ends that are remembered of each user, and of all of them together.
OF_ONE_USER, REMEMBERED = 3, 24


def after_end(ends: tuple[EarlyEnd, ...], job: Job, attempt: Attempt) -> tuple[EarlyEnd, ...]:
    """What is remembered of a node after an attempt on it has ended."""
    if not attempt.started_s:
        return ends
    held = attempt.allocation.devices
    failed = attempt.cause is Cause.SIGNAL or (
        attempt.cause is Cause.EXIT and attempt.exit_code != 0
    )
    if failed and attempt.ended_s - attempt.started_s <= EARLY_S:
        return _with(ends, EarlyEnd(job.spec.user, job.id, held))
    if attempt.cause is not Cause.EXIT and not failed:
        return ends  # It was stopped, or ran out of what it had asked for.
    # It ran well: so does the node, and so do the devices that it had.
    return tuple(end for end in ends if end.devices and not set(end.devices) & set(held))


def _with(ends: tuple[EarlyEnd, ...], fresh: EarlyEnd) -> tuple[EarlyEnd, ...]:
    others = [end for end in ends if end.job != fresh.job]
    of_user = [end for end in others if end.user == fresh.user]
    if len(of_user) >= OF_ONE_USER:
        others.remove(of_user[0])
    return (*others, fresh)[-REMEMBERED:]


def verdict(node: Node, nodes: Iterable[Node]) -> tuple[int, ...] | None:
    """None: nothing to say against it. Else the devices that are to blame; empty: all of it.

    The last node in service is never taken out of it: two users with broken programs on one
    machine would else stop all work.
    """
    if not _enough(node.early_ends):
        return None  # Said before all nodes are looked at: the jobs of one user may fail for hours.
    others = [other for other in nodes if other.name != node.name]
    elsewhere = {end.user for other in others for end in other.early_ends}
    ends = [end for end in node.early_ends if end.user not in elsewhere]
    if not _enough(ends):
        return None
    blamed = set(ends[0].devices).intersection(*(end.devices for end in ends))
    usable = {device.index for device in node.spec.devices if device.usable}
    if blamed and blamed < usable:
        return tuple(sorted(blamed))
    return () if any(other.takes_work for other in others) else None


def _enough(ends: Collection[EarlyEnd]) -> bool:
    jobs = Counter(end.user for end in ends)
    return sum(count >= JOBS_EACH for count in jobs.values()) >= USERS_MIN


def users_of(node: Node) -> int:
    return len({end.user for end in node.early_ends})
