"""References to jobs as people and programs write them."""

import time

import pytest

from rota.slurm.records.job_refs import JobRef, RefIndex, parse_ref, split_refs
from rota.slurm.records.records import JobRecord


@pytest.mark.parametrize(
    ("text", "ref"),
    [
        ("12", JobRef(12)),
        ("8_3", JobRef(8, frozenset({3}))),
        ("8_[1-3,7]", JobRef(8, frozenset({1, 2, 3, 7}))),
        ("8_[0-6:2%4]", JobRef(8, frozenset({0, 2, 4, 6}))),
        ("61+1", JobRef(61, None, 1)),
        ("12.batch", JobRef(12, None, None, "batch")),
    ],
)
def test_each_form_of_a_reference_is_read(text: str, ref: JobRef):
    assert parse_ref(text) == ref


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "8_[3",
        "1_0_3",
        "\u0661\u0662",
        "8_[\u0663]",
        "8_[1-3:0]",
        "9" * 5000,
        f"8_[{'9' * 5000}]",
        f"8_[1-{'9' * 5000}]",
        f"8_[1-3:{'9' * 5000}]",
        f"12.{'9' * 5000}",
    ],
    ids=lambda text: text[:12],
)
def test_what_no_job_is_called_is_no_reference(text: str):
    assert parse_ref(text) is None


def test_a_list_is_cut_at_commas_and_blanks_outside_brackets():
    assert list(split_refs("12,8_[1,2-3] 9.batch,,\n61+1,")) == [
        "12",
        "8_[1,2-3]",
        "9.batch",
        "61+1",
    ]


@pytest.mark.parametrize("word", [",", "1,", "[", "1_[0,", "] ", "a[b],"])
def test_a_list_of_any_form_is_cut_in_no_time(word: str):
    began_s = time.process_time()

    list(split_refs(word * (128 * 1024 // len(word))))

    assert time.process_time() - began_s < 1.0


def record_of(job: int, array: int, index: int | None, het: int, offset: int) -> JobRecord:
    """A record that has numbers, and else nothing."""
    words = dict.fromkeys(("name", "user", "group", "account", "partition"), "x")
    more = dict.fromkeys(("qos", "state", "reason"), "x")
    return JobRecord(
        job_id=job, array_id=array, array_index=index, het_id=het, het_offset=offset,
        uid=0, gid=0, priority=0, **words, **more,
    )  # fmt: skip


def test_many_references_name_what_one_of_them_does():
    texts = ["12", "8_3", "8_[5,6]", "61+1", "9_2", "9", "12", "40"]
    refs = [ref for ref in map(parse_ref, texts) if ref is not None]
    records = [
        record_of(job, array, index, het, offset)
        for job, array, index in [(12, 0, None), (8, 8, 3), (90, 8, 5), (91, 8, 7), (92, 9, 1)]
        for het, offset in [(0, 0), (61, 1), (61, 2), (40, 0)]
    ]

    named = [RefIndex(refs).names(record) for record in records]

    assert named == [any(ref.names(record) for ref in refs) for record in records]
    assert sorted(ref.id for ref in RefIndex(refs)) == [8, 9, 12, 40, 61]
