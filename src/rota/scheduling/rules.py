"""The rules that one pass goes by."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rota.scheduling.api import UNIT

if TYPE_CHECKING:
    from rota.core.derived.lanes import Shape
    from rota.scheduling.api import DroppedPlugin, Filter, NodeView, Ordering, VictimRule
    from rota.scheduling.guarded import GuardedScorer, PluginWatch


class Traits(NamedTuple):
    """What is known of all keys under two orderings."""

    #: Whether each of the two is known not to look at shares.
    plain: tuple[bool, bool]
    #: Own keys change at known moments only.
    is_steady: bool
    #: The jobs of a lane differ in their age at most, and by its steps.
    is_alike: bool
    #: After which waits own keys change; infinite: never.
    too_long_s: float
    older_s: float


class Rules(NamedTuple):
    """What one pass goes by."""

    primary: Ordering
    secondary: Ordering
    #: Plugged in; the built-in filters always stand before them.
    filters: tuple[Filter, ...]
    #: Plugged in; their points are added to those of the strategy.
    scorers: tuple[GuardedScorer, ...]
    victims: VictimRule
    watch: PluginWatch
    traits: Traits

    @property
    def dropped(self) -> list[DroppedPlugin]:
        return self.watch.dropped

    def plugged_problem(self, shape: Shape, node: NodeView) -> tuple[str, str]:
        """The first plugged-in filter that objects, and its words; both empty when none does."""
        for rule in self.filters:
            if text := rule.problem(shape, node):
                return rule.name, text
        return "", ""

    def plugged_score(self, shape: Shape, node: NodeView) -> int:
        """What the plugged-in scorers add to a node's score, in the points of ``scores``."""
        return sum(
            int(UNIT * rule.weight * rule.score(shape, node)) for rule in self.scorers if rule.alive
        )
