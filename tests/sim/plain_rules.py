"""The rules of docs/sim.md read word by word, for logs of a few jobs. Slow, and hard to get wrong.

Nothing of the core is used here: who starts when is worked out from lists of who holds what from
when to when, anew for every question.
"""

from typing import NamedTuple

from rota.sim.trace import TraceJob


class Held(NamedTuple):
    from_s: float
    to_s: float
    numbers: frozenset[int]


class Player:
    def __init__(self, job: TraceJob, kill: bool) -> None:
        said_s = job.estimate_s or job.run_s
        self.job, self.size, self.taken_s = job, job.procs, said_s
        self.lasts_s = min(job.run_s, said_s) if kill else job.run_s
        self.start_s = self.end_s = self.believed_s = -1.0
        self.numbers: frozenset[int] = frozenset()


class PlainRules:
    """EASY and conservative backfill on numbered processors."""

    def __init__(self, total: int, policy: str, *, single: bool, kill: bool, spare: bool) -> None:
        self.total, self.policy = total, policy
        self.single, self.kill, self.spare = single, kill, spare
        self.waiting: list[Player] = []
        self.running: list[Player] = []
        self.slots: dict[Player, Held] = {}

    def play(self, jobs: list[TraceJob]) -> list[tuple[float, frozenset[int]]]:
        players = [Player(job, self.kill) for job in jobs]
        coming = [*players]
        while coming or self.running:
            moments = [each.job.submit_s for each in coming[:1]]
            moments += [min(each.end_s, each.believed_s) for each in self.running]
            moments += [slot.from_s for slot in self.slots.values()]
            self._happen(min(moments), coming)
        return [(player.start_s, player.numbers) for player in players]

    def _happen(self, now_s: float, coming: list[Player]) -> None:
        ends = [each for each in self.running if each.end_s <= now_s]
        if self.single:
            came = coming[:1] if coming and coming[0].job.submit_s <= now_s else []
            ends = [] if came else ends[:1]
        else:
            came = [each for each in coming if each.job.submit_s <= now_s]
        for each in ends:
            self.running.remove(each)
        outstayed = [e for e in self.running if e.believed_s <= now_s < e.end_s]
        for each in outstayed:
            each.believed_s = each.start_s + 2 * (now_s - each.start_s)
        del coming[: len(came)]
        self.waiting += came
        if self.policy == "easy":
            self._easy(now_s)
        else:
            self._conservative(now_s, bool(ends), bool(outstayed))

    def _conservative(self, now_s: float, ended: bool, outstayed: bool) -> None:
        if outstayed or (ended and self.policy == "conservative-rebuild"):
            self.slots.clear()
        for each in [*self.waiting]:
            if ended or each not in self.slots:
                self.slots.pop(each, None)
                self.slots[each] = self._earliest(each, now_s)
            if self.slots[each].from_s <= now_s:
                self._start(each, self.slots.pop(each))

    def _easy(self, now_s: float) -> None:
        """A slot for the first that does not fit; others must fit beside it."""
        self.slots.clear()
        promised_s = None
        for each in [*self.waiting]:
            slot = self._earliest(each, now_s)
            late = promised_s is not None and now_s + each.taken_s > promised_s
            if slot.from_s <= now_s and not (late and not self.spare):
                self._start(each, slot)
            elif promised_s is None:
                self.slots[each], promised_s = slot, slot.from_s
        self.slots.clear()

    def _earliest(self, player: Player, now_s: float) -> Held:
        held = [Held(now_s, each.believed_s, each.numbers) for each in self.running]
        held += self.slots.values()
        for from_s in sorted({now_s} | {each.to_s for each in held if each.to_s > now_s}):
            to_s = from_s + player.taken_s
            taken = [each.numbers for each in held if each.from_s < to_s and each.to_s > from_s]
            free = sorted(set(range(self.total)).difference(*taken))
            if len(free) >= player.size:
                return Held(from_s, to_s, frozenset(free[: player.size]))
        raise AssertionError("everybody has left by then")

    def _start(self, player: Player, slot: Held) -> None:
        player.start_s, player.numbers = slot.from_s, slot.numbers
        player.end_s = slot.from_s + player.lasts_s
        player.believed_s = slot.to_s
        self.waiting.remove(player)
        self.running.append(player)
