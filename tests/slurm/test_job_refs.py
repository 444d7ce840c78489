"""References to jobs as people and programs write them."""

import pytest

from rota.slurm.records.job_refs import JobRef, parse_ref


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
