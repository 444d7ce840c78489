"""Ids: which were given out, to whose request, and how their jobs ended."""

from __future__ import annotations

from rota.core.facts.states import FINAL, JobState

_STATES = tuple(JobState)
_CODE = {state: code for code, state in enumerate(_STATES, start=1)}
#: Added to the code of an array.
_ARRAY = 0x80
FINAL_ORDER = tuple(state for state in _STATES if state in FINAL)


class Ledger:
    """How each finished job ended: a byte per id. Zero: unfinished, or never given out.

    It grows for years. So a controller that has to take a tick back keeps it (``rewind``) instead
    of reading everything again that ever ended.
    """

    __slots__ = ("_codes", "_undo", "counts")

    def __init__(self) -> None:
        self._codes = bytearray()
        self.counts: dict[JobState, int] = dict.fromkeys(FINAL_ORDER, 0)
        #: Codes and counts as they were before each change since ``begin``; None: nobody asks.
        self._undo: list[tuple[int, bytearray, dict[JobState, int]]] | None = None

    def begin(self) -> None:
        """From here on changes can be taken back."""
        self._undo = []

    def rewind(self) -> None:
        """Take back what was put since ``begin``."""
        while self._undo:
            first, codes, self.counts = self._undo.pop()
            self._codes[first : first + len(codes)] = codes

    def get(self, job_id: int) -> JobState | None:
        if 0 <= job_id < len(self._codes):
            code = self._codes[job_id] & ~_ARRAY
            return _STATES[code - 1] if code else None
        return None

    def is_array(self, item: int) -> bool:
        """Whether this is the id of an array that has ended."""
        return 0 <= item < len(self._codes) and self._codes[item] >= _ARRAY

    def states_in(self, first: int, last: int) -> set[JobState]:
        """The states that occur among a block of finished jobs."""
        return {_STATES[code - 1] for code in set(self._codes[first : last + 1]) if code}

    def counts_in(self, first: int, last: int) -> dict[JobState, int]:
        """How often each final state occurs among a block of ids."""
        block = self._codes[first : last + 1]
        return {state: block.count(_CODE[state]) for state in FINAL_ORDER}

    def put(self, job_id: int, state: JobState) -> None:
        self.put_span(job_id, job_id, state)

    def put_span(self, first: int, last: int, state: JobState) -> None:
        if last >= len(self._codes):
            self._codes.extend(bytes(max(last + 1 - len(self._codes), 1024)))
        before = self._codes[first : last + 1]
        if self._undo is not None:
            self._undo.append((first, before, dict(self.counts)))
        if any(before):
            # What is said once more is not counted twice.
            for ended in FINAL_ORDER:
                self.counts[ended] -= before.count(_CODE[ended])
        self._codes[first : last + 1] = bytes([_CODE[state]]) * (last - first + 1)
        self.counts[state] += last - first + 1

    def put_array(self, array_id: int, state: JobState) -> None:
        """How an array ended as a whole: it is no job, so it is not counted."""
        self.put(array_id, state)
        self.counts[state] -= 1
        self._codes[array_id] |= _ARRAY


class Ids:
    """The id of the cluster, and those that it gave to jobs, arrays and reservations."""

    def __init__(self, cluster_id: str) -> None:
        self.cluster_id = cluster_id
        #: What the next job, array or reservation gets.
        self.next = 1
        #: (user, Idempotency-Key) -> the id that the first submit got.
        self.keys: dict[tuple[str, str], int] = {}
        self.ended = Ledger()

    def give(self, last: int) -> None:
        """All ids up to this one are taken."""
        self.next = max(self.next, last + 1)

    def remember(self, user: str, key: str, first: int) -> None:
        """A submit got these ids; when it is repeated with its key it gets the same ones."""
        if key:
            self.keys[user, key] = first
