"""State from the store at start: the rows of everything alive become a Cluster again."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rota.controller.tick.forecast import REMEMBERED, TELLING
from rota.core.changes.apply_jobs import add_array, add_job
from rota.core.changes.apply_site import (
    set_drain_timer,
    set_end_timer,
    set_queue_timer,
    set_reservation_timers,
)
from rota.core.changes.holding import let_in_all
from rota.core.cluster import Cluster
from rota.core.facts.policy import DEFAULT
from rota.store.api import JobFilter
from rota.store.heap import no_collection

if TYPE_CHECKING:
    from rota.core.derived.ids import Ledger
    from rota.core.facts.job import Job
    from rota.core.facts.tenant import Secret
    from rota.store.api import Snapshot, Store


class Recovered(NamedTuple):
    """What a controller goes on from: the Cluster, the number of the next event, and the jobs
    that tell most about run times; beside it the secrets, which no Cluster holds."""

    cluster: Cluster
    next_seq: int
    past: list[Job]
    secrets: list[Secret]


def read_state(store: Store, ended: Ledger | None = None) -> Recovered:
    """What is on disk. From any thread. ``ended`` as for ``recover``."""
    with no_collection():
        snapshot = store.load(ended=ended is None)
        past = store.list_jobs(JobFilter(states=TELLING), limit=REMEMBERED, newest_first=True)
        return Recovered(recover(snapshot, ended), snapshot.next_seq, past, snapshot.secrets)


def recover(snapshot: Snapshot, ended: Ledger | None = None) -> Cluster:
    """The Cluster as of the last commit. Order matters: nodes before the jobs that hold room.

    ``ended``: how everything ended before, where that is known already.
    """
    cluster = Cluster(snapshot.cluster_id)
    if ended is not None:
        cluster.ids.ended = ended
    cluster.ids.next = snapshot.next_id
    for node in snapshot.nodes:
        node.live, node.withheld, node.inside = {}, {}, {}
        cluster.nodes[node.name] = node
    cluster.owners_changed()
    cluster.clusters_changed()
    cluster.queues |= {queue.name: queue for queue in snapshot.queues}
    cluster.groups = {group.name: group for group in snapshot.groups}
    cluster.accounts.projects = {project.name: project for project in snapshot.projects}
    cluster.reservations = {r.id: r for r in snapshot.reservations}
    cluster.pilots = {pilot.name: pilot for pilot in snapshot.pilots}
    cluster.accounts.users = {user.name: user for user in snapshot.users}
    cluster.accounts.outer = {outer.project: outer for outer in snapshot.outers}
    cluster.accounts.usage = {usage.key: usage for usage in snapshot.usage}
    cluster.set_policy(next(iter(snapshot.settings), DEFAULT))
    for token in snapshot.tokens:
        cluster.accounts.put_token(token)
    for user, key, first in snapshot.keys:
        cluster.ids.remember(user, key, first)
    _add_ended(cluster, snapshot)
    _add_work(cluster, snapshot)
    let_in_all(cluster)
    for reservation in cluster.reservations.values():
        set_reservation_timers(cluster, reservation)
    for queue in cluster.queues.values():
        set_queue_timer(cluster, queue)
    for node in cluster.nodes.values():
        set_drain_timer(cluster, node)
        set_end_timer(cluster, node)
    return cluster


def _add_ended(cluster: Cluster, snapshot: Snapshot) -> None:
    """What is known of all that is over."""
    for number, codes in snapshot.pages:
        cluster.ids.ended.put_page(number, codes)
    for job_id, state in snapshot.outcomes:
        cluster.ids.ended.put(job_id, state)
    for span in snapshot.spans:
        cluster.ids.ended.put_span(*span)


def _add_work(cluster: Cluster, snapshot: Snapshot) -> None:
    """All that is unfinished. Arrays come first: links to parents are made with their help."""
    for array in sorted(snapshot.arrays, key=lambda a: a.id):
        for first, last in array.cut:
            assert array.cut_outcome is not None
            cluster.ids.ended.put_span(
                array.element_id(first), array.element_id(last), array.cut_outcome.state
            )
        add_array(cluster, array)
    for job in sorted(snapshot.jobs, key=lambda j: j.id):
        if job.outcome is None:
            for attempt in job.live_attempts:
                if attempt.grace_s < 0:  # a row from before attempts had a grace of their own
                    attempt.grace_s = job.spec.grace_s
            add_job(cluster, job)
    for array in [*cluster.arrays.values()]:
        cluster.let_go(array)
