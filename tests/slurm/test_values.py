"""Times, sizes and counts in all the forms that Slurm takes."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.slurm.call.command import CommandFailed
from rota.slurm.orders.batch_script import directives, split_words
from rota.slurm.words import values
from rota.slurm.words.patterns import fill

NOW_S = datetime(2026, 11, 15, 14, 0, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("10", 10),
        ("0:3", 1),
        ("5:01", 6),
        ("0:3:0", 3),
        ("1:00:01", 61),
        ("1-0", 1440),
        ("1-2:3", 1563),
        ("1-2:3:4", 1564),
        ("UNLIMITED", 0),
        ("-1", 0),
    ],
)
def test_times_are_rounded_up_to_minutes(text: str, minutes: int) -> None:
    assert values.minutes(text) == minutes


@pytest.mark.parametrize(
    ("text", "mib"),
    [("500", 500), ("1GB", 1024), ("3g", 3072), ("204800K", 200), ("1K", 1), ("1T", 1 << 20)],
)
def test_sizes_are_in_mib_unless_they_say_otherwise(text: str, mib: int) -> None:
    assert values.megabytes(text) == mib


@pytest.mark.parametrize(
    ("text", "model", "count"), [("4", "", 4), ("h200", "h200", 1), ("h200:2", "h200", 2)]
)
def test_gpus_have_a_model_a_number_or_both(text: str, model: str, count: int) -> None:
    assert values.gpus(text) == (model, count)


def test_gres_knows_gpus_in_every_spelling_and_nothing_else() -> None:
    assert values.gres("gpu") == [("", 1)]
    assert values.gres("gpu:2,gres:gpu:h200:1") == [("", 2), ("h200", 1)]
    assert values.gres("none") == []
    with pytest.raises(ValueError, match="bogus"):
        values.gres("bogus:1")


@pytest.mark.parametrize(
    ("text", "flags", "number", "ahead_s"),
    [
        ("USR2@90", "", 12, 90),
        ("B:USR1@30", "B", 10, 30),
        ("SIGUSR1", "", 10, 60),
        ("10", "", 10, 60),
    ],
)
def test_a_warning_names_a_signal_and_how_long_before_the_end(
    text: str, flags: str, number: int, ahead_s: int
) -> None:
    assert values.warning(text) == (flags, number, ahead_s)


@pytest.mark.parametrize(
    ("text", "when"),
    [
        ("now", "2026-11-15T14:00:00"),
        ("now+1hour", "2026-11-15T15:00:00"),
        ("now+60", "2026-11-15T14:01:00"),
        ("16:00", "2026-11-15T16:00:00"),
        ("13:00", "2026-11-16T13:00:00"),
        ("midnight", "2026-11-16T00:00:00"),
        ("tomorrow", "2026-11-16T00:00:00"),
        ("2026-12-01", "2026-12-01T00:00:00"),
        ("2026-12-01T12:34:56", "2026-12-01T12:34:56"),
        ("1970-01-01-00:00:01", "1970-01-01T00:00:01"),
        ("12/24/26", "2026-12-24T00:00:00"),
    ],
)
def test_moments_are_read_in_every_form(text: str, when: str) -> None:
    found = datetime.fromtimestamp(values.moment(text, NOW_S, UTC), UTC)

    assert found.isoformat()[:19] == when


@pytest.mark.parametrize(
    "read",
    [
        values.minutes,
        values.megabytes,
        values.node_counts,
        values.whole,
        values.gpus,
        values.gres,
        values.signal_number,
        values.warning,
        lambda text: values.moment(text, NOW_S, UTC),
    ],
)
@given(text=st.text(max_size=20))
def test_any_text_is_a_value_or_a_value_error(read: Callable[[str], object], text: str) -> None:
    try:
        found = read(text)
    except (ValueError, OverflowError):
        found = text

    assert found is not None


def test_directives_end_where_the_first_command_begins() -> None:
    script = b"#!/bin/sh\n#SBATCH -J a -n 2\n\n# words\n#SBATCH --time=5\ntrue\n#SBATCH -n 9\n"

    assert directives(script, "x") == [["-J", "a", "-n", "2", "--time=5"]]


def test_directives_keep_quoted_words_and_drop_comments() -> None:
    line = """ --comment="x # y" --error 'a b' -J c\\ d # words"""

    assert split_words(line, "x") == ["--comment=x # y", "--error", "a b", "-J", "c d"]


def test_a_quote_without_an_end_is_named_with_its_line() -> None:
    with pytest.raises(CommandFailed) as caught:
        directives(b'#!/bin/sh\n#SBATCH -J "abc\n', "e.sh")

    assert caught.value.answer.stderr == (
        'sbatch: fatal: e.sh: line 2: Unmatched `"` in [ -J "abc]\n'
    )


def test_the_parts_of_a_heterogeneous_job_have_directives_of_their_own() -> None:
    script = b"#!/bin/sh\n#SBATCH -n 1\n#SBATCH hetjob\n#SBATCH -n 2\n"

    assert directives(script, "x") == [["-n", "1"], ["-n", "2"]]


def test_marks_in_file_names_can_be_wide_and_a_backslash_turns_them_off() -> None:
    marks = {"j": "12", "t": "3", "x": "name"}

    assert fill("%x-%4j.%2t.%%.%q", marks) == "name-0012.03.%.%q"
    assert fill("\\%j", marks) == "%j"
