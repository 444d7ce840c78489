"""What the site is told of quotas: of which limit 80 % or all is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.changes import events as ev
from rota.notify.notice import Notice

if TYPE_CHECKING:
    from rota.core.changes.events import Recorded

_WORDS = {"quota_near": "is near its limit", "quota_reached": "has reached its limit"}


def quota_notice(record: Recorded, cluster_id: str) -> Notice | None:
    """What to send about a user or a project; None: the event is about something else."""
    found = record.event
    if not isinstance(found, ev.QuotaReached):
        return None
    event = "quota_reached" if found.level >= 100 else "quota_near"
    account = f"user {found.user}" if found.user else f"project {found.project}"
    return Notice.of(
        record,
        cluster_id,
        event,
        job={},
        detail={"level": found.level, "detail": found.note},
        text=f"{account} {_WORDS[event]}: {found.note}",
        account=account,
    )
