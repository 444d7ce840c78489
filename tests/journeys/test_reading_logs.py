"""What jobs printed, as people read it: both streams as one, whole sweeps, and how jobs failed."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.journeys.box import Box

ALTERNATING = "echo a; echo b >&2; echo c; sleep 0.2; echo d >&2; sleep 0.2; echo e"


def test_logs_show_both_streams_in_the_order_of_writing(home: Box) -> None:
    job = str(home.ran(ALTERNATING)["id"])

    assert home.rota("logs", job).stdout == "a\nb\nc\nd\ne\n"
    assert home.rota("logs", job, "--tail", "2").stdout == "d\ne\n"
    assert home.rota("logs", job, "--stdout").stdout == "a\nc\ne\n"
    assert home.rota("logs", job, "--stderr").stdout == "b\nd\n"
    assert home.rota("logs", "-f", job).stdout == "a\nb\nc\nd\ne\n"


def test_files_that_a_job_chose_are_shown_one_after_the_other(home: Box) -> None:
    chosen = {"output": "out.txt", "error": "err.txt"}
    job = str(home.ran("echo 1 >&2; echo 2; echo 3 >&2", **chosen)["id"])
    same = str(home.ran("echo 1 >&2; echo 2", output="one.txt", error="one.txt")["id"])

    assert home.rota("logs", job).stdout == "2\n1\n3\n"
    assert home.rota("logs", same).stdout == "1\n2\n"


def test_a_search_looks_into_both_streams(home: Box) -> None:
    job = str(home.ran("echo found out; echo other; echo found err >&2")["id"])

    both = home.rota("logs", job, "--search", "found")

    assert both.stdout == "found out\nfound err\n"
    assert home.rota("logs", job, "--search", "found", "--limit", "1").stdout == "found out\n"


def test_a_following_reader_sees_standard_error_while_the_job_runs(home: Box) -> None:
    job = home.job("echo early >&2; while [ ! -e go ]; do sleep 0.02; done; echo late")
    following = subprocess.Popen(
        [sys.executable, "-m", "rota.cli.main", "logs", "-f", str(job)],
        cwd=home.work,
        env=home.env,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert following.stdout is not None

    first = following.stdout.readline()
    (home.work / "go").touch()
    rest, _ = following.communicate(timeout=60)

    assert (first, rest) == ("early\n", "late\n")


def sweep(home: Box) -> int:
    """Four elements; 1 and 3 fail alike, 2 in its own way."""
    command = "echo start $ROTA_ARRAY_INDEX; case $ROTA_ARRAY_INDEX in 0) ;; 2) exit 7;; "
    command += "*) echo out of luck >&2; exit 3;; esac"
    array = home.job(command, array="0-3")
    home.rota("wait", str(array), check=False)
    return array


def test_the_logs_of_a_sweep_name_the_element_of_each_line(home: Box) -> None:
    array = sweep(home)

    everything = home.rota("logs", str(array)).stdout.splitlines()
    failed = home.rota("logs", str(array), "--failed", "--stderr").stdout.splitlines()
    followed = home.rota("logs", "-f", str(array)).stdout.splitlines()

    assert everything[:3] == [
        f"{array}_0: start 0",
        f"{array}_1: start 1",
        f"{array}_1: out of luck",
    ]
    assert failed == [f"{array}_1: out of luck", f"{array}_3: out of luck"]
    assert sorted(followed) == sorted(everything)
    assert "--failed is for arrays" in home.refusal("logs", f"{array}_1", "--failed")


def test_why_of_a_failed_sweep_groups_its_elements_by_cause(home: Box) -> None:
    array = sweep(home)

    told = home.rota("why", str(array)).stdout
    shown = home.rota("show", str(array)).stdout
    data = json.loads(home.rota("why", str(array), "--json").stdout)["failures"]

    assert f"{array} failed: 4 elements have ended: 1 completed, 3 failed" in told
    for text in (told, shown):
        assert "2 failed: exit code 3: elements 1,3" in text
        assert f"{array}_1 | out of luck" in text
        assert f"1 failed: exit code 7: {array}_2" in text
    assert [(one["count"], one["indices"], one["first"]) for one in data] == [
        (2, "1,3", f"{array}_1"),
        (1, "2", f"{array}_2"),
    ]


def test_why_of_a_failed_job_ends_with_its_command_and_last_lines(home: Box) -> None:
    job = home.ran(["python3", "-c", "import foo_bar"])["id"]

    told = home.rota("why", str(job)).stdout.splitlines()

    raised = "ModuleNotFoundError: No module named 'foo_bar'"
    assert told[0] == f"{job} failed: {raised} (exit code 1)"
    assert told[1] == "  command: python3 -c 'import foo_bar'"
    assert told[-1] == f"  | {raised}"


def test_why_of_a_python_function_names_its_exception(home: Box) -> None:
    program = home.work / "fails.py"
    program.write_text(
        "import rota\n"
        "def train(rate):\n    raise ValueError(f'rate {rate} is too high')\n"
        "with rota.connect() as cluster:\n"
        "    job = cluster.submit(train, 3)\n    print(job.id)\n    job.exception()\n"
    )

    done = subprocess.run(
        [sys.executable, str(program)], env=home.env, capture_output=True, text=True, check=True
    )
    told = home.rota("why", done.stdout.strip()).stdout.splitlines()

    assert "failed: ValueError: rate 3 is too high (exit code 1)" in told[0]
    assert told[1] == "  command: the Python function train"
