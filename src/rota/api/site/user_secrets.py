"""Routes about secrets: their names are shown, what is in them never is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
from litestar import delete, get, put
from litestar.params import PathParameter

from rota.api import params
from rota.api.bodies import checks
from rota.api.bodies.requests import Body
from rota.api.bodies.site_requests import SecretRequest
from rota.api.context import Asking, actor_of, body_of, context_of
from rota.api.views.paging import Listed, ListPart
from rota.api.views.times import Moment, when
from rota.core.facts.errors import Conflict, Rejected
from rota.core.facts.tenant import Access
from rota.store.api import Batch

if TYPE_CHECKING:
    from rota.core.facts.array import Array
    from rota.core.facts.job import Job

_secret = Body(SecretRequest)
#: Of one user.
SECRETS_MAX = 100

NamePath = Annotated[str, PathParameter(description="The name of the variable")]


class SecretView(msgspec.Struct):
    """Without its value: nobody can show that."""

    name: str
    user: str
    set_at: Moment | None
    #: Whether it is encrypted in the database.
    sealed: bool


class SecretsView(Listed):
    items: list[SecretView]


@get("/secrets", summary="Secrets, without what is in them", opt={"right": "secret"})
async def list_secrets(
    request: Asking, limit: params.PartSize = None, cursor: params.Cursor = ""
) -> SecretsView:
    """One's own; an admin sees the names of all."""
    actor, secrets = actor_of(request), context_of(request).host.secrets
    found = secrets.of("" if actor.access is Access.ADMIN else actor.user)
    sealed = secrets.vault.seals
    page, after = ListPart(limit, cursor).of(found, lambda secret: (secret.user, secret.name))
    views = [SecretView(s.name, s.user, when(s.set_s), sealed) for s in page]
    return SecretsView(views, cursor=after)


@put(
    "/secrets/{name:str}",
    summary="Set a secret",
    opt={"right": "secret", "body": SecretRequest, "errors": (503,)},
)
async def set_secret(request: Asking, name: NamePath) -> SecretView:
    """For the caller's own jobs, from their next start on."""
    asked: SecretRequest = await body_of(request, _secret)
    actor, host = actor_of(request), context_of(request).host
    if not (name.isascii() and name.isidentifier()) or name.startswith(("ROTA_", "SLURM_")):
        allowed = "letters, digits and _, not beginning with a digit, ROTA_ or SLURM_"
        raise Rejected.bad("name", name, allowed)
    size = len(asked.value.encode())
    if not size or size > checks.ARGUMENT_MAX or "\0" in asked.value:
        # Never with the value: this line goes to logs.
        raise Rejected(
            f"value: {size} bytes; expected 1 to {checks.ARGUMENT_MAX} bytes without NUL",
            field="value",
            value=size,
            allowed=f"1 to {checks.ARGUMENT_MAX} bytes without NUL",
        )
    own = host.secrets.of(actor.user)
    if len(own) >= SECRETS_MAX and name not in {secret.name for secret in own}:
        why = f"{actor.user} has {SECRETS_MAX} secrets, and no user may have more; remove one first"
        raise Rejected.because("name", name, why)
    secret = host.secrets.seal(actor.user, name, asked.value, host.clock.now_s())
    done = host.audit.record(actor, "set-secret", f"secret {name}")
    await host.keep(Batch(secrets={secret.key: secret}, audit=[done]))
    host.audit.hand_on([done])
    host.secrets.put(secret)
    return SecretView(name, actor.user, when(secret.set_s), host.secrets.vault.seals)


@delete(
    "/secrets/{name:str}",
    summary="Remove a secret",
    opt={"right": "secret", "errors": (404, 409, 503)},
)
async def remove_secret(request: Asking, name: NamePath) -> None:
    """Refused while unfinished jobs ask for it."""
    actor, host = actor_of(request), context_of(request).host
    secret = host.secrets.get(actor.user, name)
    items: list[Job | Array] = [*host.cluster.jobs.values(), *host.cluster.arrays.values()]
    asking = sorted(i.id for i in items if name in i.spec.secrets and i.spec.user == actor.user)
    if asking:
        raise Conflict(
            f"secret {name} is asked for by {len(asking)} unfinished jobs (such as {asking[0]})",
            field="name",
            value=name,
            allowed="a secret that no unfinished job asks for",
        )
    done = host.audit.record(actor, "remove-secret", f"secret {name}")
    await host.keep(Batch(secrets={secret.key: None}, audit=[done]))
    host.audit.hand_on([done])
    host.secrets.drop(secret)


ROUTES = [list_secrets, set_secret, remove_secret]
