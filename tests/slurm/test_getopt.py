"""Options are read as glibc's getopt_long reads them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.slurm.call.getopt import BadOption, OptionTable, parse
from rota.slurm.orders.options import SHEETS

TABLE = OptionTable(
    "n ntasks=", "N nodes=", "H hold", "exclusive=?", "ntasks-per-node|tasks-per-node="
)


def options(*argv: str, permute: bool = True) -> list[tuple[str, str]]:
    return parse(TABLE, argv, "sbatch", permute=permute).options


@pytest.mark.parametrize(
    "words",
    [
        ["-n4"],
        ["-n", "4"],
        ["--ntasks=4"],
        ["--ntasks", "4"],
    ],
)
def test_a_value_may_be_glued_or_follow(words: list[str]) -> None:
    assert options(*words) == [("ntasks", "4")]


def test_a_name_may_be_shortened_as_long_as_it_is_the_only_one() -> None:
    assert options("--node=4", "--ex") == [("nodes", "4"), ("exclusive", "")]


def test_short_options_are_bundled_and_the_last_one_takes_the_rest() -> None:
    assert options("-HN2") == [("hold", ""), ("nodes", "2")]
    assert options("-HN", "2") == [("hold", ""), ("nodes", "2")]


def test_an_optional_value_is_taken_only_when_glued() -> None:
    assert options("--exclusive", "user") == [("exclusive", "")]
    assert options("--exclusive=user") == [("exclusive", "user")]


def test_two_names_of_one_option_are_not_ambiguous() -> None:
    assert options("--tasks-per-node=2") == [("ntasks-per-node", "2")]


def test_words_between_options_are_kept_aside_or_end_them() -> None:
    argv = ("-H", "job.sh", "-n", "4")

    assert parse(TABLE, argv, "x").rest == ["job.sh"]
    assert parse(TABLE, argv, "x", permute=False).rest == ["job.sh", "-n", "4"]


def test_two_dashes_end_the_options() -> None:
    parsed = parse(TABLE, ("-H", "--", "-n"), "x")

    assert parsed.options == [("hold", "")]
    assert parsed.rest == ["-n"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--bogus=1"], "sbatch: unrecognized option '--bogus=1'"),
        (["-Y"], "sbatch: invalid option -- 'Y'"),
        (["-n"], "sbatch: option requires an argument -- 'n'"),
        (["--ntasks"], "sbatch: option '--ntasks' requires an argument"),
        (["--hold=3"], "sbatch: option '--hold' doesn't allow an argument"),
    ],
)
def test_what_is_wrong_is_said_in_the_words_of_glibc(words: list[str], message: str) -> None:
    with pytest.raises(BadOption) as caught:
        parse(SHEETS["sbatch"].table, words, "sbatch")

    assert str(caught.value) == message


def test_an_ambiguous_name_lists_what_it_could_mean_in_order() -> None:
    with pytest.raises(BadOption) as caught:
        parse(SHEETS["sbatch"].table, ["--n=3"], "sbatch")

    assert str(caught.value) == (
        "sbatch: option '--n=3' is ambiguous; possibilities: '--network' '--nice' '--no-kill' "
        "'--no-requeue' '--nodefile' '--nodelist' '--nodes' '--ntasks' '--ntasks-per-core' "
        "'--ntasks-per-gpu' '--ntasks-per-node' '--ntasks-per-socket' '--ntasks-per-tres'"
    )


@given(st.lists(st.text(max_size=12), max_size=8))
def test_any_words_are_read_or_refused_in_one_line(argv: list[str]) -> None:
    try:
        parsed = parse(SHEETS["sbatch"].table, argv, "sbatch", permute=False)
    except BadOption as error:
        said = str(error)
    else:
        said = "sbatch: " + "".join(value for _, value in parsed.options)

    assert said.startswith("sbatch: ")


@given(st.integers(1, 99), st.sampled_from(["-n{}", "-n {}", "--ntasks={}", "--ntasks {}"]))
def test_every_spelling_of_a_number_means_the_same(number: int, form: str) -> None:
    assert options(*form.format(number).split()) == [("ntasks", str(number))]
