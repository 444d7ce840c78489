"""How late it is, for what can never be taken back: on the controller, and on the nodes.

A clock that was set wrong by years for an hour would have all that is kept dropped at once. So who
drops what is old remembers how late it was the last time. A clock that has gone on by weeks since
then, because Rota was away or because it is wrong, is believed a day more at each look: who sets it
right loses a few days of a past that was about to go.
"""

from __future__ import annotations

DAY_S = 86_400.0
#: So far a clock may have gone on unseen.
LEAP_S = 14 * DAY_S


def has_leapt(now_s: float, known_s: float | None) -> bool:
    """Whether a clock has gone on too far since the last look; None: there was none."""
    return known_s is not None and now_s - known_s > LEAP_S


def believed_s(now_s: float, known_s: float | None) -> float:
    """The time to go by at this look, and to remember for the next one."""
    return known_s + DAY_S if known_s is not None and has_leapt(now_s, known_s) else now_s
