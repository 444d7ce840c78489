"""The quick plan of a line against the plainest one: every whole second is looked at."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from rota.scheduling.answers.line_plan import LONG, pack, plan_line

KINDS = 2
amounts = st.tuples(st.integers(0, 4), st.integers(0, 3))
pieces = st.tuples(amounts, st.integers(1, 6))


def plainly(
    free: tuple[int, ...],
    running: list[tuple[tuple[int, ...], int]],
    line: list[tuple[tuple[int, ...], int]],
) -> list[float]:
    """The same by a table: how much is free in each second."""
    seconds = 1 + sum(run_s for _, run_s in (*running, *line))
    table = [
        [whole + sum(amount[kind] for amount, end_s in running if end_s <= at_s)
         for kind, whole in enumerate(free)]
        for at_s in range(seconds)
    ]  # fmt: skip
    waits: list[float] = []
    for amount, run_s in line:
        for at_s in range(seconds):
            window = table[at_s : at_s + run_s]
            if all(have >= want for row in window for have, want in zip(row, amount, strict=True)):
                break
        else:
            waits.append(float("inf"))
            continue
        for row in table[at_s : at_s + run_s]:
            for kind, want in enumerate(amount):
                row[kind] -= want
        waits.append(float(at_s))
    return waits


@given(amounts, st.lists(pieces, max_size=6), st.lists(pieces, max_size=8))
@settings(max_examples=300)
def test_a_line_is_planned_as_by_a_table_of_seconds(free, running, line):
    gives = [(pack(amount), float(left_s)) for amount, left_s in running]
    asks = [(pack(amount), float(run_s)) for amount, run_s in line]

    waits = [*plan_line(pack(free), gives, asks, KINDS)]

    assert waits == plainly(free, running, line)


@given(st.lists(st.floats(1.0, 1e6), min_size=LONG + 1, max_size=LONG + 40))
@settings(max_examples=30, deadline=None)
def test_ends_on_steps_are_in_the_sum_as_late_as_they_really_are(run_times):
    """A long line is planned in steps of two percent or a minute; no error adds up."""
    total_s, waits = 0.0, [*plan_line(1, [], [(1, run_s) for run_s in run_times])]

    for run_s, wait_s in zip(run_times, waits, strict=True):
        assert abs(wait_s - total_s) <= 0.02 * max(total_s, 3000.0)
        total_s += run_s
