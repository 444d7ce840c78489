"""Commands about who is let in: tokens, and the keys of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from rota.controller.commands.access import require
from rota.core.changes import events as ev
from rota.core.facts.errors import Conflict, Forbidden, NotFound, Rejected, named
from rota.core.facts.states import NodeState
from rota.core.facts.tenant import Access
from rota.core.words.units import format_duration
from rota.node_keys import id_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rota.controller.commands import commands as cmd
    from rota.controller.tick.scribe import Scribe
    from rota.core.facts.tenant import Token

#: Tokens that one user may have.
TOKENS_MAX = 1000


def make_token(scribe: Scribe, command: cmd.MakeToken) -> Token:
    """A user may make and revoke tokens of that user, never with more rights than it has."""
    actor, ranks = command.actor, list(Access)
    access = command.token.access
    more = ranks.index(access) < ranks.index(actor.access) or access is Access.AGENT
    if command.token.user != actor.user or more:
        require(actor, Access.ADMIN)
    if command.token.project:
        named(scribe.cluster.accounts.projects, "project", command.token.project)
    _refuse_more(scribe, command)
    token = _no_longer(_made_by(scribe, command), scribe.cluster.accounts.tokens.get(actor.token))
    scribe.emit(ev.TokenMade(token=token))
    return token


def _made_by(scribe: Scribe, command: cmd.MakeToken) -> Token:
    """A token of one's own hangs on what its maker showed: on another token, or on a role."""
    actor, token, accounts = command.actor, command.token, scribe.cluster.accounts
    if token.user != actor.user or token.access is Access.AGENT:
        return token
    maker = accounts.tokens.get(actor.token)
    if maker is not None:
        return replace(token, by=maker.id, by_role=maker.by_role)
    if actor.token:
        raise Forbidden(f"token {actor.token} is not valid any more")
    by_role = actor.access is (accounts.user(actor.user).role or Access.USER)
    return replace(token, by_role=by_role)


def _refuse_more(scribe: Scribe, command: cmd.MakeToken) -> None:
    """All tokens are in memory. When a user has too many, those that have ended make way."""
    actor, known = command.actor, scribe.cluster.accounts.tokens.values()
    own = [one for one in known if one.user == actor.user]
    if actor.access is Access.ADMIN or len(own) < TOKENS_MAX:
        return
    ended = [one.id for one in own if 0 < one.expires_s <= scribe.now_s]
    for token in ended:
        scribe.emit(ev.TokenRevoked(token=token))
    held = len(own) - len(ended)
    if held >= TOKENS_MAX:
        allowed = f"user {actor.user} may have {TOKENS_MAX} tokens and has {held}"
        text = f"token: 1 more is not allowed; {allowed}; revoke one first"
        raise Conflict(text, field="token", value=1, allowed=allowed)


def _no_longer(token: Token, maker: Token | None) -> Token:
    """A token that is made with another one ends no later than that one."""
    if maker is None or not maker.expires_s or 0 < token.expires_s <= maker.expires_s:
        return token
    if not token.expires_s:
        return replace(token, expires_s=maker.expires_s)
    left = format_duration(max(1, int(maker.expires_s - token.created_s)))
    asked_s = round(token.expires_s - token.created_s)
    why = f"{format_duration(asked_s)} is longer than the {left} that the token in use has left"
    raise Rejected.because("expires_s", asked_s, why)


def revoke_token(scribe: Scribe, command: cmd.RevokeToken) -> Token:
    actor, token = command.actor, scribe.cluster.accounts.tokens.get(command.token)
    if token is None or (token.user != actor.user and actor.access is not Access.ADMIN):
        raise NotFound(f"there is no token {command.token}", field="token", value=command.token)
    if token.node:
        raise Conflict(
            f"token {token.id} is the key of node {token.node}; to cut it off: rota node remove "
            f"{token.node}",
            field="token",
            value=token.id,
        )
    for one in _with_offspring(token.id, scribe.cluster.accounts.tokens):
        scribe.emit(ev.TokenRevoked(token=one))
    return token


def _with_offspring(name: str, tokens: Mapping[str, Token]) -> list[str]:
    """A token, those that its user made with it, and so on."""
    made: dict[str, list[str]] = {}
    for one in tokens.values():
        if one.by:
            made.setdefault(one.by, []).append(one.id)
    found = [name]
    for one_id in found:
        found += made.get(one_id, ())
    return found


def approve_node(scribe: Scribe, command: cmd.ApproveNode) -> Token:
    """Let a node in that joined with a token which asks for an operator's word."""
    key = _key(scribe, command.node)
    if key.approve:
        key = replace(key, approve=False)
        scribe.emit(ev.NodeKeySet(token=key))
    return key


def renew_node_key(scribe: Scribe, command: cmd.RenewNodeKey) -> Token:
    """The node has made a new key and put it on disk; the one before ends here."""
    key = _key(scribe, command.node)
    if key.id != command.before or id_of(command.digest) in scribe.cluster.accounts.tokens:
        raise Conflict(f"the key of node {command.node} was changed meanwhile", field="node")
    key = replace(key, id=id_of(command.digest), digest=command.digest, created_s=scribe.now_s)
    scribe.emit(ev.NodeKeySet(token=key))
    return key


def _key(scribe: Scribe, node: str) -> Token:
    key = scribe.cluster.accounts.key_of(node)
    if key is None:
        named(scribe.cluster.nodes, "node", node)
        raise Conflict(
            f"node {node} has no key: it did not join with a token", field="node", value=node
        )
    return key


def remove_node(scribe: Scribe, command: cmd.RemoveNode) -> None:
    """Its key is good for nothing from here on. While its jobs may be alive it stays on record."""
    name, accounts = command.node, scribe.cluster.accounts
    if name not in scribe.cluster.nodes and (key := accounts.key_of(name)):
        scribe.emit(ev.TokenRevoked(token=key.id))
        return
    node = named(scribe.cluster.nodes, "node", name)
    if node.live and not node.lease_s:
        raise Conflict(
            f"node {name} has live work and no lease after which it could be given up: cancel its "
            "jobs first",
            field="node",
            value=name,
        )
    if node.state is NodeState.UP and not node.lease_s and name not in accounts.keys:
        raise Conflict(
            f"node {name} is connected by the controller's own socket; stop its agent first",
            field="node",
            value=name,
        )
    if node.live:
        note = f"removed by {command.actor.user}; it goes when its jobs cannot be alive any more"
        scribe.emit(ev.NodeCutOff(node=name, note=note))
    else:
        scribe.emit(ev.NodeRemoved(node=name))
