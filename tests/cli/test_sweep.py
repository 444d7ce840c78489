"""Sweeps: the table that parameters make, and the mistakes that are refused."""

import pytest

from rota.cli.submit.sweep import MAX_ROWS, Sweep, make_sweep, parse_csv, parse_param
from rota.client.errors import ClientError


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("lr=1e-3,1e-4", ["1e-3", "1e-4"]),
        ("n=1:3", ["1", "2", "3"]),
        ("n=1:10:4", ["1", "5", "9"]),
        ("n=3:1", ["3", "2", "1"]),
        ("n=10:0:-5", ["10", "5", "0"]),
        ("x=0:1:0.25", ["0", "0.25", "0.5", "0.75", "1"]),
        ("x=0.1:0.3:0.1", ["0.1", "0.2", "0.3"]),
        ("n=1:2,7", ["1", "2", "7"]),
        ("s=a", ["a"]),
        ('s="a,b",c', ["a,b", "c"]),
        ("url=http://x:80/a=b", ["http://x:80/a=b"]),
        ("s=,a", ["", "a"]),
        ("name=größe", ["größe"]),
    ],
)
def test_values_are_lists_or_ranges_with_both_ends(text, values):
    assert parse_param(text)[1] == values


@pytest.mark.parametrize(
    "text",
    ["", "lr", "=1", "1x=2", "a b=1", "n=", "n=1:5:0", "n=1:5:-1", "n=1:9999999", "n=0:1:1e-9"],
)
def test_a_parameter_that_cannot_be_read_is_refused(text):
    with pytest.raises(ClientError, match=r"^--param: "):
        parse_param(text)


def test_several_parameters_multiply_and_the_last_varies_fastest():
    sweep = make_sweep(["a=1,2", "b=x,y"], None)

    assert sweep == Sweep(["a", "b"], [["1", "x"], ["1", "y"], ["2", "x"], ["2", "y"]])


def test_the_rows_of_a_file_stay_together_and_multiply_with_parameters():
    table = parse_csv("lr,seed\n0.1,1\n0.2,2\n", "grid.csv")

    sweep = make_sweep(["b=x,y"], table)

    assert sweep.names == ["lr", "seed", "b"]
    assert sweep.rows == [
        ["0.1", "1", "x"],
        ["0.1", "1", "y"],
        ["0.2", "2", "x"],
        ["0.2", "2", "y"],
    ]


def test_without_parameters_there_is_no_sweep():
    assert make_sweep([], None) is None


def test_a_sweep_beyond_the_limit_is_refused_before_it_is_made():
    with pytest.raises(ClientError, match=f"at most {MAX_ROWS}"):
        make_sweep([f"{name}=1:1000" for name in "abcdef"], None)


@pytest.mark.parametrize("params", [["a=1", "a=2"], ["a=1", "b=2", "a=3"]])
def test_a_name_may_stand_only_once(params):
    with pytest.raises(ClientError, match="a is given twice"):
        make_sweep(params, None)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "expected a line with names"),
        ("a,b\n", "expected a line with names"),
        ("a,b\n1\n", "grid.csv:2: 1 values for 2 names"),
        ('a\n"open\n', "grid.csv: "),
    ],
)
def test_a_file_that_is_no_table_is_refused(text, words):
    with pytest.raises(ClientError, match=words):
        parse_csv(text, "grid.csv")


def test_a_file_with_a_bad_name_is_refused():
    with pytest.raises(ClientError, match="'two words' is no name"):
        make_sweep([], parse_csv("two words\n1\n", "grid.csv"))
