"""What the log of a world says, read line by line, without trust in the controller.

Keeps rules, accounts, reservations and who holds what from events alone, and holds every
placement against the reservations. What processes really do is for the judge.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from rota.core.changes import events as ev
from rota.core.facts.policy import DEFAULT, PreemptMode
from rota.core.facts.tenant import NO_QUOTA, UNLIMITED
from rota.worlds.sums import LoggedSums

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rota.core.facts.job import JobSpec
    from rota.core.facts.node import Allocation, NodeSpec
    from rota.core.facts.policy import Policy
    from rota.core.facts.tenant import Limits, Project, Queue, Quota, Reservation, User


class BrokenPromise(AssertionError):
    """A promise was broken; the seed of the world tells the whole story."""


class Ceiling(NamedTuple):
    """A limit on what some jobs hold together, and since which line of the log it is so."""

    name: str
    since: int
    limits: Limits
    binds: Callable[[JobSpec], bool]


class Books:
    """Facts by the log. ``read`` raises ``BrokenPromise`` for a start inside a reservation."""

    def __init__(self) -> None:
        #: The last line that was read.
        self.seq = 0
        self.policy: Policy = DEFAULT
        self.overcommit_cpu = self.overcommit_memory = 1.0
        #: Whether the rules ever said that a victim is cancelled.
        self.cancels = False
        self.nodes: dict[str, NodeSpec] = {}
        self.users: dict[str, User] = {}
        self.projects: dict[str, Project] = {}
        self.queues: dict[str, Queue] = {}
        self.caps: dict[str, int] = {}
        self.reservations: dict[int, Reservation] = {}
        #: Live attempts with what they hold and whose they are.
        self.live: dict[str, tuple[Allocation, JobSpec, int]] = {}
        self.placed_at: dict[str, int] = {}
        self.sums = LoggedSums()
        #: How often each kind of event, cause of an end or way of starting occurred.
        self.counts: Counter[str] = Counter()
        self._since: dict[tuple[str, str], int] = {}

    def read(self, record: ev.Recorded, spec_of: Callable[[str], JobSpec]) -> None:
        """One more line; ``spec_of`` gives the spec of an attempt's job."""
        if record.seq <= self.seq:
            return
        self.seq = record.seq
        event = record.event
        self.sums.read(record)
        self.counts[type(event).__struct_config__.tag] += 1  # type: ignore[index]
        if isinstance(event, ev.AttemptPlaced):
            self._placed(record, event, spec_of(event.uid))
        elif isinstance(event, ev.AttemptEnded):
            self.live.pop(event.uid, None)
            self.counts[f"ended: {event.cause}"] += 1
        elif isinstance(event, ev.PolicySet):
            self._rules(event.policy)
        else:
            self._site(event)

    def _rules(self, policy: Policy) -> None:
        self.policy = policy
        place = policy.place
        self.overcommit_cpu = max(self.overcommit_cpu, place.overcommit_cpu)
        self.overcommit_memory = max(self.overcommit_memory, place.overcommit_memory)
        self.cancels = self.cancels or policy.preempt.mode is PreemptMode.CANCEL

    def _site(self, event: ev.AnyEvent) -> None:
        match event:
            case ev.NodeRegistered():
                self.nodes[event.spec.name] = event.spec
            case ev.UserSet():
                self.users[event.user.name] = event.user
                self._since["user", event.user.name] = self.seq
            case ev.UserRemoved():
                self.users.pop(event.user, None)
                self._since["user", event.user] = self.seq
            case ev.ProjectSet():
                self.projects[event.project.name] = event.project
                self._since["project", event.project.name] = self.seq
            case ev.QueueSet():
                self.queues[event.queue.name] = event.queue
                self._since["queue", event.queue.name] = self.seq
            case ev.GroupSet():
                name, cap = event.group.name, event.group.max_concurrent
                if self.caps.get(name) != cap:
                    self.caps[name] = cap
                    self._since["group", name] = self.seq
            case ev.ReservationSet():
                self.reservations[event.reservation.id] = event.reservation
            case ev.ReservationRemoved():
                self.reservations.pop(event.reservation, None)
            case _:
                pass

    def _placed(self, record: ev.Recorded, event: ev.AttemptPlaced, spec: JobSpec) -> None:
        if event.uid in self.live:
            raise BrokenPromise(f"B: {event.uid} was placed twice")
        self.placed_at[event.uid] = record.seq
        self.sums.placed(event, spec)
        for reservation in self.reservations.values():
            if not _may_use(reservation, spec, event.job):
                self._hold_against(reservation, record.at_s, event, spec)
        self.live[event.uid] = (event.allocation, spec, event.job)
        self.counts["placed after others"] += bool(event.after)
        self.counts["placed in a window"] += bool(event.window_s)
        self.counts["placed on lent CPUs"] += bool(event.borrows)
        self.counts["placed alone"] += event.allocation.exclusive

    def _hold_against(
        self, made: Reservation, at_s: float, event: ev.AttemptPlaced, spec: JobSpec
    ) -> None:
        """A job that is not meant gets nothing reserved, now or before it must be gone."""
        held = event.allocation
        inside = made.start_s <= at_s < made.end_s
        stays = at_s < made.start_s and (
            not spec.time_limit_s or at_s + spec.time_limit_s > made.start_s
        )
        if made.device_count:
            broken = inside and self._takes_from_count(made, held)
        else:
            broken = (inside or stays) and _takes_from(made, held)
        if broken:
            when = "during" if inside else "into"
            raise BrokenPromise(
                f"F: {event.uid} was placed {when} reservation {made.id} of another"
            )

    def _takes_from_count(self, made: Reservation, held: Allocation) -> bool:
        def matters(node: str) -> bool:
            return not made.nodes or node in made.nodes

        if not held.devices or not matters(held.node):
            return False
        others = [a for a, spec, job in self.live.values() if not _may_use(made, spec, job)]
        taken = {(a.node, index) for a in [*others, held] for index in a.devices if matters(a.node)}
        have = sum(len(spec.devices) for name, spec in self.nodes.items() if matters(name))
        return len(taken) > have - made.device_count

    def ceilings(self, spec: JobSpec) -> Iterator[Ceiling]:
        """Every ceiling that binds a job of this spec."""
        user, project = spec.user, spec.project
        known = self.users.get(user) or self.users.get("")
        if known is not None:
            since = max(self._since.get(("user", name), 0) for name in (user, ""))
            yield from _ceilings(
                f"user {user}", since, known.quota, spec, lambda other: other.user == user
            )
        above = project
        while above in self.projects:
            chain = self._chain(project)
            since = max(self._since["project", name] for name in chain)
            yield from _ceilings(
                f"project {above}", since, self.projects[above].quota, spec,
                lambda other, above=above: above in self._chain(other.project),  # type: ignore[misc]
            )  # fmt: skip
            above = self.projects[above].parent

    def _chain(self, project: str) -> list[str]:
        chain = []
        while project in self.projects:
            chain.append(project)
            project = self.projects[project].parent
        return chain

    def job_caps(self, spec: JobSpec) -> Iterator[tuple[str, int, int, Callable[[JobSpec], bool]]]:
        """Caps on how many jobs run at once: name, since when, how many, of whom."""
        name, user = spec.queue, spec.user
        queue = self.queues.get(name)
        if queue is not None:
            since = self._since["queue", name]
            yield f"queue {name}", since, queue.max_running, lambda other: other.queue == name
            yield (
                f"{user} in queue {name}", since, queue.max_per_user,
                lambda other: other.queue == name and other.user == user,
            )  # fmt: skip
        if spec.group:
            group = spec.group
            since = self._since.get(("group", group), 0)
            yield f"group {group}", since, self.caps.get(group, 0), lambda o: o.group == group


def _may_use(made: Reservation, spec: JobSpec, job: int) -> bool:
    """Told without asking the reservation itself."""
    if made.job:
        return made.job == job
    if made.owner and made.owner == spec.user:
        return True
    return made.project != "" and made.project == spec.project


def _takes_from(made: Reservation, held: Allocation) -> bool:
    if made.devices:
        return made.node == held.node and bool(set(made.devices) & set(held.devices))
    return held.node in (made.nodes or (made.node,))


def _ceilings(
    name: str, since: int, quota: Quota, spec: JobSpec, binds: Callable[[JobSpec], bool]
) -> Iterator[Ceiling]:
    if quota == NO_QUOTA:
        return
    yield Ceiling(name, since, quota.hard, binds)
    if not quota.borrow:
        yield Ceiling(name, since, quota.soft, binds)
    limits = quota.types.get(spec.type, UNLIMITED) if spec.type else UNLIMITED
    yield Ceiling(
        f"{name} for {spec.type}", since, limits, lambda o: binds(o) and o.type == spec.type
    )
