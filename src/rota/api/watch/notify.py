"""How the receivers of messages about jobs are doing."""

from __future__ import annotations

from typing import Literal

import msgspec
from litestar import get

from rota.api.auth import may_look_into
from rota.api.context import Asking, actor_of, context_of
from rota.api.views.times import Moment, when
from rota.core.facts.notices import EVENTS
from rota.notify.receiver import Receiver


class ReceiverView(msgspec.Struct):
    """One receiver since the controller started; what a URL says behind its host is not shown."""

    name: str
    #: ``ok``, ``retrying`` while a message could not be sent yet, ``down`` after one was given up.
    state: Literal["ok", "retrying", "down"]
    waiting: int
    #: More wait in the log than there is room for in memory.
    more: bool
    sent: int
    given_up: int
    problem: str
    problem_at: Moment | None
    sent_at: Moment | None


class NotifyView(msgspec.Struct):
    #: Every event that can be told.
    events: list[str]
    #: Whether this Rota can send mail.
    mail: bool
    #: Names of further notifiers, for ``--notify NAME:ADDRESS``.
    notifiers: list[str]
    #: Events of the log that were not looked at yet.
    unread_events: int
    receivers: list[ReceiverView]


def receiver_view(receiver: Receiver) -> ReceiverView:
    trouble = bool(receiver.problem and receiver.waiting)
    return ReceiverView(
        name=receiver.name,
        state="down" if receiver.down else "retrying" if trouble else "ok",
        waiting=len(receiver.waiting),
        more=receiver.behind,
        sent=receiver.sent,
        given_up=receiver.given_up,
        problem=receiver.problem,
        problem_at=when(receiver.problem_s),
        sent_at=when(receiver.sent_s),
    )


@get("/notify/status", summary="Who is told of jobs, and does it work", opt={"right": "read"})
async def notify_status(request: Asking) -> NotifyView:
    """Counts are since the controller started; the messages themselves survive a restart.

    A user sees the site's receivers and those that their own jobs name.
    """
    context, actor = context_of(request), actor_of(request)
    settings, outbox = context.settings.notify, context.outbox
    unread, receivers = (0, list[Receiver]()) if outbox is None else outbox.status()
    return NotifyView(
        events=list(EVENTS),
        mail=settings.mails_leave,
        notifiers=[rule.name for rule in settings.plugins],
        unread_events=unread,
        receivers=[
            receiver_view(receiver)
            for receiver in receivers
            if not receiver.user or may_look_into(actor, receiver.user)
        ],
    )


ROUTES = [notify_status]
