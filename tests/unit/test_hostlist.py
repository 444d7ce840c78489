"""Names of nodes in short, and back."""

import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.hostlist import NODES_MAX, compress, expand

NAMES = st.one_of(
    st.from_regex(r"[a-z]{1,3}[0-9]{0,3}", fullmatch=True),
    st.from_regex(r"[a-z][a-z0-9.-]{0,9}", fullmatch=True),
    st.builds(lambda number, width: f"n{number:0{width}}", st.integers(0, 120), st.integers(1, 3)),
)


@pytest.mark.parametrize(
    ("names", "short"),
    [
        ([], ""),
        (["box"], "box"),
        (["n1", "n2", "n3", "n5", "gpu08", "gpu09", "gpu10"], "n[1-3,5],gpu[08-10]"),
        (["n9", "n10", "n11"], "n[9-11]"),
        (["n3", "n1", "n2"], "n[3,1-2]"),
        (["n1", "n01", "n2"], "n[1,01,2]"),
        (["a", "n1", "a2", "n2"], "a,n1,a2,n2"),
        (["n1.example.org", "n2.example.org"], "n1.example.org,n2.example.org"),
        (["n7", "n7"], "n7"),
    ],
)
def test_names_are_written_as_slurm_writes_them(names: list[str], short: str):
    assert compress(names) == short


@given(st.lists(NAMES, unique=True, max_size=40))
def test_what_was_compressed_expands_to_the_same_names_in_the_same_order(names: list[str]):
    assert expand(compress(names)) == tuple(names)


@pytest.mark.parametrize(
    ("short", "names"),
    [
        ("n[1-3,5],gpu[08-10]", ["n1", "n2", "n3", "n5", "gpu08", "gpu09", "gpu10"]),
        ("r[1-2]n[01-02]", ["r1n01", "r1n02", "r2n01", "r2n02"]),
        ("n[1-2].lan, x", ["n1.lan", "n2.lan", "x"]),
        ("n[98-101]", ["n98", "n99", "n100", "n101"]),
        ("a,a,b", ["a", "b"]),
        ("  ", []),
    ],
)
def test_short_forms_expand_in_order_and_name_every_node_once(short: str, names: list[str]):
    assert list(expand(short)) == names


@pytest.mark.parametrize("text", ["n[", "n]", "n[1-]x[", "n[3-1]", "n[a]", ",", "a,,b", "n[1 - 2]"])
def test_what_is_no_list_of_names_is_refused_with_its_text(text: str):
    with pytest.raises(ValueError, match="is not valid; expected") as refused:
        expand(text)

    assert f"'{text}'" in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [f"n[0-{NODES_MAX}]", "n[1-9999]x[1-9999]", ",".join(["n[0-9998]", "m[0-9998]"])],
)
def test_more_nodes_than_any_site_has_are_refused_before_they_are_made(text: str):
    with pytest.raises(ValueError, match=f"at most {NODES_MAX} nodes"):
        expand(text)


@given(st.text(alphabet="n0129[]-, x", max_size=20))
def test_any_text_is_expanded_or_refused_in_one_line(text: str):
    try:
        names, said = expand(text), ""
    except ValueError as refused:
        names, said = (), str(refused)

    assert len(set(names)) == len(names)
    assert "\n" not in said


@pytest.mark.parametrize(
    "word", [",", "1,", "[", "]", "n[1-2],", "n[0-9][0-9],", "n[0-9999],", "[0-1]", "a[1]", "9"]
)
def test_a_text_of_any_form_is_read_in_no_time(word: str):
    began_s = time.thread_time()

    with contextlib.suppress(ValueError):
        expand(word * (128 * 1024 // len(word)))

    assert time.thread_time() - began_s < 2.0
