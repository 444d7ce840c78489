"""How finished jobs are remembered: exactly, and without a byte for each element of a cut array."""

import random
import tracemalloc

from rota.core.derived.ids import Ledger
from rota.core.facts.states import FINAL, JobState
from rota.testing.scene import Scene

MILLIONS = "0-9999999"


def test_an_array_that_was_cancelled_costs_no_memory_per_element():
    scene = Scene()
    tracemalloc.start()

    for number in range(3):
        scene.submit(f"cut{number}", array=MILLIONS, hold=True)
        scene.cancel(f"cut{number}")
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert kept < 1_000_000
    first = scene.cluster.arrays[1]
    assert scene.cluster.state_of(first.element_id(7_654_321)) is JobState.CANCELLED
    assert scene.cluster.count_elements(first)[JobState.CANCELLED] == 10_000_000


def test_spans_and_single_ends_are_remembered_as_one_by_one():
    chance = random.Random(7)
    ledger, plain = Ledger(), {}
    final = sorted(FINAL)
    at = 1
    blocks = []
    while at < 60_000:
        size = chance.choice([1, 1, 3, 4000, 5000, 9000])
        blocks.append((at, at + size - 1, chance.choice(final)))
        at += size + chance.choice([0, 1, 50])
    chance.shuffle(blocks)

    for first, last, state in blocks:
        ledger.put_span(first, last, state) if last > first else ledger.put(first, state)
        plain |= dict.fromkeys(range(first, last + 1), state)

    assert all(ledger.get(i) is plain.get(i) for i in range(-2, at + 10))
    for _ in range(200):
        low, high = sorted(chance.sample(range(at + 10), 2))
        inside = [plain[i] for i in range(low, high + 1) if i in plain]
        assert ledger.states_in(low, high) == set(inside)
        assert ledger.counts_in(low, high) == {s: inside.count(s) for s in ledger.counts}
    assert ledger.counts == {s: list(plain.values()).count(s) for s in ledger.counts}


def test_an_ended_array_is_known_as_one_and_not_counted_as_a_job():
    ledger = Ledger()

    ledger.put_array(5, JobState.FAILED)

    assert (ledger.is_array(5), ledger.get(5)) == (True, JobState.FAILED)
    assert not ledger.is_array(6)
    assert sum(ledger.counts.values()) == 0
    assert ledger.counts_in(1, 10)[JobState.FAILED] == 0


def test_what_a_tick_put_is_taken_back_and_may_be_said_again():
    ledger = Ledger()
    ledger.put_span(10, 6_000, JobState.CANCELLED)
    ledger.put(6_001, JobState.FAILED)
    before = dict(ledger.counts)
    ledger.begin()

    ledger.put(6_001, JobState.COMPLETED)
    ledger.put(7_000, JobState.FAILED)
    ledger.put_span(10, 20_000, JobState.CANCELLED)
    grown = dict(ledger.counts)
    ledger.rewind()
    rewound = dict(ledger.counts)
    for _ in range(2):
        ledger.put_span(10, 20_000, JobState.CANCELLED)

    assert rewound == before
    assert grown[JobState.CANCELLED] == ledger.counts[JobState.CANCELLED] == 19_991
    assert ledger.counts[JobState.FAILED] == ledger.counts[JobState.COMPLETED] == 0
    assert ledger.counts_in(1, 30_000) == ledger.counts
    assert ledger.get(7_000) is ledger.get(20_000) is JobState.CANCELLED
    assert ledger.get(20_001) is None
