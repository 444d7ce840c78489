"""Wishes about nodes as text: read, understood, written again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.core.facts.placing import Affinity, Operator, Selector, Taint, TaintEffect, Toleration
from rota.core.words.placing_text import (
    format_affinity,
    format_selector,
    format_taint,
    format_toleration,
    parse_affinity,
    parse_selector,
    parse_selectors,
    parse_taint,
    parse_toleration,
)

KEYS = st.from_regex(r"[a-z][a-z0-9_./-]{0,8}", fullmatch=True)
VALUES = st.from_regex(r"[A-Za-z0-9_.+-]{1,8}", fullmatch=True)
WEIGHTS = st.integers(0, 100)


@st.composite
def selectors(draw):
    operator = draw(st.sampled_from(Operator))
    if operator in (Operator.EXISTS, Operator.MISSING):
        values = ()
    elif operator in (Operator.GT, Operator.LT):
        values = (str(draw(st.integers(-99, 99))),)
    else:
        several = operator in (Operator.IN, Operator.NOT_IN)
        amount = draw(st.integers(2, 4)) if several else 1
        values = tuple(draw(st.lists(VALUES, min_size=amount, max_size=amount, unique=True)))
    return Selector(draw(KEYS), operator, values, draw(WEIGHTS))


@given(selectors())
def test_a_selector_that_is_written_reads_the_same(selector):
    assert parse_selector(format_selector(selector)) == selector


@given(st.builds(Affinity, KEYS, st.one_of(st.just(""), VALUES), st.booleans(), KEYS, WEIGHTS))
def test_an_affinity_that_is_written_reads_the_same(affinity):
    assert parse_affinity(format_affinity(affinity), apart=affinity.apart) == affinity


@given(st.builds(Taint, KEYS, st.one_of(st.just(""), VALUES), st.sampled_from(TaintEffect)))
def test_a_taint_that_is_written_reads_the_same(taint):
    assert parse_taint(format_taint(taint)) == taint


@given(st.builds(Toleration, KEYS, st.one_of(st.just(""), VALUES)))
def test_a_toleration_that_is_written_reads_the_same(toleration):
    assert parse_toleration(format_toleration(toleration)) == toleration


@given(st.text(max_size=30))
def test_whatever_is_written_is_read_or_refused_in_a_line(text):
    refusals = [_refusal(read, text) for read in (parse_selectors, parse_taint, parse_toleration)]

    assert all("is not valid; " in line for line in refusals if line)


def _refusal(read, text):
    try:
        read(text)
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("text", "labels", "holds"),
    [
        ("rack=a", {"rack": "a"}, True),
        ("rack=a|b", {"rack": "b"}, True),
        ("rack in (a, b)", {"rack": "c"}, False),
        ("rack!=a", {}, True),
        ("rack not in (a,b)", {"rack": "b"}, False),
        ("gpu_mem>40", {"gpu_mem": "80"}, True),
        ("gpu_mem<40", {"gpu_mem": "80"}, False),
        ("gpu_mem>40", {"gpu_mem": "big"}, False),
        ("ssd", {"ssd": ""}, True),
        ("!ssd", {"ssd": ""}, False),
    ],
)
def test_a_selector_means_what_it_says(text, labels, holds):
    assert parse_selector(text).admits(labels) is holds


def test_several_hold_together_and_brackets_keep_their_commas():
    found = parse_selectors("rack in (a,b),ssd&!slow")

    assert [format_selector(one) for one in found] == ["rack=a|b", "ssd", "!slow"]
