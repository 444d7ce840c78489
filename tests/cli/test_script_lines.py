"""#ROTA lines: what they set, and that every mistake is told with file and line."""

import pytest

from rota.cli.submit.script_lines import read_lines, script_options
from rota.client.errors import ClientError


def options_of(text):
    return script_options(text, "job.sh").options


def test_rota_lines_take_the_options_of_the_command_line():
    options = options_of("#!/bin/bash\n#ROTA --name train --gpus 2\n#ROTA -m 16G --time 2h\ntrue\n")

    assert options == {"name": "train", "gpus": 2, "mem": 16_384, "time": 7200}


def test_quotes_and_comments_in_a_line_work_as_in_a_shell():
    options = options_of(
        "#ROTA --name 'a b#c' --env \"X=1 # 2\" --label k=v#1 # the rest is talk\n"
    )

    assert options["name"] == "a b#c"
    assert options["env"] == (("X", "1 # 2"),)
    assert options["label"] == (("k", "v#1"),)


def test_a_later_line_wins_and_repeatable_options_add_up():
    options = options_of("#ROTA --cpus 2 --env A=1\n#ROTA --cpus 4 --env B=2\n")

    assert options == {"cpus": 4000, "env": (("A", "1"), ("B", "2"))}


@pytest.mark.parametrize(
    ("text", "of_slurm"),
    [
        ("#!/bin/sh\n#SBATCH -n2\n#ROTA --cpus 4\n", True),
        ("#!/bin/sh\n#ROTA --cpus 4\n", False),
        ("#!/bin/sh\n#ROTA --cpus 4\ntrue\n#SBATCH -n2\n", False),
    ],
)
def test_a_script_with_lines_for_sbatch_is_known_as_one(text, of_slurm):
    found = script_options(text, "job.sh")

    assert found.options == {"cpus": 4000}
    assert found.of_slurm is of_slurm


def test_comments_that_only_look_like_option_lines_are_comments():
    lines, warnings = read_lines("# ROTA --hold\n#ROTAX --hold\n #ROTA --hold\n#rota --hold\n", "j")

    assert lines == []
    assert warnings == []


def test_an_option_line_after_the_first_command_is_not_read_and_is_warned_about():
    found = script_options("\n# talk\n#ROTA -c 1\ntrue\n#ROTA --hold\n", "job.sh")

    assert found.options == {"cpus": 1000}
    assert found.warnings == [
        "job.sh:5: #ROTA after the first command is not read; move it up",
    ]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("#ROTA --gpu 1", "no such option"),
        ("#ROTA --cpus four", "'four' is not valid"),
        ("#ROTA --cpus", "requires an argument"),
        ("#ROTA --name 'open", "no closing quotation"),
        ("#ROTA train.py", "got unexpected extra argument"),
        ("#ROTA --mem 4096", "would be bytes"),
        ("#ROTA --after-ok 12,,13", "is not valid"),
    ],
)
def test_a_mistake_in_a_line_is_told_with_file_and_line(line, words):
    with pytest.raises(ClientError, match=r"^job\.sh:2: ") as caught:
        options_of(f"#!/bin/sh\n{line}\n")

    assert words in str(caught.value)
