"""``--mail-type`` and ``--mail-user`` as somebody whom a job wants to tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.facts.errors import Rejected

if TYPE_CHECKING:
    from rota.api.bodies.submission import Desk

#: Slurm's word -> the events of Rota, in the words of a target.
_EVENTS = {
    "BEGIN": "started",
    "END": "end",
    "FAIL": "problem",
    "REQUEUE": "requeued",
    "TIME_LIMIT": "timeout",
    "ALL": "started,end,requeued",
}


def mail_targets(kinds: str, address: str, desk: Desk) -> list[str]:
    """None where nothing was asked for, or where the site cannot send mail: jobs run regardless."""
    words = [_EVENTS[word] for word in kinds.upper().split(",") if word in _EVENTS]
    if not words or not address:
        return []
    target = f"mail:{address},on={','.join(words)}"
    try:
        desk.target(target)
    except Rejected:
        return []
    return [target]
