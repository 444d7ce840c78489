"""What happens, as it happens: server-sent events, with the log behind them for readers that missed
something."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Annotated, NamedTuple, get_args

import msgspec
from litestar import get
from litestar.params import QueryParameter
from litestar.response import Stream

from rota.api.auth import may_look_into, sees_all, still_valid
from rota.api.context import Asking, Context, actor_of, context_of
from rota.api.views.lookup import ID_MAX, in_memory, parse_id
from rota.api.watch.event_views import NEVER, EventView, view_of_event
from rota.core.changes import events as ev
from rota.core.facts.errors import Rejected
from rota.core.facts.tenant import Access, Actor
from rota.digits import is_digits
from rota.store.api import job_ids_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from rota.controller.watch import Subscription
    from rota.core.changes.events import Recorded
    from rota.store.api import Store

#: A comment is sent after this long without news, so that nobody takes the line for dead.
SILENCE_S = 15.0
CATCH_UP_ROWS = 500
#: So far back goes a user who names no job.
HISTORY_MAX = 20_000
#: The most jobs whose owners are remembered.
OWNERS_MAX = 10_000

_ADMIN_ONLY = (ev.TokenMade, ev.TokenRevoked, ev.NodeKeySet)
#: About accounts of others.
_OPERATORS_ONLY = (ev.UserSet, ev.UserRemoved, ev.UsageForgotten)
#: What a listener may ask for by name.
_KINDS: dict[str, type] = {
    str(kind.__struct_config__.tag): kind for kind in get_args(ev.AnyEvent) if kind not in NEVER
}


def event_view(record: Recorded, actor: Actor, *, open_: bool) -> EventView | None:
    """An event as the actor may see it; None when it is none of their business.

    ``open_``: the job may be looked into. Words of its user's own are for those only.
    """
    event = record.event
    if isinstance(event, NEVER):
        return None
    if isinstance(event, _ADMIN_ONLY) and actor.access is not Access.ADMIN:
        return None
    ids = job_ids_of(event)
    return view_of_event(record, ids[0] if ids else None, open_=open_)


@get(
    "/events",
    summary="What happens, as it happens (server-sent events)",
    opt={"right": "read", "produces": "text/event-stream"},
)
async def stream_events(
    request: Asking,
    after: Annotated[
        int | None,
        QueryParameter(
            description="Begin behind this `seq`; absent: with what comes. A user who names no job "
            "may go back by 20,000 events",
            ge=0,
            lt=ID_MAX,
        ),
    ] = None,
    job: Annotated[int, QueryParameter(description="Only of this job", ge=0, lt=ID_MAX)] = 0,
    kinds: Annotated[
        str, QueryParameter(description="Only of these kinds, separated by commas: `job-settled`")
    ] = "",
) -> Stream:
    """Each has its `seq` as id, its kind as name, an `EventView` as data. `Last-Event-ID` resumes.

    Users hear of their own jobs, of any job that they name, and of the site; operators of all.
    """
    last = request.headers.get("last-event-id", "")
    if after is None and is_digits(last):
        after = parse_id(last)
        if after is None:
            raise Rejected.bad("Last-Event-ID", last, f"a number below {ID_MAX}")
    wanted = EventWish(job, parse_kinds(kinds))
    context, actor = context_of(request), actor_of(request)
    refuse_too_old(context, actor, after, wanted)
    body = _frames(context, actor, after, wanted)
    return Stream(body, media_type="text/event-stream", headers={"cache-control": "no-store"})


class EventWish(NamedTuple):
    """Which events somebody wants to hear of; 0 and an empty set: all of them."""

    job: int
    kinds: frozenset[type]

    def takes(self, event: ev.AnyEvent) -> bool:
        if self.kinds and type(event) not in self.kinds:
            return False
        return not self.job or self.job in job_ids_of(event)


def parse_kinds(text: str) -> frozenset[type]:
    """Empty: no filter."""
    found: set[type] = set()
    for word in filter(None, (part.strip() for part in text.split(","))):
        if word not in _KINDS:
            raise Rejected.bad("kinds", word, "known kinds: " + ", ".join(sorted(_KINDS)))
        found.add(_KINDS[word])
    return frozenset(found)


def refuse_too_old(context: Context, actor: Actor, after: int | None, wanted: EventWish) -> None:
    """The whole log is read for operators only: for anybody else what it costs is bounded."""
    oldest = context.host.newest_seq - HISTORY_MAX
    if after is not None and after < oldest and not wanted.job and not sees_all(actor):
        why = f"{after} is too long ago; give {oldest} or more, or name a job"
        raise Rejected.because("after", after, why)


async def may_hear(context: Context, actor: Actor, record: Recorded, wanted: EventWish) -> bool:
    """Whether an event is the actor's business: about the site, a job of theirs, or one named."""
    event = record.event
    if sees_all(actor) or wanted.job:
        return True
    if isinstance(event, _OPERATORS_ONLY):
        return False
    if isinstance(event, ev.GroupSet):
        return event.group.owner == actor.user
    return all([await owner_of(context, job) == actor.user for job in job_ids_of(event)])


async def is_open(context: Context, actor: Actor, wanted: EventWish) -> bool:
    """Whether the actor may look into the jobs that these events are about: others by name only."""
    return not wanted.job or may_look_into(actor, await owner_of(context, wanted.job))


async def owner_of(context: Context, job: int) -> str:
    """Whose job or array it is; remembered, because it never changes."""
    known = context.owners.get(job)
    if known is None:
        found = in_memory(context.host.cluster, job)
        if found is None:
            found = await context.host.read(lambda store: store.job(job) or store.array(job))
        known = context.owners[job] = found.spec.user if found is not None else ""
        if len(context.owners) > OWNERS_MAX:
            del context.owners[next(iter(context.owners))]
    return known


async def _frames(
    context: Context, actor: Actor, after: int | None, wanted: EventWish
) -> AsyncIterator[bytes]:
    open_ = await is_open(context, actor, wanted)
    async with aclosing(heard(context, actor, after, wanted)) as records:
        async for record in records:
            yield b": rota\n\n" if record is None else _frame(record, actor, open_=open_)


async def heard(
    context: Context, actor: Actor, after: int | None, wanted: EventWish
) -> AsyncGenerator[Recorded | None]:
    """What the caller wants of what happened and happens, for as long as their token is good."""
    async with aclosing(_all_heard(context, after, wanted)) as records:
        async for record in records:
            if not still_valid(context.host, actor):
                return
            if record is None or await may_hear(context, actor, record, wanted):
                yield record


async def _all_heard(
    context: Context, after: int | None, wanted: EventWish
) -> AsyncGenerator[Recorded | None]:
    """What is wanted of what happened and happens; None first of all, and after a silence."""
    seq = -1 if after is None else after
    catch_up = after is not None
    while not context.closing.is_set():
        subscription = context.host.watch.subscribe()
        try:
            # A reader of this misses nothing that is committed from now on.
            yield None
            if catch_up:
                async for record in _logged(context, seq, wanted.job):
                    seq = record.seq
                    if wanted.takes(record.event):
                        yield record
            async for found in _news(context, subscription):
                if found is None:
                    yield None
                elif found.seq > seq:
                    seq = found.seq
                    if wanted.takes(found.event):
                        yield found
        finally:
            context.host.watch.unsubscribe(subscription)
        catch_up = True


def _read_log(after: int, job: int, store: Store) -> list[Recorded]:
    return store.events(after=after, job=job, limit=CATCH_UP_ROWS)


async def _logged(context: Context, seq: int, job: int) -> AsyncIterator[Recorded]:
    while True:
        page: list[Recorded] = await context.host.read(partial(_read_log, seq, job))
        for record in page:
            seq = record.seq
            yield record
        if len(page) < CATCH_UP_ROWS or context.closing.is_set():
            return


async def _news(context: Context, subscription: Subscription) -> AsyncIterator[Recorded | None]:
    """Records as they are committed; None after a silence. Ends on closing or when we lagged."""
    closing = asyncio.ensure_future(context.closing.wait())
    coming = asyncio.ensure_future(subscription.queue.get())
    try:
        while True:
            await asyncio.wait(
                {closing, coming}, timeout=SILENCE_S, return_when=asyncio.FIRST_COMPLETED
            )
            if coming.done():
                yield coming.result()
                while not subscription.queue.empty():
                    yield subscription.queue.get_nowait()
                coming = asyncio.ensure_future(subscription.queue.get())
            elif closing.done():
                return
            elif not subscription.lost:
                yield None
            if subscription.lost and subscription.queue.empty():
                return
    finally:
        closing.cancel()
        coming.cancel()


def _frame(record: Recorded, actor: Actor, *, open_: bool) -> bytes:
    view = event_view(record, actor, open_=open_)
    if view is None:
        return b""
    body = msgspec.json.encode(view)
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (record.seq, view.kind.encode(), body)


ROUTES = [stream_events]
