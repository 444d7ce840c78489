"""By which time chores drop what is old: see ``rota.believed_time``."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from rota.believed_time import DAY_S, believed_s, has_leapt

if TYPE_CHECKING:
    from rota.controller.loop import Host
    from rota.store.api import Store

log = logging.getLogger("rota.controller")


async def trusted_s(host: Host, what: str) -> float:
    """The time by which to forget ``what`` in this round."""
    now_s, name = host.clock.now_s(), f"trusted time: {what}"
    said = await host.read(lambda store: store.bookmark(name))
    known_s = float(said) if said else None
    if known_s is not None and has_leapt(now_s, known_s):
        days = (now_s - known_s) / DAY_S
        log.warning(
            "%s: %.0f days have gone by since the last look; if the clock is wrong, set it right",
            what,
            days,
        )
    now_s = believed_s(now_s, known_s)
    await host.write(partial(_remember, name, now_s))
    return now_s


def _remember(name: str, now_s: float, store: Store) -> None:
    store.set_bookmark(name, repr(now_s))
