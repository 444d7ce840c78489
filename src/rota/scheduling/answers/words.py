"""The first word about each job that waits, kept until its start teaches how true it was.

Short waits are over first. Who learned from starts alone would believe that all waits are short
while the long ones still last, and the more jobs wait the more so. So a job that waits for longer
than the widest band said is counted at once as one that waited for so long; its start only mends
by how much.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from rota.scheduling.answers.bands import NEAR_S

if TYPE_CHECKING:
    from rota.scheduling.answers.bands import Bands, Word

#: Words that are kept until their job starts; of more jobs nothing is learned.
WORDS_MAX = 20_000


class Said(NamedTuple):
    """What was said of a job, and when."""

    at_s: float
    word: Word
    #: How many runs tell when the job ends that it waits for; 0: its limit does. None: it waits
    #: for the end of none.
    runs: int | None = None


class ToldWords:
    """First words by job."""

    def __init__(self) -> None:
        self._said: dict[int, Said] = {}
        #: When each one will have waited for longer than its next band said.
        self._late: list[tuple[float, int]] = []
        #: How many bands each has outlasted.
        self._outlasted: dict[int, int] = {}
        #: Jobs that outlasted all, and how long they had waited when that was learned.
        self._counted_s: dict[int, float] = {}

    @property
    def jobs(self) -> list[int]:
        return [*self._said]

    def keep(self, job: int, said: Said) -> None:
        """The first word about a job; later ones are not kept."""
        if job in self._said or len(self._said) >= WORDS_MAX:
            return
        self._said[job] = said
        heappush(self._late, (said.at_s + said.word.bands_s[0][1], job))

    def pass_time(self, now_s: float, bands: Bands) -> None:
        """Learn of all that wait for longer by now than was said of them."""
        while self._late and self._late[0][0] < now_s:
            _, job = heappop(self._late)
            said, passed = self._said.get(job), self._outlasted.get(job, 0)
            if said is None or job in self._counted_s:
                continue
            highs_s = [high for _, high in said.word.bands_s]
            # A word of an earlier wait of the same job may have left its time behind.
            if now_s - said.at_s > highs_s[passed]:
                bands.miss(said.word, passed)
                passed = self._outlasted[job] = passed + 1
            if passed < len(highs_s):
                heappush(self._late, (said.at_s + highs_s[passed], job))
            else:
                self._counted_s[job] = max(now_s - said.at_s, highs_s[-1] + NEAR_S)
                bands.learn(said.word, self._counted_s[job], passed)

    def start(self, job: int, at_s: float, bands: Bands) -> None:
        """Learn from a start."""
        said, counted_s = self._said.pop(job, None), self._counted_s.pop(job, None)
        passed = self._outlasted.pop(job, 0)
        if said is None:
            return
        waited_s = max(at_s - said.at_s, 0.0)
        if counted_s is None:
            bands.learn(said.word, waited_s, passed)
        else:
            bands.mend(said.word, counted_s, waited_s)

    def forget(self, job: int) -> None:
        """It will not start, or not from this wait."""
        for kept in (self._said, self._counted_s, self._outlasted):
            kept.pop(job, None)
