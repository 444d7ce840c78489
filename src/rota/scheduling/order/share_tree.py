"""A node of the tree of shares, and how ratios of several levels become one number."""

from __future__ import annotations

from math import floor, frexp, inf, isinf, ldexp

#: Ratios of upper levels are compared to this many binary digits before the next level counts.
DIGITS = 8
#: Less than this is nothing.
TINY = 2.0**-40


class ShareNode:
    """A project or an account: its target, and its weighted use of each resource."""

    __slots__ = ("bumps", "kept", "load", "parent", "shares", "stamp", "target")

    def __init__(self, parent: ShareNode | None, shares: int, target: float) -> None:
        self.parent = parent
        self.shares = shares
        self.target = target
        self.load = [0.0, 0.0, 0.0]
        #: How often its use changed in this pass.
        self.bumps = 0
        self.stamp = -1
        self.kept = 0.0

    @property
    def used(self) -> float:
        return max(0.0, *self.load)

    def own_ratio(self) -> float:
        used = self.used
        if self.target > 0.0:
            return used / self.target
        return inf if self.shares <= 0 or used else 0.0

    def version(self) -> int:
        total, node = self.bumps, self.parent
        while node is not None:
            total += node.bumps
            node = node.parent
        return total


def nested(upper: float, lower: float) -> float:
    """One number for two levels: grows with both, and the upper one decides beyond a step."""
    within = 1.0 - 1.0 / (1.0 + lower)
    if upper < TINY:
        return TINY * within
    if isinf(upper):
        return upper
    part, exponent = frexp(upper)
    step = ldexp(1.0, exponent - DIGITS)
    return floor(ldexp(part, DIGITS)) * step + step * within
