"""``scontrol token``: a credential for slurmrestd's paths, which is a token of Rota."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.api.auth import new_token, require
from rota.controller.commands.commands import MakeToken
from rota.core.facts.errors import Forbidden
from rota.core.facts.tenant import Access, Token
from rota.digits import is_digits
from rota.slurm.call.command import Answer, CommandFailed

if TYPE_CHECKING:
    from rota.slurm.call.command import Call

#: How long one is good for that nobody wants longer.
LIFESPAN_S = 1800
#: A month: a longer one is to be made with ``rota token``, on purpose.
LIFESPAN_MAX_S = 31 * 86400


async def token(call: Call, words: list[str], _options: list[tuple[str, str]]) -> Answer:
    """``scontrol token [lifespan=SECONDS] [username=USER]``, ready for a shell to read."""
    asked = {"lifespan": str(LIFESPAN_S), "username": call.actor.user}
    for word in words:
        name, mark, value = word.partition("=")
        if not mark or name.lower() not in asked:
            raise CommandFailed(f"Invalid option: `{word}`\n")
        asked[name.lower()] = value
    name, secret, digest = new_token()
    now_s = call.context.host.clock.now_s()
    made = Token(
        id=name,
        digest=digest,
        user=asked["username"],
        access=Access.USER,
        created_s=now_s,
        note="scontrol token",
        expires_s=now_s + _lifespan_s(asked["lifespan"]),
    )
    try:
        require(call.actor, "token")
        await call.context.host.ask(MakeToken(actor=call.actor, token=made))
    except Forbidden:
        raise CommandFailed("scontrol: error: token: Access/permission denied\n") from None
    return Answer(f"SLURM_JWT={secret}\n")


def _lifespan_s(text: str) -> int:
    if not is_digits(text) or not 0 < int(text[:9]) <= LIFESPAN_MAX_S:
        allowed = f"1 to {LIFESPAN_MAX_S} seconds"
        raise CommandFailed(f"scontrol: error: lifespan={text} is not valid: {allowed}\n")
    return int(text)
