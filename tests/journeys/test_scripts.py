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
    assert (home.work / f"slurm-{job}.out").read_text() == f"{job} 2 0\n"


def test_options_of_rota_win_over_sbatch_lines_in_the_script_and_on_the_command_line(
    home: Box,
) -> None:
    (home.work / "both.sh").write_text(
        "#!/bin/sh\n"
        "#SBATCH --ntasks=2 --gres=gpu:1 --comment=old\n"
        "#ROTA --label kind=both --time 5m\n"
        'echo "$SLURM_NTASKS $1 $MOOD"\n'
    )

    job = home.submit("--name", "mine", "--env", "MOOD=good", "both.sh", "word")

    ended = home.ended(job)
    assert home.output(job) == "2 word good\n"
    assert (ended["name"], ended["time_limit_s"]) == ("mine", 300)
    assert ended["labels"]["kind"] == "both"


def test_a_script_of_slurm_is_planned_and_run_the_same_way(home: Box) -> None:
    (home.work / "tune.sh").write_text("#!/bin/sh\n#SBATCH -n2 --switches=1\necho tuned\n")
    (home.work / "many.sh").write_text("#!/bin/sh\n#SBATCH -a 1-3\ntrue\n")

    planned = home.rota("plan", "tune.sh").stdout
    done = home.rota("run", "tune.sh")

    assert "now" in planned
    assert done.stdout == "tuned\n"
    assert "--switches has no effect here" in done.stderr
    assert "makes an array" in home.refusal("run", "many.sh")


def test_what_sbatch_refuses_is_refused_in_its_words(home: Box) -> None:
    (home.work / "bad.sh").write_text("#!/bin/sh\n#SBATCH --nosuch=1\ntrue\n")

    line = home.refusal("submit", "bad.sh")

    assert "sbatch: unrecognized option '--nosuch=1'" in line


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
