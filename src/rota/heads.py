"""How the heads of one Rota are named: to agents, to clients, and by each other."""

from __future__ import annotations

#: In the answer of a head that stands by: the address of the one that leads, ``-`` if unknown.
LEADER_HEADER = "Rota-Leader"
#: So often a head says that it is there; one that says nothing for so long is taken to be gone.
BEAT_S, GONE_S = 1.0, 5.0
#: How many seconds behind the answer of a head that stands by may be; and how many it is.
MAX_LAG_HEADER, LAG_HEADER = "Rota-Max-Lag", "Rota-Lag"


def addresses_of(text: str) -> list[str]:
    """``URL,URL``: the addresses of all heads."""
    return [url.strip() for url in text.split(",") if url.strip()]
