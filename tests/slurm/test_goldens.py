"""The comparison with recorded output notices what it is there to notice."""

import pytest

from tests.slurm.goldens import (
    Golden,
    compare_blocks,
    compare_json,
    compare_tables,
    differences,
)

TABLE = "  JOBID NAME     ST\n     12 first    PD\n      7 second    R\n"


def golden(command: str, stdout: str = "", stderr: str = "", code: int = 0) -> Golden:
    return Golden("made_up", command, "root", stdout, stderr, code)


def test_other_values_are_no_difference():
    ours = "  JOBID NAME     ST\n 123456 a        CG\n"

    assert compare_tables(TABLE, ours) == []


@pytest.mark.parametrize(
    "ours",
    [
        "  JOBID NAME    ST\n     12 first   PD\n",
        "  JOBID NAME     ST\n",
        "  JOBID NAME     ST\n12      first    PD\n",
        "  JOBID NAME     ST\n     12    first PD\n",
    ],
)
def test_another_header_a_missing_row_and_another_side_are_differences(ours: str):
    assert compare_tables(TABLE, ours)


def test_delimiters_are_counted_and_lines_without_a_header_have_as_many_words():
    assert compare_tables("A|B\n1|2\n", "A|B\n1|2|3\n")
    assert compare_tables("a b c\n", "a b\n", headless=True)
    assert compare_tables("a b c\n", "d e f\n", headless=True) == []


def test_a_key_that_is_missing_or_on_another_line_is_a_difference():
    block = "JobId=1 Name=x\n   State=RUNNING\n"

    assert compare_blocks(block, "JobId=2 Name=y\n   State=PENDING\n") == []
    assert compare_blocks(block, "JobId=2\n   Name=y State=PENDING\n")
    assert compare_blocks(block, "JobId=2 Name=y\n")


def test_json_has_the_same_keys_in_the_same_order_and_kinds():
    recorded = '{"errors": [], "jobs": [{"id": 1, "name": "x", "nice": null}]}'

    assert (
        compare_json(recorded, '{"errors": [], "jobs": [{"id": 2, "name": "", "nice": 5}]}') == []
    )
    assert compare_json(recorded, '{"errors": [], "jobs": [{"name": "", "id": 2, "nice": 5}]}')
    assert compare_json(recorded, '{"errors": [], "jobs": [{"id": "2", "name": "", "nice": 5}]}')
    assert compare_json(recorded, '{"errors": [], "jobs": []}')
    assert compare_json(recorded, "no JSON")


def test_exit_codes_and_stderr_count_but_for_numbers():
    call = golden("squeue -j 999999", stderr="error: job 999999\n", code=1)

    assert differences(call, "", "error: job 7\n", 1) == []
    assert differences(call, "", "error: job 7\n", 0)
    assert differences(call, "", "error: Job 7\n", 1)
