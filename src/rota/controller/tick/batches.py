"""What a tick has changed, as one batch to commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.store.api import Batch

if TYPE_CHECKING:
    from rota.core.changes.events import Recorded
    from rota.core.cluster import Cluster


def batch_of(cluster: Cluster, recorded: list[Recorded]) -> Batch:
    """What happened, and the rows that it changed, as they are now."""
    dirty = cluster.take_dirty()
    return Batch(
        events=recorded,
        jobs=list(dirty.jobs.values()),
        arrays=list(dirty.arrays.values()),
        blobs=dirty.blobs,
        nodes={name: cluster.nodes.get(name) for name in dirty.nodes},
        queues={name: cluster.queues.get(name) for name in dirty.queues},
        groups={name: cluster.groups.get(name) for name in dirty.groups},
        projects={name: cluster.accounts.projects.get(name) for name in dirty.projects},
        reservations={key: cluster.reservations.get(key) for key in dirty.reservations},
        pilots={name: cluster.pilots.get(name) for name in dirty.pilots},
        tokens={key: cluster.accounts.tokens.get(key) for key in dirty.tokens},
        users={name: cluster.accounts.users.get(name) for name in dirty.users},
        usage={key: cluster.accounts.usage.get(key) for key in dirty.usage},
        outers={name: cluster.accounts.outer.get(name) for name in dirty.outers},
        settings=dict.fromkeys(dirty.settings, cluster.policy),
        # A reservation has an id of the same row as jobs, and leaves nothing when it goes.
        next_id=cluster.ids.next if dirty.reservations else 0,
    )
