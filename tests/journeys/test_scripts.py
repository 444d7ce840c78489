"""Scripts: as submitted, with options in their lines, behaving as they do in a shell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.journeys.box import Box

#: What is run -> what it prints and its exit code, as ``sh file`` would have it.
ODD_SCRIPTS = {
    "exit 3": ("exit 3", "", 3),
    "a trailing comment": ("echo one # two", "one\n", 0),
    "a trailing ampersand": ("echo one > file & wait; cat file; sleep 0 &", "one\n", 0),
    "quotes": ("""echo "it's" 'a "b"' \\$HOME""", 'it\'s a "b" $HOME\n', 0),
    "no newline": ("printf abc", "abc", 0),
    "a last line with a comment": ("echo a\n# the end", "a\n", 0),
    "unicode": ("echo 'naïve 漢字 🚀'", "naïve 漢字 🚀\n", 0),
    "a here document": ("cat <<END\n$((1+1))\nEND", "2\n", 0),
    "several lines": ("cd /\npwd\nfalse\necho $?", "/\n1\n", 0),
    "an unknown command at the end": ("echo a\nno-such-command 2>/dev/null", "a\n", 127),
}


@pytest.mark.parametrize("how", ["line", "script"])
@pytest.mark.parametrize("what", ODD_SCRIPTS)
def test_odd_scripts_and_lines_behave_as_in_a_shell(home: Box, what: str, how: str) -> None:
    text, printed, code = ODD_SCRIPTS[what]

    job = home.ran(text) if how == "line" else home.ran(script=text)

    assert (home.output(job["id"]), job["exit_code"]) == (printed, code)


@pytest.mark.parametrize("how", ["line", "script"])
def test_a_line_of_two_megabytes_is_run_whole(home: Box, how: str) -> None:
    text = "x='" + "y" * 2_000_000 + "'; echo ${#x}"

    job = home.ran(text) if how == "line" else home.ran(script=text)

    assert home.output(job["id"]) == "2000000\n"


def test_arguments_keep_their_quoting_exactly(home: Box) -> None:
    words = ["a  b", "$HOME", "*", "it's", '"', "back\\slash", "", "new\nline", "漢字", "--name"]

    done = home.rota("run", "--", "printf", "<%s>", *words)

    assert done.stdout == "".join(f"<{word}>" for word in words)


def test_a_script_with_rota_lines_takes_their_options_and_the_command_line_wins(home: Box) -> None:
    (home.work / "train.sh").write_text(
        "#!/bin/bash\n"
        "#ROTA --name train --cpus 2 --time 1h\n"
        "#ROTA --env 'GREETING=good day' --label kind=test\n"
        'echo "$GREETING $1 $ROTA_CPUS $ROTA_JOB_NAME"\n'
    )

    job = home.submit("--cpus", "3", "train.sh", "sir")

    ended = home.ended(job)
    assert home.output(job) == "good day sir 3 train\n"
    assert (ended["time_limit_s"], ended["labels"]) == (3600, {"kind": "test"})


def test_a_slurm_script_runs_with_its_sbatch_lines(home: Box) -> None:
    (home.work / "old.sh").write_text(
        "#!/bin/sh\n"
        "#SBATCH --job-name=old\n"
        "#SBATCH -c 2 -t 0:10:00\n"
        "#SBATCH --gres=gpu:a100:1\n"
        'echo "$SLURM_JOB_ID $SLURM_CPUS_PER_TASK $CUDA_VISIBLE_DEVICES"\n'
    )

    job = home.submit("old.sh")

    ended = home.ended(job)
    assert home.output(job) == f"{job} 2 0\n"
    assert (ended["name"], ended["time_limit_s"]) == ("old", 600)


def test_an_unknown_option_in_a_script_is_refused_with_its_line(home: Box) -> None:
    (home.work / "typo.sh").write_text("#!/bin/sh\n#ROTA --cpus 1\n#ROTA --gpuz 2\ntrue\n")

    line = home.refusal("submit", "typo.sh")

    assert "typo.sh:3" in line
    assert "--gpus" in line, "it suggests the near one"


def test_a_script_from_standard_input_is_stored_as_submitted(home: Box) -> None:
    text = "#ROTA --name piped\necho from stdin"

    job = home.submit("-", stdin=text)

    ended = home.ended(job)
    assert (ended["name"], home.output(job)) == ("piped", "from stdin\n")
    _, request = home.api("GET", f"/jobs/{job}/request")
    assert request["script"] == text


def test_a_python_script_runs_by_its_first_line(home: Box) -> None:
    (home.work / "job.py").write_text("#!/usr/bin/env python3\nimport sys\nprint(sys.argv[1:])\n")

    assert home.rota("run", "job.py", "a b", "c").stdout == "['a b', 'c']\n"


def test_a_dry_run_prints_the_request_and_submits_nothing(home: Box) -> None:
    before = home.status()["jobs"]

    shown = home.rota("submit", "--dry-run", "--cpus", "2", "--", "echo", "a b").stdout

    assert '"a b"' in shown
    assert home.status()["jobs"] == before
