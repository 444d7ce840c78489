"""How the garbage collector of a live host is set: out of the way of large passes."""

from __future__ import annotations

import gc

#: New containers before the youngest are looked at. The facts and decisions of a pass hold no
#: cycles, so that reference counts free nearly all of them; with the usual 700 a pass over a
#: hundred thousand jobs was looked at hundreds of times, each time in vain.
YOUNG = 100_000
#: How many such rounds make one of the next generation. What was loaded is frozen, so that the
#: rare full round meets only what came since.
MIDDLE = OLD = 50


def quiet_collector(*, warm: bool = False) -> None:
    """What is loaded by now stays, and is never looked at again; the rest is, more seldom.

    ``warm``: a process that did so before has hardly any garbage, and others wait for it.
    """
    if not warm:
        gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE, OLD)
