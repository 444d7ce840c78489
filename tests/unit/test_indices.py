"""Array indices: what is read, what is refused, and sets of positions against plain sets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.core.facts.errors import Rejected
from rota.core.facts.indices import IndexRun, IndexSet, index_at, parse_indices, position_of


@pytest.mark.parametrize(
    ("text", "indices", "cap"),
    [
        ("0-3", [0, 1, 2, 3], 0),
        ("7", [7], 0),
        ("0-9:3", [0, 3, 6, 9], 0),
        ("0-10:3", [0, 3, 6, 9], 0),
        ("1,3,5-20:5", [1, 3, 5, 10, 15, 20], 0),
        ("5,1-2", [1, 2, 5], 0),
        ("0-3%2", [0, 1, 2, 3], 2),
        (" 0-1 % 2".replace(" ", ""), [0, 1], 2),
        ("0-4:2,1-5:2", [0, 2, 4, 1, 3, 5], 0),
    ],
)
def test_indices_are_read_as_runs_with_a_cap(text, indices, cap):
    runs, found_cap = parse_indices(text)

    count = sum(map(len, runs))
    assert [index_at(runs, position) for position in range(count)] == indices
    assert found_cap == cap


@pytest.mark.parametrize(
    "text",
    [
        "", " ", ",", "1,", "a", "-1", "1-", "-", "3-1", "0-9:0", "0-9:-1", "0-9:", "0-9%", "0-9%0",
        "0-9%-1", "0-9%x", "1,1", "0-5,3", "0-10:5,10", "1.5", "1e3", "0-99999999", "٣",
        "0-9%²", "0--9", "0-1-2", "999999999999", "[0-3]",
    ],
)  # fmt: skip
def test_indices_that_cannot_be_read_are_refused_naming_the_field(text):
    with pytest.raises(Rejected) as caught:
        parse_indices(text)

    assert caught.value.field == "array"


def test_a_huge_array_is_read_without_being_walked():
    runs, cap = parse_indices("0-9999999%16")

    assert runs == (IndexRun(0, 9_999_999),)
    assert cap == 16


def test_an_index_that_stands_twice_is_refused_even_with_another_run_between():
    with pytest.raises(Rejected):
        parse_indices("0-100:50,10-20,100")


def test_a_cap_of_thousands_of_digits_is_refused_like_any_other_bad_cap():
    with pytest.raises(Rejected):
        parse_indices("0-9%" + "9" * 5000)


@given(st.integers(0, 500), st.integers(0, 500), st.integers(1, 50))
def test_a_position_and_its_index_find_each_other(first, length, step):
    runs = (
        IndexRun(first, first + length * step, step),
        IndexRun(first + 100_000, first + 100_010),
    )

    for position in range(sum(map(len, runs))):
        assert position_of(runs, index_at(runs, position)) == position


def test_an_index_that_the_array_does_not_have_has_no_position():
    runs = (IndexRun(0, 10, 5), IndexRun(20, 20))

    assert position_of(runs, 3) is None
    assert position_of(runs, 15) is None
    with pytest.raises(IndexError):
        index_at(runs, 4)


@given(
    st.integers(0, 40),
    st.lists(st.integers(-2, 45), max_size=60),
    st.integers(-2, 45),
)
def test_a_set_of_positions_behaves_like_a_plain_set(count, gone, start):
    positions = IndexSet.full(count)
    plain = set(range(count))

    for position in gone:
        positions.discard(position)
        plain.discard(position)

    assert list(positions.walk()) == sorted(plain)
    assert len(positions) == len(plain)
    assert bool(positions) == bool(plain)
    assert (start in positions) == (start in plain)
    assert list(positions.walk(start)) == sorted(p for p in plain if p >= start)
    assert list(positions.walk_back(start)) == sorted(
        (p for p in plain if p <= start), reverse=True
    )
    if plain:
        assert positions.first() == min(plain)


def test_a_million_positions_cost_as_much_as_one():
    positions = IndexSet.full(1_000_000)

    positions.discard(500_000)

    assert positions.spans == [[0, 499_999], [500_001, 999_999]]
