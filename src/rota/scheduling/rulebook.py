"""From the names in a policy to rules. Built-in rules remember nothing and are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.scheduling.evict.victims import LostWork
from rota.scheduling.order.orderings import ORDERINGS
from rota.scheduling.registry import NO_PLUGINS, resolve

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.facts.policy import Policy
    from rota.core.facts.resources import Amount
    from rota.scheduling.guarded import Guard
    from rota.scheduling.registry import Catalog
    from rota.scheduling.rules import Rules


class Rulebook:
    """The rules of one policy; plug-ins are made anew for each pass."""

    def __init__(
        self,
        load: Callable[[Policy], Catalog] | None,
        clock: Callable[[], float] | None,
        guard: Guard,
    ) -> None:
        self._load = load
        self._clock = clock
        self.guard = guard
        self._policy: Policy | None = None
        self._plugged = NO_PLUGINS
        self._is_plugged = False
        #: Made for a site of this size: what a victim's work is worth depends on it.
        self._made: tuple[Amount, Rules] | None = None

    @property
    def sources(
        self,
    ) -> tuple[Callable[[Policy], Catalog] | None, Callable[[], float] | None, Guard]:
        return self._load, self._clock, self.guard

    def read(self, policy: Policy) -> None:
        """From now on this policy counts."""
        self._policy, self._made = policy, None
        self._plugged = self._load(policy) if self._load is not None else NO_PLUGINS
        named = {policy.order.primary, policy.order.secondary} - ORDERINGS.keys()
        self._is_plugged = bool(named or policy.filters or policy.scorers or policy.victims)

    def rules(self, total: Amount, nodes: int) -> Rules:
        """The rules for one pass, on this number of nodes that have this in total."""
        policy = self._policy
        assert policy is not None
        if self._made is None or self._made[0] is not total or self._is_plugged:
            victims = LostWork(total, nodes)
            rules = resolve(policy, self._plugged, victims=victims, clock=self._clock, strict=False)
            self._made = (total, rules)
        return self._made[1]
