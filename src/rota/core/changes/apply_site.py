"""How events about nodes, queues, groups, projects, reservations and tokens change a Cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from rota.core.changes import events as ev
from rota.core.changes.apply_engines import ENGINE_RULES
from rota.core.derived.usage import usage_key
from rota.core.facts.node import Node
from rota.core.facts.site.outer import Outer, limits_there
from rota.core.facts.states import NodeState
from rota.core.facts.tenant import Project

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.cluster import Cluster
    from rota.core.facts.tenant import Queue, Reservation, Token


#: The longest that anybody is told of the end of a node before it comes.
END_SEEN_S = 1800.0


def _node_registered(cluster: Cluster, event: ev.NodeRegistered, at_s: float) -> None:
    name = event.spec.name
    node = cluster.nodes.get(name)
    owner = node.spec.user if node is not None else ""
    before = node.cluster if node is not None else ""
    if node is None:
        node = cluster.nodes[name] = Node(
            event.spec, event.incarnation, event.boot_id, live={}, withheld={}, inside={}
        )
    spec = node.marked(event.spec)
    if (spec.total, spec.devices) != (node.spec.total, node.spec.devices):
        node.outgrown = tuple(sorted(node.live))
    node.spec = spec
    if spec.user != owner:
        cluster.owners_changed()
    if not before:
        cluster.cluster_joined(node)
    elif node.cluster != before:
        cluster.clusters_changed()
    node.incarnation, node.boot_id = event.incarnation, event.boot_id
    node.lease_s, node.home, node.lost = event.lease_s, event.home, False
    _welcome_withheld(cluster, node)
    node.state, node.seen_s = NodeState.UP, at_s
    _note(node, "")
    set_end_timer(cluster, node)
    _node_changed(cluster, name)


def set_end_timer(cluster: Cluster, node: Node) -> None:
    """Some time before a node ends it is looked at what is still there."""
    cluster.live.note_end(node)
    if node.spec.ends_s:
        cluster.agenda.push(max(0.0, node.spec.ends_s - END_SEEN_S), "ends", 0)


def _welcome_withheld(cluster: Cluster, node: Node) -> None:
    """No agent has heard of an attempt that waits for others to leave: this boot will do."""
    for uid in node.withheld:
        job_id, task = cluster.live.where[uid]
        job = cluster.jobs[job_id]
        job.tasks[task].attempts[-1].incarnation = f"{node.incarnation}/{node.boot_id}"
        cluster.dirty.jobs[job_id] = job


def _node_silent(cluster: Cluster, event: ev.NodeSilent, at_s: float) -> None:
    node = cluster.nodes[event.node]
    node.state, node.seen_s = NodeState.DOWN, at_s
    _note(node, event.note)
    _node_changed(cluster, event.node)


def _node_lost(cluster: Cluster, event: ev.NodeLost, at_s: float) -> None:
    node = cluster.nodes[event.node]
    node.lost = True
    _note(node, event.note)
    _node_changed(cluster, event.node)


def _nodes_vanished(cluster: Cluster, event: ev.NodesVanished, at_s: float) -> None:
    """Each one's note says that it is not alone: a network may be broken, not the nodes."""
    for name in event.nodes:
        node = cluster.nodes.get(name)
        if node is not None:
            _note(node, event.note)
            _node_changed(cluster, name)


def _note(node: Node, note: str) -> None:
    """Why an operator drained a node stays on record, whatever happens to its connection."""
    if not node.drained:
        node.note = note


def _node_drained(cluster: Cluster, event: ev.NodeDrained, at_s: float) -> None:
    node = cluster.nodes[event.node]
    node.drained, node.note = event.drained, event.note
    node.drained_by = event.by if event.drained else ""
    node.migrates, node.deadline_s = event.migrate, event.deadline_s
    node.cools_s, node.coolings = event.cools_s, node.coolings + bool(event.cools_s)
    set_drain_timer(cluster, node)
    if not event.drained and not event.trial:
        node.failed_starts = node.early_ends = ()
        node.coolings = 0
        node.closed = tuple(uuid for uuid in node.closed if uuid not in node.quarantined)
        node.quarantined, node.faults = (), ()
        node.spec = node.marked(node.spec)
    _node_changed(cluster, event.node)


def set_drain_timer(cluster: Cluster, node: Node) -> None:
    """When whatever is left on a node has to go, when it is tried again, and with what."""
    for closure in node.closures:
        cluster.agenda.push(closure.until_s, "reopen", 0)
    if node.deadline_s:
        cluster.agenda.push(node.deadline_s, "drain", 0)
    if node.cools_s:
        cluster.agenda.push(node.cools_s, "cooled", 0)


def _node_quarantined(cluster: Cluster, event: ev.NodeQuarantined, at_s: float) -> None:
    node = cluster.nodes[event.node]
    node.early_ends = ()
    if event.devices:
        node.quarantined = (*node.quarantined, *event.devices)
        node.closed = tuple(dict.fromkeys([*node.closed, *event.devices]))
        node.spec = node.marked(node.spec)
        _note(node, event.note)
    else:
        node.drained, node.note, node.cools_s = True, event.note, 0.0
        node.drained_by = "rota"
    _node_changed(cluster, event.node)


def _pool_closed(cluster: Cluster, event: ev.PoolClosed, at_s: float) -> None:
    node = cluster.nodes[event.node]
    node.closures = event.closures
    set_drain_timer(cluster, node)
    _node_changed(cluster, event.node)


def _devices_seen(cluster: Cluster, event: ev.DevicesSeen, at_s: float) -> None:
    """A pid that is gone may come back as another process: it counts again."""
    node = cluster.nodes[event.node]
    node.foreign = event.foreign
    there = {use.pid for use in event.foreign}
    node.ignored_pids = tuple(pid for pid in node.ignored_pids if pid in there)
    _node_changed(cluster, event.node)


def _devices_elsewhere(cluster: Cluster, event: ev.DevicesElsewhere, at_s: float) -> None:
    node = cluster.nodes[event.node]
    node.elsewhere = event.devices
    node.spec = node.marked(node.spec)
    _node_changed(cluster, event.node)


def _node_cut_off(cluster: Cluster, event: ev.NodeCutOff, at_s: float) -> None:
    node = cluster.nodes[event.node]
    node.leaving, node.drained, node.note = True, True, event.note
    _drop_key(cluster, event.node)
    _node_changed(cluster, event.node)


def _drop_key(cluster: Cluster, node: str) -> None:
    key = cluster.accounts.keys.get(node)
    if key is not None:
        _drop_token(cluster, key)


def _node_removed(cluster: Cluster, event: ev.NodeRemoved, at_s: float) -> None:
    if cluster.nodes.pop(event.node).spec.user:
        cluster.owners_changed()
    cluster.live.ending.pop(event.node, None)
    if cluster.lanes.clustered:
        cluster.clusters_changed()
    _drop_key(cluster, event.node)
    cluster.agenda.touch(event.node)
    cluster.dirty.nodes[event.node] = None


def _node_changed(cluster: Cluster, name: str) -> None:
    cluster.agenda.touch(name)
    cluster.dirty.nodes[name] = None


def _queue_set(cluster: Cluster, event: ev.QueueSet, at_s: float) -> None:
    cluster.queues[event.queue.name] = event.queue
    set_queue_timer(cluster, event.queue)
    cluster.rules_changed()
    cluster.dirty.queues[event.queue.name] = None


def set_queue_timer(cluster: Cluster, queue: Queue) -> None:
    """The controller looks at its hours when they begin or end."""
    if queue.turns_s:
        cluster.agenda.push(queue.turns_s, "hours", 0)


def _queue_removed(cluster: Cluster, event: ev.QueueRemoved, at_s: float) -> None:
    del cluster.queues[event.queue]
    cluster.rules_changed()
    cluster.dirty.queues[event.queue] = None


def _group_set(cluster: Cluster, event: ev.GroupSet, at_s: float) -> None:
    before = cluster.groups.get(event.group.name)
    cluster.groups[event.group.name] = event.group
    if event.group.max_concurrent != (before.max_concurrent if before is not None else 0):
        cluster.cap_changed(event.group.name)
    cluster.dirty.groups[event.group.name] = None


def _project_set(cluster: Cluster, event: ev.ProjectSet, at_s: float) -> None:
    name = event.project.name
    before = cluster.accounts.projects.get(name, Project(name))
    _ask_provider(cluster, before, event.project)
    cluster.accounts.projects[name] = event.project
    cluster.rules_changed()
    cluster.dirty.projects[name] = None


def _ask_provider(cluster: Cluster, before: Project, after: Project) -> None:
    """Hard limits that change are to be set at the provider, too, where there is one."""
    accounts, asked = cluster.accounts, limits_there(after.quota.hard)
    if accounts.outer and asked != limits_there(before.quota.hard):
        known = accounts.outer.get(after.name) or Outer(after.name, accounts.provider)
        accounts.outer[after.name] = replace(known, asked=asked)
        cluster.dirty.outers[after.name] = None


def _project_removed(cluster: Cluster, event: ev.ProjectRemoved, at_s: float) -> None:
    removed = cluster.accounts.projects.pop(event.project)
    _ask_provider(cluster, removed, Project(removed.name))
    cluster.rules_changed()
    cluster.dirty.projects[event.project] = None


def _user_set(cluster: Cluster, event: ev.UserSet, at_s: float) -> None:
    cluster.accounts.users[event.user.name] = event.user
    cluster.rules_changed()
    cluster.dirty.users[event.user.name] = None


def _user_removed(cluster: Cluster, event: ev.UserRemoved, at_s: float) -> None:
    del cluster.accounts.users[event.user]
    cluster.rules_changed()
    cluster.dirty.users[event.user] = None


def _usage_forgotten(cluster: Cluster, event: ev.UsageForgotten, at_s: float) -> None:
    key = usage_key(event.user, event.project)
    cluster.accounts.usage.pop(key, None)
    cluster.rules_changed()
    cluster.dirty.usage[key] = None


def _policy_set(cluster: Cluster, event: ev.PolicySet, at_s: float) -> None:
    before, after = cluster.policy.place, event.policy.place
    offers_less = (
        after.overcommit_cpu < before.overcommit_cpu
        or after.overcommit_memory < before.overcommit_memory
    )
    cluster.set_policy(event.policy)
    cluster.rules_changed()
    for name, node in cluster.nodes.items():
        cluster.agenda.touch(name)
        if offers_less and node.live:
            node.outgrown = tuple(sorted(node.live))
            cluster.dirty.nodes[name] = None
    cluster.dirty.settings["policy"] = None


def _rule_dropped(cluster: Cluster, event: ev.RuleDropped, at_s: float) -> None:
    """On record for people; a later pass tries the plug-in again."""


def _passes_made(cluster: Cluster, event: ev.PassesMade, at_s: float) -> None:
    """On record for replays: passes that decide nothing change nothing."""


def _node_marked(cluster: Cluster, event: ev.NodeMarked, at_s: float) -> None:
    node = cluster.nodes[event.node]
    before = node.cluster
    node.labels, node.taints = dict(event.labels), event.taints
    if node.cluster != before:
        cluster.clusters_changed()
    node.closed, node.ignored_pids = event.closed, event.ignored_pids
    node.spec = node.marked(node.spec)
    _node_changed(cluster, event.node)


def _reservation_set(cluster: Cluster, event: ev.ReservationSet, at_s: float) -> None:
    cluster.reservations[event.reservation.id] = event.reservation
    cluster.ids.give(event.reservation.id)
    set_reservation_timers(cluster, event.reservation)
    cluster.rules_changed()
    cluster.dirty.reservations[event.reservation.id] = None


def set_reservation_timers(cluster: Cluster, reservation: Reservation) -> None:
    """Passes look again when it begins and when it is over."""
    cluster.agenda.push(reservation.start_s, "reservation", reservation.id)
    cluster.agenda.push(reservation.end_s, "reservation", reservation.id)


def _reservation_removed(cluster: Cluster, event: ev.ReservationRemoved, at_s: float) -> None:
    del cluster.reservations[event.reservation]
    cluster.rules_changed()
    cluster.dirty.reservations[event.reservation] = None


def _token_made(cluster: Cluster, event: ev.TokenMade, at_s: float) -> None:
    _put_token(cluster, event.token)


def _token_revoked(cluster: Cluster, event: ev.TokenRevoked, at_s: float) -> None:
    _drop_token(cluster, event.token)


def _node_key_set(cluster: Cluster, event: ev.NodeKeySet, at_s: float) -> None:
    """A node has one key: the new one takes the place of the one before."""
    _drop_key(cluster, event.token.node)
    _put_token(cluster, event.token)
    spent = cluster.accounts.tokens.get(event.spent)
    if spent is not None and spent.uses is not None:
        _put_token(cluster, replace(spent, uses=spent.uses - 1))


def _put_token(cluster: Cluster, token: Token) -> None:
    cluster.accounts.put_token(token)
    cluster.dirty.tokens[token.id] = None


def _drop_token(cluster: Cluster, name: str) -> None:
    cluster.accounts.drop_token(name)
    cluster.dirty.tokens[name] = None


SITE_RULES: dict[type, Callable[[Cluster, Any, float], None]] = {
    **ENGINE_RULES,
    ev.NodeRegistered: _node_registered,
    ev.NodeSilent: _node_silent,
    ev.NodeLost: _node_lost,
    ev.NodesVanished: _nodes_vanished,
    ev.NodeDrained: _node_drained,
    ev.NodeQuarantined: _node_quarantined,
    ev.PoolClosed: _pool_closed,
    ev.DevicesSeen: _devices_seen,
    ev.DevicesElsewhere: _devices_elsewhere,
    ev.NodeMarked: _node_marked,
    ev.NodeRemoved: _node_removed,
    ev.QueueSet: _queue_set,
    ev.QueueRemoved: _queue_removed,
    ev.GroupSet: _group_set,
    ev.ProjectSet: _project_set,
    ev.ProjectRemoved: _project_removed,
    ev.UserSet: _user_set,
    ev.UserRemoved: _user_removed,
    ev.UsageForgotten: _usage_forgotten,
    # For people: nothing follows from it.
    ev.QuotaReached: lambda cluster, event, at_s: None,
    ev.PolicySet: _policy_set,
    ev.RuleDropped: _rule_dropped,
    ev.PassesMade: _passes_made,
    ev.ReservationSet: _reservation_set,
    ev.ReservationRemoved: _reservation_removed,
    ev.TokenMade: _token_made,
    ev.TokenRevoked: _token_revoked,
    ev.NodeKeySet: _node_key_set,
    ev.NodeCutOff: _node_cut_off,
}
