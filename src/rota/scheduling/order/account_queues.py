"""Lanes in the order of the policy, as a pass consumes them.

Fair share moves with every start: all lanes of an account fall back together. So lanes stand in
one *line* per account, ordered by everything but the share, which is the same for all of them;
and lines are compared by the full keys of their first lanes. A start costs two keys, however
many lanes the account has.
"""

from __future__ import annotations

from collections import defaultdict
from heapq import heapify, heappop, heapreplace
from typing import TYPE_CHECKING

from rota.core.derived.lanes import Lane
from rota.scheduling.api import View
from rota.scheduling.order.key_memo import holds, next_key, note_key
from rota.scheduling.order.orderings import ALIKE, UNSHARED, order_key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.core.derived.lanes import Lanes
    from rota.core.facts.resources import Amount
    from rota.scheduling.api import Entry
    from rota.scheduling.order.heads import Head
    from rota.scheduling.passes import Pass

Key = tuple[float, ...]
INFINITE = float("inf")


class _NoShares:
    """The same for everybody: what is left of a key is its own."""

    def ratio(self, user: str, project: str) -> float:
        return 0.0

    def version(self, user: str, project: str) -> int:
        return 0

    def worst(self, user: str, project: str) -> float:
        return 0.0


NO_SHARES = _NoShares()

#: An own key, the lane's number (two are never equal), and the lane.
Standing = tuple[Key, int, Lane]


class Line:
    """The lanes of one account, by own key."""

    __slots__ = ("lanes", "project", "ready", "user", "version")

    def __init__(self, user: str, project: str, lanes: list[Standing]) -> None:
        self.user = user
        self.project = project
        self.lanes = lanes
        #: Of the shares that the full key of its first lane was made with.
        self.version = -1
        #: Its first head is open and stands where it should.
        self.ready = False


class Lines:
    """All lines, first things first.

    Own keys are remembered between passes, so most lanes need not be opened: only one that comes
    to the front is, and goes back if its remembered key was not right any more.
    """

    def __init__(self, this: Pass, lanes: Iterable[Lane], full: Iterable[Lane]) -> None:
        """``full`` lanes are known to find no room and stand here for a promise only."""
        self._pass = this
        self._shares = this.shares
        self._own = View(this.now_s, this.policy, NO_SHARES, this.view.total)
        self._dropped = this.rules.watch.version
        #: Whether the two rules are known not to look at shares.
        self._plain = (
            this.rules.primary in UNSHARED,
            this.rules.secondary in UNSHARED,
        )
        self._fixed = this.is_fixed
        self._may_borrow = this.scheduler.may_borrow
        self._alike = not self._may_borrow and all(
            rule in ALIKE for rule in (this.rules.primary, this.rules.secondary)
        )
        self._same: dict[float, float] = {}
        self._heads: dict[int, Head] = {}
        self._full = {lane.number for lane in full}
        #: Shapes that find no room in this pass: their lanes are passed over.
        self._dead = this.refusals.dead
        self._covers = this.refusals.covers
        #: Everybody left is a candidate for backfill, and the shortest is asked first.
        self._shortest = False
        #: Nobody else is about: fair share decides nothing. All versions begin at 0.
        self.alone = True
        accounts: defaultdict[tuple[str, str], list[Standing]] = defaultdict(list)
        for lane in (*lanes, *full):
            own = this.noted(lane)
            if own is None:
                head = self._open(lane)
                if head is None:
                    continue
                own = self._own_key(head)
            accounts[lane.account].append((own, lane.number, lane))
        self.alone = len(accounts) <= 1
        self._lines: list[tuple[Key, tuple[str, str], Line]] = []
        self._build([Line(*account, found) for account, found in accounts.items()])

    def _build(self, lines: Iterable[Line]) -> None:
        self._lines = []
        for line in lines:
            heapify(line.lanes)
            key = self._settle(line)
            if key is not None:
                self._lines.append((key, (line.user, line.project), line))
        heapify(self._lines)

    def _open(self, lane: Lane) -> Head | None:
        """The head of a lane; None when it has no job."""
        head = self._heads.get(lane.number)
        if head is None:
            head = self._pass.head(lane)
            head.full = lane.number in self._full
            if not self._pass.open(head):
                return None
            self._heads[lane.number] = head
            if (
                self._fixed
                and not self._shortest
                and holds(lane, self._pass.cluster, self._pass.now_s)
            ):
                head.key, head.version = lane.note, 0
        return head

    def _own_key(self, head: Head) -> Key:
        """Everything but fair share: borrowers last, then queue, rules, bonus and id."""
        this, entry = self._pass, head.entry
        assert entry is not None
        if self._shortest:
            head.key, head.version = (entry.run_s, float(entry.job)), 0
            return head.key
        lane, steps = head.lane, this.scheduler.steps
        key = next_key(lane, entry, steps, this.now_s) if self._alike else None
        if key is None:
            *rest, job = key_of(this, head, self._own)
            # Equal parts of keys become the same object: heaps then compare them at a glance.
            key = (*map(self._same.setdefault, rest, rest), job)
            note_key(lane, key, entry, steps, this.now_s)
        head.key = key
        head.version = self._version(head.lane.account)
        return key

    def _version(self, account: tuple[str, str]) -> int:
        return 0 if self.alone or self._fixed else self._shares.version(*account)

    @property
    def is_last(self) -> bool:
        """Whether the first lane is the only one left."""
        return len(self._lines) == 1 and len(self._lines[0][2].lanes) == 1

    def _settle(self, line: Line) -> Key | None:
        """Bring the right lane to the front of a line; its full key, or None: none is left."""
        lanes, dead = line.lanes, self._dead
        while lanes:
            own, number, lane = lanes[0]
            is_dead = lane.key.shape in dead and self._covers(lane)
            head = None if is_dead else self._open(lane)
            if head is None:
                heappop(lanes)
                continue
            version = self._version(lane.account)
            exact = head.key
            # What an account holds counts only where it may borrow.
            if exact is None or (self._may_borrow and version != head.version):
                exact = self._own_key(head)
            if exact != own:
                heapreplace(lanes, (exact, number, lane))
                continue
            line.ready = True
            line.version = version
            return self._full_key(own, head)
        return None

    def _full_key(self, own: Key, head: Head) -> Key:
        entry, view = head.entry, self._pass.view
        if self.alone or self._fixed:
            return own
        if entry is None or self._pass.policy.share.soft_ratio > 0.0:
            return key_of(self._pass, head, view)
        # Only the rules look at shares: the rest of the own key stands.
        rules = self._pass.rules
        patient, borrows, rank, own_primary, own_secondary, bonus, job = own
        primary = own_primary if self._plain[0] else rules.primary.key(entry, view)
        secondary = own_secondary if self._plain[1] else rules.secondary.key(entry, view)
        return (patient, borrows, rank, primary, secondary, bonus, job)

    def first(self) -> Head | None:
        """The head that comes first now; it stays until ``replace`` or ``drop``."""
        if self._dropped != self._pass.rules.watch.version:
            self._start_over()
        while self._lines:
            line = self._lines[0][2]
            if line.ready and line.version == self._version((line.user, line.project)):
                lane = line.lanes[0][2]
                if lane.key.shape not in self._dead or not self._covers(lane):
                    return self._heads[lane.number]
            self._put(line)
        return None

    def _put(self, line: Line) -> None:
        """The first line is not what it was: find its new place."""
        key = self._settle(line)
        if key is None:
            heappop(self._lines)
        elif key != self._lines[0][0]:
            heapreplace(self._lines, (key, (line.user, line.project), line))

    def _start_over(self) -> None:
        """A plugged-in ordering was switched off: its keys do not compare with the other's."""
        self._dropped = self._pass.rules.watch.version
        forget_keys(self._pass.cluster.lanes)
        lines = [line for _, _, line in self._lines]
        for line in lines:
            heads = [head for _, _, lane in line.lanes if (head := self._open(lane)) is not None]
            line.lanes = [(self._own_key(head), head.lane.number, head.lane) for head in heads]
        self._build(lines)

    def ask_shortest_first(self) -> None:
        """Whoever is left may only pass the first: who is soonest gone is asked first."""
        self._shortest = self.alone = True
        lanes = [lane for _, _, line in self._lines for _, _, lane in line.lanes]
        heads = [head for lane in lanes if (head := self._open(lane)) is not None]
        standing = [(self._own_key(head), head.lane.number, head.lane) for head in heads]
        self._build([Line("", "", standing)])

    def replace(self) -> None:
        """The first head went on to the next job of its lane."""
        line = self._lines[0][2]
        _, number, lane = line.lanes[0]
        heapreplace(line.lanes, (self._own_key(self._heads[number]), number, lane))
        self._put(line)

    def drop(self) -> None:
        """The first head is done with."""
        line = self._lines[0][2]
        heappop(line.lanes)
        self._put(line)


def forget_keys(lanes: Lanes) -> None:
    """The order is another one, or moves with time: keys are worked out as they are needed."""
    for lane in lanes.by_number.values():
        lane.note = None


def key_of(this: Pass, head: Head, view: View) -> Key:
    assert head.entry is not None
    return entry_key(this, head.entry, head.amount, view)


def entry_key(this: Pass, entry: Entry, amount: Amount, view: View) -> Key:
    """What decides between jobs: those that waited too long first, the oldest before the others,
    borrowers last, then queue, rules, the bonus for a limit, and the id."""
    rules = this.rules
    return (
        entry.eligible_s if this.waited_too_long(entry) else INFINITE,
        float(this.quotas.borrowing(entry.key, amount)),
        *order_key(entry, view, rules.primary, rules.secondary, this.rank_of(entry.key.queue)),
    )
