"""The route that plays this installation's own past under other rules.

The work is done by a process of its own with a low priority: a tick must never wait for it. One
runs at a time.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import msgspec
from litestar import post

from rota.api.bodies.requests import Body
from rota.api.bodies.site_requests import ReplayRequest
from rota.api.context import Asking, body_of, context_of
from rota.api.site.policy import tried
from rota.api.views.times import Moment, when
from rota.controller.past import Comparison, Figures, Gain, read_arrays, read_jobs, site_of
from rota.core.facts.errors import Busy, Conflict, Unavailable
from rota.core.words.presets import name_of

if TYPE_CHECKING:
    from rota.controller.loop import Host
    from rota.controller.past import SiteNow
    from rota.core.facts.policy import Policy
    from rota.store.api import Store

_alone = asyncio.Lock()
_encode = msgspec.msgpack.Encoder().encode


class ReplayView(msgspec.Struct):
    """The same jobs under the present rules (``before``) and under others (``after``)."""

    name: str
    jobs: int
    since: Moment | None
    until: Moment | None
    recorded_mean_wait_s: float
    before: Figures
    after: Figures
    unit: str
    users: list[Gain]
    projects: list[Gain]
    notes: list[str]
    #: Who gains, who pays and by how much, in a sentence.
    verdict: str = ""


_body = Body(ReplayRequest)


@post(
    "/policy:replay",
    summary="Who would have gained and who lost under other rules",
    opt={"right": "operate", "body": ReplayRequest, "errors": (409, 429, 503)},
    status_code=200,
)
async def replay_policy(request: Asking) -> ReplayView:
    """Plays the jobs of this installation twice, by its present rules and by these.

    Changes nothing, and runs beside the controller.
    """
    asked: ReplayRequest = await body_of(request, _body)
    host = context_of(request).host
    policy = tried(host.cluster.policy, asked)
    return replay_view(policy, await compared(host, policy, asked))


async def compared(host: Host, policy: Policy, asked: ReplayRequest) -> Comparison:
    """The past under the present rules and under these; one replay at a time."""
    if _alone.locked():
        raise Busy("another replay is running; try again when it is done")
    async with _alone:
        await host.on_disk()
        site, since_s = site_of(host.cluster), host.clock.now_s() - asked.last_s
        question = await host.read(lambda s: _question(s, site, policy, since_s, asked.jobs))
        return await _ask(question, asked.patience_s)


def replay_view(policy: Policy, found: Comparison) -> ReplayView:
    return ReplayView(
        name=name_of(policy),
        jobs=found.jobs,
        since=when(round(found.first_s)),
        until=when(round(found.last_s)),
        recorded_mean_wait_s=found.recorded_mean_wait_s,
        before=found.before,
        after=found.after,
        unit=found.unit,
        users=found.users,
        projects=found.projects,
        notes=found.notes,
        verdict=found.verdict,
    )


def _question(store: Store, site: SiteNow, policy: Policy, since_s: float, jobs_max: int) -> bytes:
    """What ``rota.controller.past.Question`` reads.

    Jobs are packed one by one, so that the other threads have their turn in between.
    """
    jobs, cut = read_jobs(store, since_s, jobs_max)
    if not jobs:
        raise Conflict("no job was submitted in this period, so there is nothing to replay")
    past = {
        "site": site,
        "jobs": [msgspec.Raw(_encode(job)) for job in jobs],
        "arrays": read_arrays(store, jobs),
        "since_s": since_s,
        "cut": cut,
    }
    return _encode({"past": past, "policy": policy})


async def _ask(question: bytes, patience_s: int) -> Comparison:
    """The answer of a process that plays it."""
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        # Nothing is imported from the folder in which the server was started: it may be a user's.
        "-P",
        "-m",
        "rota.sim.trial",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        answer, complaint = await asyncio.wait_for(child.communicate(question), patience_s)
    except TimeoutError:
        raise Conflict(
            f"the replay is not done after {patience_s} s: ask for fewer jobs, a shorter period,"
            " or more patience_s"
        ) from None
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    if child.returncode:
        lines = complaint.decode("utf-8", "replace").strip().splitlines()
        raise Unavailable(f"the replay failed: {lines[-1] if lines else child.returncode}")
    return msgspec.msgpack.decode(answer, type=Comparison)


ROUTES = [replay_policy]
