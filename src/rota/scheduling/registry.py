"""From names to rules: what a policy chose, built in or plugged in, ready for one pass.

A plug-in is somebody else's code in the middle of a pass, so it is called under watch. One that
raises, answers nonsense or takes longer than its budget is switched off for the rest of the pass:
the built-in rule takes over and the pass reports a ``DroppedPlugin``. Nothing here loads code;
hosts bring the plug-ins, and a clock if they want the budget kept.
"""

from __future__ import annotations

from difflib import get_close_matches
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from rota.core.facts.errors import Rejected
from rota.core.facts.policy import DEFAULT
from rota.scheduling.api import DroppedPlugin, NamesVictim
from rota.scheduling.guarded import (
    GuardedChoice,
    GuardedFilter,
    GuardedOrdering,
    GuardedScorer,
    GuardedVictims,
    PluginWatch,
)
from rota.scheduling.order.keys import traits_of
from rota.scheduling.order.orderings import ORDERINGS
from rota.scheduling.place.scores import STRATEGIES
from rota.scheduling.rules import Rules

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from rota.core.facts.policy import Policy
    from rota.scheduling.api import (
        Filter,
        Ordering,
        Scorer,
        Victim,
        VictimRule,
    )

#: Where the policy names a rule -> what such a rule is called in reports.
POINTS = MappingProxyType(
    {
        "order.primary": "ordering",
        "order.secondary": "ordering",
        "filters": "filter",
        "scorers": "scorer",
        "victims": "victims",
    }
)

#: What a plugged-in scorer weighs beside the built-in terms unless the policy says otherwise.
SCORER_WEIGHT = 20


class Catalog(NamedTuple):
    """Plug-ins by point and name, as a host loaded them."""

    orderings: Mapping[str, Ordering] = {}
    filters: Mapping[str, Filter] = {}
    scorers: Mapping[str, Scorer] = {}
    victims: Mapping[str, VictimRule] = {}


NO_PLUGINS = Catalog()


class SummedVictims:
    """Several victim rules as one: their costs are added."""

    def __init__(self, rules: Sequence[VictimRule]) -> None:
        self._rules = tuple(rules)
        self.name = " + ".join(rule.name for rule in rules)

    def cost(self, victim: Victim) -> float:
        return sum(rule.cost(victim) for rule in self._rules)


class ToldVictims(SummedVictims):
    """The same where one of them names the victim."""

    def __init__(self, rules: Sequence[VictimRule], teller: NamesVictim) -> None:
        super().__init__(rules)
        self.should_preempt = teller.should_preempt


def resolve(
    policy: Policy,
    plugged: Catalog = NO_PLUGINS,
    *,
    victims: VictimRule,
    clock: Callable[[], float] | None = None,
    strict: bool = True,
) -> Rules:
    """The rules that a policy names, for one pass.

    ``victims`` is the built-in rule of this pass. A name that nobody knows is refused with the
    nearest one; with ``strict=False`` the built-in rule stands in and the name is reported as
    dropped, so that a plug-in that was removed does not stop the scheduling.
    """
    refuse_unknown("place.strategy", policy.place.strategy, STRATEGIES)
    watch = PluginWatch(policy.plugin_budget_ms / 1000, clock)
    desk = _Desk(plugged, watch, strict)
    order, usual = policy.order, DEFAULT.order
    primary = desk.ordering("order.primary", order.primary, usual.primary)
    secondary = desk.ordering("order.secondary", order.secondary, usual.secondary)
    return Rules(
        primary,
        secondary,
        tuple(rule for name in policy.filters if (rule := desk.filter(name)) is not None),
        tuple(found for name in policy.scorers if (found := desk.scorer(name)) is not None),
        desk.victims(policy.victims, victims),
        watch,
        traits_of(primary, secondary, policy),
    )


class _Desk:
    """Looks names up. Built-in rules come first and unwatched: no plug-in can take their names."""

    def __init__(self, plugged: Catalog, watch: PluginWatch, strict: bool) -> None:
        self._plugged = plugged
        self._watch = watch
        self._strict = strict

    def ordering(self, field: str, name: str, usual: str) -> Ordering:
        shipped = ORDERINGS.get(name)
        if shipped is not None:
            return shipped
        rule = self._plugged.orderings.get(name)
        if rule is None:
            self._refuse(field, name, {**ORDERINGS, **self._plugged.orderings})
            return ORDERINGS[usual]
        return GuardedOrdering(self._watch, name, rule, ORDERINGS[usual])

    def filter(self, name: str) -> Filter | None:
        rule = self._plugged.filters.get(name)
        if rule is None:
            self._refuse("filters", name, self._plugged.filters)
            return None
        return GuardedFilter(self._watch, name, rule)

    def scorer(self, written: str) -> GuardedScorer | None:
        name, weight = scorer_weight(written)
        rule = self._plugged.scorers.get(name)
        if rule is None:
            self._refuse("scorers", name, self._plugged.scorers)
            return None
        return GuardedScorer(self._watch, name, rule, weight)

    def victims(self, names: Sequence[str], usual: VictimRule) -> VictimRule:
        found: list[VictimRule] = []
        for name in names:
            rule = self._plugged.victims.get(name)
            if name == usual.name:
                found.append(usual)
            elif rule is None:
                self._refuse("victims", name, {usual.name: usual, **self._plugged.victims})
            else:
                guard = GuardedChoice if isinstance(rule, NamesVictim) else GuardedVictims
                found.append(guard(self._watch, name, rule, usual))
        if not found:
            return usual
        if len(found) == 1:
            return found[0]
        teller = next((rule for rule in found if isinstance(rule, NamesVictim)), None)
        return SummedVictims(found) if teller is None else ToldVictims(found, teller)

    def _refuse(self, field: str, name: str, known: Mapping[str, object]) -> None:
        if self._strict:
            refuse_unknown(field, name, known)
        self._watch.dropped.append(DroppedPlugin(POINTS[field], name, "is not installed"))


def refuse_unknown(field: str, name: str, known: Collection[str]) -> None:
    """A name that is not known is refused with the nearest one that is."""
    if name not in known:
        near = get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]}? " if near else ""
        listed = ", ".join(sorted(known)) or "none"
        raise Rejected.bad(field, name, f"{hint}known: {listed}")


def scorer_weight(written: str) -> tuple[str, int]:
    """``cool-nodes=40`` as name and weight; without a number it is ``SCORER_WEIGHT``."""
    name, sign, number = written.partition("=")
    if not sign:
        return name, SCORER_WEIGHT
    if not (number.isascii() and number.isdigit() and len(number) <= 4):
        raise Rejected.bad(
            "scorers", written, "expected NAME or NAME=WEIGHT, such as cool-nodes=40"
        )
    return name, int(number)
