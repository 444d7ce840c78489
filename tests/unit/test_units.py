"""Sizes, CPUs, times and moments: what is read, what is refused, and that printing is inverse."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.core.facts.resources import Request
from rota.core.words import units

GIB = 1 << 30


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8g", 8 * GIB),
        ("16gb", 16 * GIB),
        ("16GB", 16 * GIB),
        ("16GiB", 16 * GIB),
        ("512m", 512 << 20),
        ("1g", GIB),
        ("1.5T", 3 << 39),
        ("1024k", 1 << 20),
        ("1024b", 1024),
        (" 8G ", 8 * GIB),
        ("8 G", 8 * GIB),
        ("1024", 1024),
        ("0", 0),
        ("", 0),
        ("   ", 0),
        ("1p", 1 << 50),
        ("0.1k", 103),
    ],
)
def test_a_size_is_read_in_binary_units(text, size):
    assert units.parse_size_bytes(text) == size


BAD_SIZES = [
    "-1", "-8g", "+8g", "nan", "inf", "1e9", "8x", "g", ".5g", "5.g", "8gg", "1,5g", "0x10", "8g8",
    "1 2g", "8\0g", "٣g", "8\N{KELVIN SIGN}", "1025p", "9" * 30, "9" * 10_000, "8 g b", "NaNg",
]  # fmt: skip


@pytest.mark.parametrize("text", BAD_SIZES)
def test_a_size_that_cannot_be_read_is_a_value_error_that_says_what_is_allowed(text):
    with pytest.raises(ValueError, match="is not valid; ") as caught:
        units.parse_size_bytes(text)

    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("text", "mib"), [("1b", 1), ("1m", 1), ("1048577", 2), ("1.5g", 1536), ("0", 0)]
)
def test_memory_in_mib_is_rounded_up(text, mib):
    assert units.parse_memory_mib(text) == mib


@pytest.mark.parametrize(
    ("text", "milli"),
    [("4", 4000), ("1.5", 1500), ("500m", 500), ("0.0001", 1), (" 2 ", 2000), ("0", 0)],
)
def test_cpus_are_read_in_thousandths(text, milli):
    assert units.parse_cpu_milli(text) == milli


@pytest.mark.parametrize(
    "text", ["", "-1", "+1", "nan", "inf", "1e3", "four", "1.5m", "m", "1,5", "1000001", "4g"]
)
def test_cpus_that_cannot_be_read_are_refused(text):
    with pytest.raises(ValueError, match="is not valid; "):
        units.parse_cpu_milli(text)


@pytest.mark.parametrize(
    ("text", "length_s"),
    [
        ("90", 90),
        ("90s", 90),
        ("15m", 900),
        ("2h", 7200),
        ("1d", 86_400),
        ("1w", 604_800),
        ("1y2w", 365 * 86_400 + 2 * 604_800),
        ("1h30m", 5400),
        ("1d2h3m4s", 93_784),
        ("1.5h", 5400),
        ("500ms", 1),
        ("0", 0),
        ("2H", 7200),
        (" 2h ", 7200),
        ("01:30:00", 5400),
        ("100:00:00", 360_000),
        ("2-00:00:00", 172_800),
        ("0-23:59:59", 86_399),
    ],
)
def test_a_duration_is_read_in_seconds(text, length_s):
    assert units.parse_duration_s(text) == length_s


@pytest.mark.parametrize(
    "text",
    [
        "", "-1", "-2h", "nan", "inf", "h", "2x", "2h30", "30m1h", "1h1h", "1:2:3", "00:60:00",
        "00:00:60", "1-24:00:00", "1-2", "2 h", "1e3", "two", "101w2", "40000d", "9" * 13, "²h",
    ],
)  # fmt: skip
def test_a_duration_that_cannot_be_read_is_refused(text):
    with pytest.raises(ValueError, match="is not valid; "):
        units.parse_duration_s(text)


def test_a_duration_that_people_read_in_two_ways_is_refused_with_both_of_them():
    with pytest.raises(ValueError, match="write 10h30m or 10m30s"):
        units.parse_duration_s("10:30")


@given(st.integers(0, 1 << 40))
def test_printed_memory_reads_back_as_the_same_number(mib):
    assert units.parse_memory_mib(units.format_mib(mib)) == mib


@given(st.integers(0, units.MAX_CPU_MILLI))
def test_printed_cpus_read_back_as_the_same_number(milli):
    assert units.parse_cpu_milli(units.format_cpu(milli)) == milli


@given(st.integers(0, units.MAX_DURATION_S))
def test_a_printed_duration_reads_back_as_the_same_number(length_s):
    assert units.parse_duration_s(units.format_duration(length_s)) == length_s


@pytest.mark.parametrize(
    ("mib", "text"),
    [(0, "0"), (512, "512M"), (1024, "1G"), (1536, "1.5G"), (1500, "1500M"), (1 << 20, "1T")],
)
def test_memory_is_printed_as_people_write_it(mib, text):
    assert units.format_mib(mib) == text


@given(st.text(max_size=12))
def test_any_text_at_all_is_read_or_refused_with_a_value_error(text):
    for parse in (units.parse_size_bytes, units.parse_cpu_milli, units.parse_duration_ms):
        try:
            assert parse(text) >= 0
        except ValueError as error:
            assert "is not valid" in str(error)  # noqa: PT017


def test_a_request_without_a_device_is_for_cpus():
    assert units.device_type(Request()) == "cpu"
    assert units.device_variant(Request()) is None
    assert units.gpu_count(Request()) == 0


def test_the_device_type_of_a_request_is_the_kind_that_it_names():
    assert units.device_type(Request(device="gpu")) == "gpu"
    assert units.device_type(Request(device="tpu", device_count=4)) == "tpu"


@pytest.mark.parametrize(
    ("named", "variant"),
    [("A100", "A100"), ("v5litepod-16", "v5litepod-16"), ("auto", None), ("", None)],
)
def test_the_variant_is_the_model_unless_any_will_do(named, variant):
    assert units.device_variant(Request(device="gpu", device_type=named)) == variant


def test_a_gpu_request_without_a_count_means_one_gpu():
    assert units.gpu_count(Request(device="gpu")) == 1
    assert units.gpu_count(Request(device="gpu", device_count=4)) == 4
    assert units.gpu_count(Request(device="tpu", device_count=4)) == 0


@pytest.mark.parametrize(
    ("amount", "things", "said"),
    [
        (1, "CPUs", "1 CPU"),
        (1.0, "CPUs", "1 CPU"),
        (0, "jobs", "0 jobs"),
        (0.5, "CPUs", "0.5 CPUs"),
        (2_000_000, "jobs", "2000000 jobs"),
        (1, "MiB", "1 MiB"),
    ],
)
def test_amounts_are_told_with_their_noun(amount, things, said):
    assert units.counted(amount, things) == said
