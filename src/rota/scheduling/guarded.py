"""Plug-ins under watch: somebody else's code in the middle of a pass.

One that raises, answers nonsense or takes longer than its budget is switched off for the rest of
the pass: the built-in rule takes over, and the watch keeps a ``DroppedPlugin`` for the record.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from math import isfinite
from typing import TYPE_CHECKING, cast

from rota.scheduling.api import DroppedPlugin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.core.derived.lanes import Shape
    from rota.scheduling.api import (
        Entry,
        Filter,
        NodeView,
        Ordering,
        Scorer,
        Victim,
        VictimRule,
        View,
    )

#: Longer answers of a filter are cut: they are phrases for people, not reports.
PHRASE_MAX = 200


class PluginOverrun(BaseException):
    """Raised by a host inside a plug-in that does not come back.

    Not an ``Exception``, so that a plug-in does not swallow it by accident.
    """


class PluginWatch:
    """Looks on while plug-ins are called in one pass, and remembers which of them failed.

    ``clock`` gives seconds; without one there is no budget. A host that can interrupt code asks
    ``overdue`` from time to time and raises ``PluginOverrun`` when the answer is yes.
    """

    def __init__(self, budget_s: float, clock: Callable[[], float] | None) -> None:
        self.budget_s = budget_s
        self.clock = clock if budget_s > 0 else None
        self.dropped: list[DroppedPlugin] = []
        #: Grows with every rule that is switched off: keys and answers from before are stale.
        self.version = 0
        #: How many plug-ins take part; without any there is nothing to watch.
        self.plugged = 0
        self._inside: Guarded | None = None
        self._since_s = 0.0

    def overdue(self) -> bool:
        """Whether a plug-in is at work right now and has used up its budget."""
        inside = self._inside
        if inside is None or self.clock is None:
            return False
        return inside.spent_s + self.clock() - self._since_s > self.budget_s

    def enter(self, guarded: Guarded) -> None:
        if self.clock is not None:
            self._since_s = self.clock()
            self._inside = guarded

    def leave(self, guarded: Guarded) -> None:
        if self.clock is not None:
            self._inside = None
            guarded.spent_s += self.clock() - self._since_s

    def drop(self, guarded: Guarded, problem: str) -> None:
        self._inside = None
        guarded.alive = False
        self.version += 1
        self.dropped.append(DroppedPlugin(guarded.point, guarded.name, problem))


#: What a host puts round a pass so that it can interrupt the plug-ins of a watch.
Guard = Callable[[PluginWatch], AbstractContextManager[None]]


_NO_CONTEXT = nullcontext()


def no_guard(watch: PluginWatch) -> AbstractContextManager[None]:
    """Nobody interrupts: for hosts whose time is not real, and for passes without plug-ins."""
    return _NO_CONTEXT


class Guarded:
    """A plug-in and the watch over it; ``alive`` until it fails."""

    def __init__(self, watch: PluginWatch, point: str, name: str) -> None:
        watch.plugged += 1
        self.watch = watch
        self.point = point
        self.name = name
        self.alive = True
        self.spent_s = 0.0

    def call(self, rule: object, method: str, *values: object) -> object:
        """The plug-in's answer, or ``None`` and it is switched off."""
        watch = self.watch
        try:
            watch.enter(self)
            try:
                answer = getattr(rule, method)(*values)
            finally:
                watch.leave(self)
        except PluginOverrun:
            watch.drop(self, self._too_long())
        except (Exception, SystemExit) as error:
            watch.drop(self, f"{type(error).__name__}: {_brief(error)}")
        else:
            if watch.clock is None or self.spent_s <= watch.budget_s:
                return answer
            watch.drop(self, self._too_long())
        return None

    def number(self, rule: object, method: str, *values: object) -> float | None:
        """A number that can be compared; anything else switches the plug-in off."""
        answer = self.call(rule, method, *values)
        if isinstance(answer, int | float) and not isinstance(answer, bool):
            try:
                number = float(answer)
            except Exception:
                number = float("nan")
            if isfinite(number):
                return number
        if self.alive:
            self.watch.drop(self, f"answered {_shown(answer)} instead of a finite number")
        return None

    def _too_long(self) -> str:
        return f"took longer than {self.watch.budget_s * 1000:g} ms"


class GuardedOrdering(Guarded):
    """An ordering that falls back to a built-in one.

    Keys of the two do not compare: a pass that sees ``PluginWatch.version`` change asks for all
    again.
    """

    def __init__(self, watch: PluginWatch, name: str, rule: Ordering, fallback: Ordering) -> None:
        super().__init__(watch, "ordering", name)
        self._rule = rule
        self._fallback = fallback

    def key(self, entry: Entry, view: View) -> float:
        if self.alive:
            number = self.number(self._rule, "key", entry, view)
            if number is not None:
                return number
        return self._fallback.key(entry, view)


class GuardedFilter(Guarded):
    """A filter that lets everything through once it failed: the built-in ones stand anyway."""

    def __init__(self, watch: PluginWatch, name: str, rule: Filter) -> None:
        super().__init__(watch, "filter", name)
        self._rule = rule

    def problem(self, shape: Shape, node: NodeView) -> str:
        if not self.alive:
            return ""
        answer = self.call(self._rule, "problem", shape, node)
        if type(answer) is str:
            return answer[:PHRASE_MAX]
        if self.alive:
            self.watch.drop(self, f"answered {_shown(answer)} instead of text")
        return ""


class GuardedScorer(Guarded):
    """A scorer that adds nothing once it failed."""

    def __init__(self, watch: PluginWatch, name: str, rule: Scorer, weight: int) -> None:
        super().__init__(watch, "scorer", name)
        self._rule = rule
        self.weight = weight

    def score(self, shape: Shape, node: NodeView) -> float:
        if not self.alive:
            return 0.0
        number = self.number(self._rule, "score", shape, node)
        if number is None:
            return 0.0
        if 0.0 <= number <= 1.0:
            return number
        self.watch.drop(self, f"answered {number:g}, which is not between 0 and 1")
        return 0.0


class GuardedVictims(Guarded):
    """A victim rule that falls back to the built-in one."""

    def __init__(
        self, watch: PluginWatch, name: str, rule: VictimRule, fallback: VictimRule
    ) -> None:
        super().__init__(watch, "victims", name)
        self._rule = rule
        self._fallback = fallback

    def cost(self, victim: Victim) -> float:
        if self.alive:
            number = self.number(self._rule, "cost", victim)
            if number is not None and number >= 0:
                return number
            if self.alive:
                self.watch.drop(self, f"answered {number:g}, and a cost cannot be negative")
        return self._fallback.cost(victim)


class GuardedChoice(GuardedVictims):
    """One that names the victim; where it fails any may be it, as if it had not been there."""

    def should_preempt(self, running: Sequence[Victim], job: Entry) -> int | None:
        answer = self.call(self._rule, "should_preempt", running, job) if self.alive else 0
        named = type(answer) is int and answer in {victim.job for victim in running}
        if self.alive and (answer is None or named):
            return cast("int | None", answer)
        if self.alive:
            text = f"named {_shown(answer)}, which is none of the jobs that may go"
            self.watch.drop(self, text)
        return 0


def _brief(error: BaseException) -> str:
    try:
        return next(iter(str(error).splitlines()), "")[:PHRASE_MAX]
    except Exception:
        return ""


def _shown(answer: object) -> str:
    """Plain values as they are; of anything else the type, for printing it runs foreign code."""
    if answer is not None and type(answer) not in (bool, int, float, str):
        return f"a {type(answer).__name__}"
    shown = repr(answer)
    return shown if len(shown) <= 40 else shown[:37] + "..."
