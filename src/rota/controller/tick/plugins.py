"""Plug-ins for the scheduling: finding and loading them, and stopping one that does not end.

A plug-in is named as ``package.module:Name``, or by the name that an installed package gives it
in one of the entry-point groups below (``cool-nodes``, or ``rota.scorers:cool-nodes``). ``Name``
is a class without arguments, an object, or a plain function. Only what a policy names is loaded:
other packages that happen to be installed cost nothing and break nothing.
"""

from __future__ import annotations

import importlib
import signal
import threading
import time
from contextlib import contextmanager
from difflib import get_close_matches
from importlib.metadata import entry_points
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

from rota.core.facts.errors import Rejected
from rota.scheduling.guarded import PluginOverrun
from rota.scheduling.order.orderings import ORDERINGS
from rota.scheduling.registry import Catalog, scorer_weight

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from rota.core.facts.policy import Policy
    from rota.scheduling.guarded import PluginWatch


class Point(NamedTuple):
    """A place where rules can be plugged in: the group of its entry points and what is called."""

    group: str
    method: str


POINTS = MappingProxyType(
    {
        "orderings": Point("rota.orderings", "key"),
        "filters": Point("rota.filters", "problem"),
        "scorers": Point("rota.scorers", "score"),
        "victims": Point("rota.victims", "cost"),
    }
)

#: Names of victim rules that are built in.
BUILT_IN_VICTIMS = frozenset({"lost-work"})

#: The clock of budgets: pass it to ``registry.resolve``.
clock = time.perf_counter

#: A plug-in is looked at at least this long after it began; signals have their price.
PERIOD_S_MIN = 0.005


def load_plugins(policy: Policy) -> Catalog:
    """Everything that a policy names and Rota does not have itself.

    What cannot be found or loaded is the caller's mistake: ``Rejected`` says what and why.
    """
    loaded, refusals = load_known(policy)
    if refusals:
        raise refusals[0]
    return loaded


def load_known(policy: Policy) -> tuple[Catalog, list[Rejected]]:
    """The same for a policy that holds already: what is gone is left out, with the reasons.

    A package that was removed must not keep the controller from starting.
    """
    orders = (policy.order.primary, policy.order.secondary)
    wanted = {
        "orderings": [name for name in orders if name not in ORDERINGS],
        "filters": policy.filters,
        "scorers": [scorer_weight(written)[0] for written in policy.scorers],
        "victims": [name for name in policy.victims if name not in BUILT_IN_VICTIMS],
    }
    found: dict[str, dict[str, Any]] = {point: {} for point in POINTS}
    refusals: list[Rejected] = []
    for point, names in wanted.items():
        for name in dict.fromkeys(names):
            try:
                found[point][name] = _rule(point, name)
            except Rejected as refusal:
                refusals.append(refusal)
    return Catalog(**found), refusals


def installed(point: str) -> dict[str, str]:
    """Plug-ins that packages offer for a point: their names and where they are."""
    return {entry.name: entry.value for entry in entry_points(group=POINTS[point].group)}


def _rule(point: str, name: str) -> object:
    """The rule behind a name, with the method that its point asks for."""
    method = POINTS[point].method
    place = _place(point, name)
    try:
        found = _named(place)
        rule = found() if isinstance(found, type) else found
    except Rejected:
        raise
    except (Exception, SystemExit) as error:
        # Code of others runs here when it is imported: anything at all may come out of it.
        problem = f"{type(error).__name__}: {error}"
        raise Rejected.bad(point, name, f"it cannot be loaded: {problem}") from error
    if not callable(getattr(rule, method, None)):
        if not callable(rule):
            raise Rejected.bad(point, name, f"it has no method {method}, and is no function")
        rule = SimpleNamespace(name=name, **{method: rule})
    return rule


def _place(point: str, name: str) -> str:
    """``package.module:Name``, looked up among the entry points where that is meant."""
    group = POINTS[point].group
    module, colon, rest = name.partition(":")
    if colon and module != group:
        return name
    known = installed(point)
    wanted = rest if colon else name
    if wanted in known:
        return known[wanted]
    near = get_close_matches(wanted, known, 1)
    hint = f"did you mean {near[0]}? " if near else ""
    listed = ", ".join(sorted(known)) or "none"
    raise Rejected.bad(
        point, name, f"{hint}expected package.module:Name or an installed plug-in: {listed}"
    )


def _named(place: str) -> object:
    module, _, path = place.partition(":")
    found: object = importlib.import_module(module.strip())
    for part in path.split(" ")[0].split("."):
        found = getattr(found, part)
    return found


@contextmanager
def time_limit(watch: PluginWatch) -> Iterator[None]:
    """While this is open, a plug-in of ``watch`` that overruns its budget is interrupted.

    A timer looks on and raises ``PluginOverrun`` inside the plug-in, wherever it is; nothing else
    is ever interrupted. Signals reach the main thread only: in another thread, plug-ins are judged
    when they come back. Code that loops in C without running any Python cannot be stopped.
    """
    main = threading.current_thread() is threading.main_thread()
    if not (main and watch.plugged and watch.clock is not None):
        yield
        return

    def look(_number: int, _frame: FrameType | None) -> None:
        if watch.overdue():
            raise PluginOverrun

    period_s = max(watch.budget_s / 2, PERIOD_S_MIN)
    began_s = time.monotonic()
    before = signal.signal(signal.SIGALRM, look)
    # Again and again: the first alarm may find the budget not used up, or be swallowed.
    left_s, interval_s = signal.setitimer(signal.ITIMER_REAL, period_s, period_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before if before is not None else signal.SIG_DFL)
        if left_s:
            # Somebody else's alarm was running: it goes on where it was.
            rest_s = max(left_s - (time.monotonic() - began_s), 0.001)
            signal.setitimer(signal.ITIMER_REAL, rest_s, interval_s)
