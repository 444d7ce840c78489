"""Finding a job for somebody who wants to see what only its people may: logs, results, requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.api.lookup import find
from rota.api.views import may_look_into
from rota.core.errors import Forbidden
from rota.core.kin import is_kin

if TYPE_CHECKING:
    from rota.controller.loop import Host
    from rota.core.job import Array, Job
    from rota.core.tenant import Actor


async def find_own(host: Host, actor: Actor, job_id: str, what: str) -> Job | Array:
    """The job, if the caller may look into it; ``what`` ends the refusal: "its logs are"."""
    found = await find(host, job_id)
    if not (may_look_into(actor, found.spec.user) and is_kin(actor, found.id, found.spec)):
        raise Forbidden(
            f"job {found.id} belongs to {found.spec.user}; {what} theirs",
            field="id",
            value=found.id,
        )
    return found
