"""Who joins, and as which node: a join token lets a node in once, after that its own key does.

On the controller's own socket the kernel vouches for the agent. Over the network an agent shows
either the key of its node, which speaks for that name and no other, or a join token. With the
latter it becomes a node that is not on record yet, and the digest of the key in its hello is put
on record with it; the name of a node that has a key cannot be had with any join token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.controller.agents.identity import check_hello, versions_differ
from rota.core.changes import events as ev
from rota.core.facts.errors import Rejected
from rota.core.facts.tenant import Access, Token
from rota.node_keys import id_of
from rota.rpc.messages import PROTOCOL

if TYPE_CHECKING:
    from rota.controller.agents.liveness import Liveness
    from rota.controller.agents.sessions import Session
    from rota.controller.tick.scribe import Scribe
    from rota.rpc.messages import Hello

#: The most that is kept with its key of the machine and folder that an agent says it runs in.
NOTE_MAX = 200


def admit(
    scribe: Scribe, hello: Hello, shown: str, connected: Session | None, liveness: Liveness
) -> None:
    """Raises ``Rejected`` when this agent must not be the node that it says it is.

    ``shown`` is the id of the token that its connection came with; empty: the local socket.
    """
    if hello.protocol != PROTOCOL:
        raise Rejected(versions_differ(hello.protocol))
    token = _token(scribe, shown) if shown else None
    _check_name(scribe, hello, token)
    if token is not None:
        _check_kind(scribe, hello)
    check_hello(hello, scribe.cluster, connected, liveness)
    if token is not None and not token.node:
        _enrol(scribe, hello, token)


def _token(scribe: Scribe, shown: str) -> Token:
    """What was shown at the door may have been revoked since."""
    token = scribe.cluster.accounts.tokens.get(shown)
    if token is None or token.has_expired(scribe.now_s):
        raise Rejected(f"token {shown} is not valid any more")
    return token


def _check_name(scribe: Scribe, hello: Hello, token: Token | None) -> None:
    name, cluster = hello.node.name, scribe.cluster
    node = cluster.nodes.get(name)
    if node is not None and node.leaving:
        raise Rejected(f"node {name} was removed, and {len(node.live)} of its jobs may be alive")
    if token is None:
        return
    if token.node and token.node != name:
        raise Rejected(
            f"this is the key of node {token.node}, it does not speak for {name}; give {name} a "
            "state folder of its own and a join token"
        )
    if token.node and token.approve:
        raise Rejected(waits_for_approval(token))
    if token.node:
        return
    if name in cluster.accounts.keys:
        raise Rejected(
            f"node {name} has joined and has a key of its own, a join token cannot take its name; "
            f"choose another (--name), or remove it there first: rota node remove {name}"
        )
    if node is not None and node.incarnation != hello.incarnation:
        raise Rejected(
            f"node {name} is on record as another installation ({node.incarnation}); choose "
            f"another name (--name), or remove it there first: rota node remove {name}"
        )


def _check_kind(scribe: Scribe, hello: Hello) -> None:
    """A key gets no more than the node that it was given to: it may have been stolen.

    An engine has no lease, so its jobs would be out of reach; root's agent gets everybody's jobs.
    """
    node, told = scribe.cluster.nodes.get(hello.node.name), hello.node
    if node is None:
        return
    if (hello.engine or told.engine) and not node.spec.engine:
        what = "a machine, not an engine"
    elif node.spec.user and told.user != node.spec.user:
        what = f"one for the jobs of {node.spec.user} alone"
    else:
        return
    raise Rejected(
        f"node {told.name} is on record as {what}; choose another name (--name), or remove it "
        f"there first: rota node remove {told.name}"
    )


def _enrol(scribe: Scribe, hello: Hello, token: Token) -> None:
    """Put the node's key on record, at the expense of the token."""
    name, tokens = hello.node.name, scribe.cluster.accounts.tokens
    if not hello.key:
        raise Rejected(f"agent {hello.version} of node {name} has no key: install a newer rota")
    if token.uses == 0:
        joined = sorted(key.node for key in tokens.values() if key.joined == token.id)
        raise Rejected(
            f"join token {token.id} is used up (by {', '.join(joined) or 'nodes since removed'}); "
            "an admin can make one with 'rota token create --join'"
        )
    if id_of(hello.key) in tokens:
        raise Rejected(f"the key of node {name} is that of another node; remove its file node.key")
    key = Token(
        id=id_of(hello.key),
        digest=hello.key,
        user=token.user,
        access=Access.AGENT,
        created_s=scribe.now_s,
        note=hello.home[:NOTE_MAX],
        approve=token.approve,
        node=name,
        joined=token.id,
    )
    scribe.emit(ev.NodeKeySet(token=key, spent=token.id))
    if key.approve:
        raise Rejected(waits_for_approval(key))


def waits_for_approval(key: Token) -> str:
    return (
        f"node {key.node} waits for an operator's approval (key {key.id}): rota node approve "
        f"{key.node}"
    )
