"""Who is asking, and what they may do.

On the local socket the kernel says who it is (peer credentials); over the network a token does.
A caller that shows a token is who the token says, on either way in. Whatever is not listed in
``RIGHTS`` is denied.
"""

from __future__ import annotations

import hmac
import os
import secrets
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rota import node_keys
from rota.api.people import PEOPLE
from rota.controller.agents.job_tokens import PREFIX
from rota.controller.commands.access import missing_role
from rota.core.facts.errors import Forbidden, Rejected
from rota.core.facts.tenant import VIA_TOKEN, Access, Actor
from rota.node_keys import digest_of, id_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rota.controller.loop import Host
    from rota.core.facts.tenant import Token

#: What the server puts in front of the uid where others have the address of the client.
LOCAL = "uid:"
#: Tokens read ``rota_ID_SECRET``: the id finds the record, the digest of the whole proves it.
TOKEN_PREFIX = "rota_"
JOB_PREFIX = PREFIX.encode()
NODE_PREFIX = node_keys.PREFIX.encode()
#: So often a token that somebody came in with is looked at, beside the news about it.
LOOK_S = 60.0

_ADMIN = frozenset({Access.ADMIN})
_OPERATORS = frozenset({Access.ADMIN, Access.OPERATOR})
_USERS = frozenset({Access.ADMIN, Access.OPERATOR, Access.USER})
_EVERYBODY = frozenset(Access) - {Access.AGENT}

#: Who may do what at all; the controller further checks whose job it is.
RIGHTS: Mapping[str, frozenset[Access]] = MappingProxyType(
    {
        "read": _EVERYBODY,
        "submit": _USERS,
        "change": _USERS,
        "trigger": _USERS,
        "operate": _OPERATORS,
        "token": _USERS,
        "secret": _USERS,
        "agent": frozenset({Access.ADMIN, Access.AGENT}),
        "administer": _ADMIN,
    }
)


#: What a job may do for itself at all; which jobs it may change is checked further on.
JOB_RIGHTS = frozenset({"read", "submit", "change"})


class Unauthenticated(Rejected):
    """Nobody we know: no token, or one that is not valid."""

    code = "unauthenticated"


class Identities:
    """Finds the actor behind a connection."""

    def __init__(self, own_uid: int) -> None:
        self._own_uid = own_uid
        self._local: dict[str, Actor] = {}

    def local(self, peer: str) -> Actor:
        """The actor for ``uid:1000``."""
        actor = self._local.get(peer)
        if actor is None:
            uid = int(peer.removeprefix(LOCAL))
            admin = uid in (0, self._own_uid)
            actor = Actor(PEOPLE.name_of(uid), Access.ADMIN if admin else Access.USER, "local")
            if uid in PEOPLE:
                self._local[peer] = actor
        return actor


def identify(
    identities: Identities,
    host: Host,
    client: tuple[str, int] | None,
    authorization: bytes | None,
) -> Actor | None:
    """Who asks; None when nothing was shown over the network."""
    if authorization is not None:
        actor = _by_token(host, authorization)
        if client is None or client[0].startswith(LOCAL):
            return actor  # One who shows a token on the local socket is on this machine.
        return replace(actor, address=client[0])
    if client is not None and client[0].startswith(LOCAL):
        return _in_role(host, identities.local(client[0]))
    return None


def _in_role(host: Host, actor: Actor) -> Actor:
    """A local user has the role on record; root and the user of the controller are admins."""
    role = None if actor.access is Access.ADMIN else host.cluster.accounts.user(actor.user).role
    return actor if role in (None, actor.access) else replace(actor, access=role)


def _by_token(host: Host, authorization: bytes) -> Actor:
    scheme, _, secret = authorization.partition(b" ")
    if scheme.lower() != b"bearer":
        raise Unauthenticated("Authorization: expected 'Bearer TOKEN'", field="Authorization")
    secret = _bare(secret)
    if secret.startswith(JOB_PREFIX):
        actor = host.job_tokens.actor_of(secret.decode("latin-1"), host.cluster)
        if actor is None:
            raise Unauthenticated("the token is not valid: the attempt that it was for has ended")
        return actor
    token = host.cluster.accounts.tokens.get(shown_id(authorization))
    if token is None or not hmac.compare_digest(token.digest, digest_of(secret)):
        if secret.startswith(NODE_PREFIX):
            raise Unauthenticated(
                "the key of this node is not valid: the node was removed, or joined elsewhere; "
                "with a new join token it can join again"
            )
        raise Unauthenticated("the token is not valid; an admin can make one with 'rota token'")
    if token.has_expired(host.clock.now_s()):
        raise Unauthenticated("the token has expired; an admin can make one with 'rota token'")
    return Actor(token.user, _access_of(host, token), VIA_TOKEN + token.id, project=token.project)


def _access_of(host: Host, token: Token) -> Access:
    """What a user made by a role gives no more than the role that the user has now."""
    if not token.by_role:
        return token.access
    role = host.cluster.accounts.user(token.user).role or Access.USER
    return max(token.access, role, key=list(Access).index)


def still_valid(host: Host, actor: Actor) -> bool:
    """Whether what the caller showed is good even now: a stream may last for days."""
    if not actor.via.startswith(VIA_TOKEN):
        return True
    token = host.cluster.accounts.tokens.get(actor.via.removeprefix(VIA_TOKEN))
    return token is not None and not token.has_expired(host.clock.now_s())


async def until_invalid(host: Host, actor: Actor) -> None:
    """Ends when the caller's token is revoked or runs out; for others it never does."""
    name = actor.via.removeprefix(VIA_TOKEN)
    while still_valid(host, actor):
        token = host.cluster.accounts.tokens.get(name)
        left_s = token.expires_s - host.clock.now_s() if token and token.expires_s else LOOK_S
        await host.watch.settled([name], min(max(left_s, 0.0), LOOK_S))


def _bare(secret: bytes) -> bytes:
    """Behind the dot stands our own fingerprint."""
    return secret.strip().partition(b".")[0]


def shown_id(authorization: bytes) -> str:
    """The public name of what was shown, whether it is valid or not."""
    secret = _bare(authorization.partition(b" ")[2])
    if secret.startswith(NODE_PREFIX):
        return id_of(digest_of(secret))
    return token_id(secret.decode("latin-1"))


def token_id(secret: str) -> str:
    """The public part of a token; empty when it does not look like one."""
    prefix, _, rest = secret.partition("_")
    return rest.partition("_")[0] if prefix + "_" == TOKEN_PREFIX else ""


def new_token() -> tuple[str, str, str]:
    """A fresh token: its id, the secret to hand out once, and the digest to keep."""
    name = secrets.token_hex(4)
    secret = f"{TOKEN_PREFIX}{name}_{secrets.token_urlsafe(32)}"
    return name, secret, digest_of(secret)


def require(actor: Actor, right: str) -> None:
    """Raise ``Forbidden`` unless the actor's role has the right."""
    allowed: Iterable[Access] = RIGHTS.get(right, frozenset())
    if actor.access not in allowed:
        raise Forbidden(missing_role(actor, [role for role in Access if role in allowed]))
    if actor.job and right not in JOB_RIGHTS:
        raise Forbidden(f"job {actor.job} may not do this with its own token; its user may")
    if actor.project and right not in JOB_RIGHTS:
        raise Forbidden(
            f"this token is for jobs of project {actor.project}; this needs one without a project"
        )


def sees_all(actor: Actor) -> bool:
    """Whether other people's commands, folders and logs are open to the actor."""
    return actor.access in _OPERATORS


def may_look_into(actor: Actor, owner: str) -> bool:
    """Whether command, folder, labels and logs of the owner's jobs are open to the actor."""
    return actor.user == owner or sees_all(actor)


def own_uid() -> int:
    """The uid that the controller runs as: it is an admin of its own Rota."""
    return os.geteuid()
