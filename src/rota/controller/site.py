"""Commands about the site rather than about jobs: queues, groups, projects, nodes, tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.controller import commands as cmd
from rota.core import events as ev
from rota.core.errors import Conflict, Forbidden, NotFound
from rota.core.states import NodeState
from rota.core.tenant import Access, Actor, Group

if TYPE_CHECKING:
    from rota.controller.scribe import Scribe
    from rota.core.job import Array, Job


def perform(scribe: Scribe, command: cmd.Command) -> object:
    """Carry out one command; the answer is what it made or changed."""
    if isinstance(command, cmd.SetGroup):
        return _set_group(scribe, command)
    if isinstance(command, cmd.MakeToken | cmd.RevokeToken):
        return _tokens(scribe, command)
    if isinstance(command, cmd.Trigger):
        scribe.cluster.lanes.reopen()
        return None
    _require(command.actor, Access.ADMIN, Access.OPERATOR)
    if isinstance(command, cmd.SetQueue):
        scribe.emit(ev.QueueSet(queue=command.queue))
        return command.queue
    if isinstance(command, cmd.RemoveQueue):
        return _remove_queue(scribe, command.queue)
    if isinstance(command, cmd.SetProject):
        scribe.emit(ev.ProjectSet(project=command.project))
        return command.project
    if isinstance(command, cmd.DrainNode | cmd.RemoveNode):
        return _node(scribe, command)
    raise AssertionError(f"no rule for {type(command).__name__}")


def _require(actor: Actor, *accesses: Access) -> None:
    if actor.access not in accesses:
        raise Forbidden(
            f"{actor.user} has the role {actor.access}; this needs {' or '.join(accesses)}"
        )


def _set_group(scribe: Scribe, command: cmd.SetGroup) -> object:
    known = scribe.cluster.groups.get(command.group.name)
    if known is None:
        raise NotFound(
            f"there is no group {command.group.name}", field="group", value=command.group.name
        )
    if known.owner != command.actor.user:
        _require(command.actor, Access.ADMIN, Access.OPERATOR)
    group = Group(known.name, known.owner, command.group.max_concurrent)
    scribe.emit(ev.GroupSet(group=group))
    return group


def _remove_queue(scribe: Scribe, name: str) -> object:
    cluster = scribe.cluster
    if name not in cluster.queues:
        raise NotFound(f"there is no queue {name}", field="queue", value=name)
    items: list[Job | Array] = [*cluster.jobs.values()]
    items += [array for array in cluster.arrays.values() if array.waiting]
    waiting = [item for item in items if item.spec.queue == name]
    if waiting or name == "default":
        raise Conflict(f"queue {name} is the default or still has jobs", field="queue", value=name)
    scribe.emit(ev.QueueRemoved(queue=name))
    return name


def _node(scribe: Scribe, command: cmd.DrainNode | cmd.RemoveNode) -> object:
    node = scribe.cluster.nodes.get(command.node)
    if node is None:
        raise NotFound(f"there is no node {command.node}", field="node", value=command.node)
    if isinstance(command, cmd.DrainNode):
        scribe.emit(ev.NodeDrained(node=command.node, drained=command.drained, note=command.note))
        return node
    if node.live or node.state is NodeState.UP:
        raise Conflict(
            f"node {command.node} is connected or has live work", field="node", value=command.node
        )
    scribe.emit(ev.NodeRemoved(node=command.node))
    return node


def _tokens(scribe: Scribe, command: cmd.MakeToken | cmd.RevokeToken) -> object:
    """A user may make and revoke tokens of his own, never with more rights than he has."""
    actor, tokens = command.actor, scribe.cluster.tokens
    if isinstance(command, cmd.MakeToken):
        ranks = list(Access)
        if command.token.user != actor.user or (
            ranks.index(command.token.access) < ranks.index(actor.access)
        ):
            _require(actor, Access.ADMIN)
        scribe.emit(ev.TokenMade(token=command.token))
        return command.token
    token = tokens.get(command.token)
    if token is None or (token.user != actor.user and actor.access is not Access.ADMIN):
        raise NotFound(f"there is no token {command.token}", field="token", value=command.token)
    scribe.emit(ev.TokenRevoked(token=command.token))
    return token
