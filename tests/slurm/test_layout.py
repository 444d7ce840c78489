"""Formats, durations, sizes, references and documents: what can be said without a server."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.slurm.formats.documents import as_yaml, text_of
from rota.slurm.formats.layout import (
    Read,
    RuledTable,
    ShownField,
    TableColumn,
    read_columns,
    read_long,
    read_percent,
)
from rota.slurm.records.job_refs import parse_ref, split_refs
from rota.slurm.records.tres import by_name, ranges, tres_text
from rota.slurm.words.amounts import (
    Moments,
    count_text,
    cpu_time,
    full_duration,
    short_duration,
    size_text,
    zone_of,
)
from rota.slurm.words.states import COMPACT, parse_state

FIELDS = {
    "i": ShownField("JOBID", lambda job: job["id"]),
    "j": ShownField("NAME", lambda job: job["name"]),
}
NAMES = {"jobid": FIELDS["i"], "name": FIELDS["j"]}
JOB = {"id": "23", "name": "running"}


def lines(text: str) -> tuple[str, str, list[str]]:
    read: Read[dict[str, str]] = read_percent(text, FIELDS)
    return read.layout.header(), read.layout.line(JOB), read.unknown


def test_a_percent_format_pads_cuts_and_keeps_the_text_between_fields():
    assert lines("%.4i|%3j|%j<>") == ("JOBI|NAM|NAME<>", "  23|run|running<>", [])


def test_what_is_no_field_is_printed_as_it_stands_and_reported():
    assert lines("%i %-10j|") == ("JOBID %-10j|", "23 %-10j|", ["-"])
    assert lines("id=%i 100%% name=%j") == (
        "id=JOBID 100% name=NAME",
        "id=23 100% name=running",
        [" "],
    )


def test_a_long_format_is_twenty_wide_unless_a_width_or_a_separator_is_named():
    read: Read[dict[str, str]] = read_long("jobid,name:.9,jobid:###,name:4|", NAMES)

    assert read.layout.line(JOB) == "23" + " " * 18 + "  running" + "23###" + "runn|"


def test_an_unknown_long_name_is_reported_and_leaves_only_its_separator():
    read: Read[dict[str, str]] = read_long("jobid:3,bogus:5;", NAMES)

    assert (read.layout.line(JOB), read.unknown) == ("23 ;", ["bogus"])


def test_columns_are_found_by_any_beginning_and_take_other_widths():
    known = {"state": TableColumn("State", 10, lambda _: "OUT_OF_MEMORY")}
    found, bad = read_columns("sta,STATE%20,state%-4", known)

    assert bad == ""
    assert RuledTable[None](found).line(None) == "OUT_OF_ME+ " + "       OUT_OF_MEMORY " + "OUT+ "


def test_a_column_that_nobody_knows_is_named():
    assert read_columns("state,bogus", {"state": TableColumn("State", 10, str)}) == ([], "bogus")


def test_a_parsable_table_ends_with_its_delimiter_only_if_it_is_closed():
    columns = [TableColumn("A", 3, lambda _: "1"), TableColumn("B", 3, lambda _: "2")]

    assert RuledTable[None](columns, delimiter="|").line(None) == "1|2"
    assert RuledTable[None](columns, delimiter=";", closed=True).heading() == ["A;B;"]


@given(st.text(), st.text())
def test_no_format_breaks_a_listing(percent: str, long: str):
    read: Read[dict[str, str]] = read_percent(percent, FIELDS)
    other: Read[dict[str, str]] = read_long(long, NAMES)

    assert isinstance(read.layout.line(JOB) + other.layout.line(JOB), str)


@pytest.mark.parametrize(
    ("seconds", "short", "full"),
    [
        (0, "0:00", "00:00:00"),
        (68, "1:08", "00:01:08"),
        (3600, "1:00:00", "01:00:00"),
        (86400 + 61, "1-00:01:01", "1-00:01:01"),
        (None, "UNLIMITED", "UNLIMITED"),
    ],
)
def test_durations_read_as_squeue_and_as_scontrol_write_them(
    seconds: int | None, short: str, full: str
):
    assert (short_duration(seconds), full_duration(seconds)) == (short, full)


def test_cpu_time_has_thousandths_below_an_hour():
    assert (cpu_time(0.019), cpu_time(3725.5)) == ("00:00.019", "01:02:05")


def test_sizes_move_up_only_as_long_as_they_stay_whole():
    assert [size_text(mib) for mib in (500, 1024, 2500, 4096)] == ["500M", "1G", "2500M", "4G"]
    assert (size_text(1000, unit="G"), size_text(2048, convert=False)) == ("0.98G", "2048M")
    assert (count_text(1000), count_text(2048)) == ("1000", "2K")


def test_moments_are_told_in_the_callers_zone_and_pattern():
    noon = 1_794_744_000

    assert Moments(noon, zone_of("UTC")).text(noon) == "2026-11-15T12:00:00"
    assert Moments(noon, zone_of("Asia/Tokyo")).text(noon) == "2026-11-15T21:00:00"
    assert Moments(noon, zone_of("XYZ+3")).text(noon) == "2026-11-15T09:00:00"
    assert Moments(noon, zone_of("UTC"), "%H.%M").text(noon) == "12.00"
    assert Moments(noon, zone_of("UTC"), "relative").text(noon) == "12:00:00"
    assert Moments(noon, zone_of("no such zone")).text(0, "N/A") == "N/A"


@pytest.mark.parametrize(
    "text", ["", "abc", "8_", "8_[", "8_[3-]", "1.2.3", "-1", "8_[1-99999999]"]
)
def test_what_names_no_job_is_no_reference(text: str):
    assert parse_ref(text) is None


def test_references_name_jobs_elements_parts_and_steps():
    whole, few, part, step = (parse_ref(text) for text in ("8", "8_[1-3,9]", "61+1", "12.batch"))

    assert whole is not None
    assert whole.indices is None
    assert few is not None
    assert few.indices == {1, 2, 3, 9}
    assert part is not None
    assert part.offset == 1
    assert step is not None
    assert step.step == "batch"
    assert list(split_refs("1,8_[1-3,9] 7")) == ["1", "8_[1-3,9]", "7"]


def test_states_are_known_in_both_forms_and_any_case():
    assert parse_state("pd") == parse_state("Pending") == "PENDING"
    assert parse_state("BOGUS") is None
    assert all(parse_state(short) == long for long, short in COMPACT.items())


def test_trackable_resources_come_by_number_and_in_accounting_by_name():
    text = tres_text(4, 2000, 1, {"h200": 2})

    assert text == "cpu=4,mem=2000M,node=1,billing=4,gres/gpu=2,gres/gpu:h200=2"
    assert by_name(text) == "billing=4,cpu=4,gres/gpu:h200=2,gres/gpu=2,mem=2000M,node=1"
    assert ranges([3, 0, 1, 6]) == "0-1,3,6"


def test_json_is_spread_and_escaped_as_slurm_does_and_still_says_the_same():
    document = {"a": [], "b": "x: []", "c": "/tmp", "d": [{"e": {}}], "f": None}

    text = text_of(document)

    assert text.startswith('{\n  "a": [\n  ],\n  "b": "x: []",\n  "c": "\\/tmp",\n')
    assert json.loads(text) == document


def test_yaml_carries_the_kind_of_every_value():
    text = as_yaml({"meta": {"n": 1}, "errors": [], "jobs": [{"up": True, "name": ""}]})

    assert text.splitlines()[1:] == [
        "--- !!map",
        "!!str meta: !!map",
        "  !!str n: !!int 1",
        "!!str errors: !!seq []",
        "!!str jobs: !!seq",
        "- !!map",
        "  !!str up: !!bool true",
        "  !!str name: !!null null",
        "...",
    ]
