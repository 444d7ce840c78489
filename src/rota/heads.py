"""How the heads of one Rota are named: to agents, to clients, and by each other."""

from __future__ import annotations

from typing import Any

#: In the answer of a head that stands by: the address of the one that leads, ``-`` if unknown.
LEADER_HEADER = "Rota-Leader"
#: So often a head says that it is there; one that says nothing for so long is taken to be gone.
BEAT_S, GONE_S = 1.0, 5.0
#: How many seconds behind the answer of a head that stands by may be; and how many it is.
MAX_LAG_HEADER, LAG_HEADER = "Rota-Max-Lag", "Rota-Lag"

#: Heads go by the clock of their database. One whose own is off by more is worth a word.
CLOCK_OFF_S = 1.0


def clock_remark(head: dict[str, Any]) -> str:
    """``, its clock 12 s ahead of the database's``; empty where it is right, or not known."""
    ahead_s = head.get("ahead_s") or 0.0
    if abs(ahead_s) < CLOCK_OFF_S:
        return ""
    way = "ahead of" if ahead_s > 0 else "behind"
    return f", its clock {abs(ahead_s):.0f} s {way} the database's"


def addresses_of(text: str) -> list[str]:
    """``URL,URL``: the addresses of all heads."""
    return [url.strip() for url in text.split(",") if url.strip()]
