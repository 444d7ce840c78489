"""#ROTA and #SBATCH lines: what they set, and that every mistake is told with file and line."""

import pytest

from rota.cli.submit.sbatch_lines import slurm_time_s, translate
from rota.cli.submit.script_lines import read_lines, script_options
from rota.client.errors import ClientError


def options_of(text):
    return script_options(text, "job.sh", translate).options


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


def test_rota_lines_win_over_sbatch_lines_whatever_their_order():
    options = options_of("#ROTA --cpus 4\n#SBATCH --cpus-per-task=2 --job-name=s\n")

    assert options == {"cpus": 4000, "name": "s"}


def test_comments_that_only_look_like_option_lines_are_comments():
    lines, warnings = read_lines("# ROTA --hold\n#ROTAX --hold\n #ROTA --hold\n#rota --hold\n", "j")

    assert lines == []
    assert warnings == []


def test_an_option_line_after_the_first_command_is_not_read_and_is_warned_about():
    found = script_options("\n# talk\n#ROTA -c 1\ntrue\n#ROTA --hold\n", "job.sh", translate)

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
        ("#SBATCH --licenses=a", "does not know this #SBATCH option"),
        ("#SBATCH -L a", "does not know this #SBATCH option"),
        ("#SBATCH --nodes=2-4", "exactly so many nodes"),
        ("#SBATCH --constraint=[a|b]", "for alternatives give labels"),
        ("#SBATCH --qos=gold", "Rota knows guaranteed"),
        ("#SBATCH --exclude=n[3-1]", "expected numbers such as"),
        ("#SBATCH --gres=license:1", "gpu[:TYPE][:NUMBER]"),
        ("#SBATCH --gres=gpu:a:b:1", "expected [TYPE:]NUMBER"),
        ("#SBATCH --time=soon", "expected minutes"),
        ("#SBATCH --dependency=singleton", "expected after"),
        ("#SBATCH --mem=lots", "'lots' is not valid"),
        ("#SBATCH train.py", "is not an option"),
    ],
)
def test_a_mistake_in_a_line_is_told_with_file_and_line(line, words):
    with pytest.raises(ClientError, match=r"^job\.sh:2: ") as caught:
        options_of(f"#!/bin/sh\n{line}\n")

    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("-J train", {"name": "train"}),
        ("-Jtrain", {"name": "train"}),
        ("--job-name=train", {"name": "train"}),
        ("--time=30", {"time": 1800}),
        ("-t 1-0", {"time": 86_400}),
        ("--time=UNLIMITED", {"time": 0}),
        ("-c4", {"cpus": 4000}),
        ("--mem=4096", {"mem": 4096}),
        ("--mem=4G", {"mem": 4096}),
        ("--mem=0", {"mem": 0}),
        ("--mem-per-cpu=2G", {"mem_per_cpu": 2048}),
        ("--gres=gpu", {"gpus": 1}),
        ("--gres=gpu:4", {"gpus": 4}),
        ("--gres=gpu:a100:4", {"gpus": 4, "gpu_type": "a100"}),
        ("--gpus=a100:2", {"gpus": 2, "gpu_type": "a100"}),
        ("-G 2", {"gpus": 2}),
        ("-a 0-99%4", {"array": "0-99%4"}),
        ("-o out-%j.txt -e err-%A_%a.txt", {"output": "out-%j.txt", "error": "err-%A_%a.txt"}),
        ("-p gpu -A lab", {"queue": "gpu", "project": "lab"}),
        ("-n 8", {"tasks": 8}),
        ("-D /data", {"workdir": "/data"}),
        ("--hold", {"hold": True}),
        ("-N 2 --ntasks-per-node=4", {"nodes": 2, "tasks_per_node": 4}),
        ("--nodes=2-2 --exclusive", {"nodes": 2, "exclusive": True}),
        ("-C intel&ssd", {"constraint": ("intel&ssd",)}),
        ("-w n[1-2],x -x n3", {"nodelist": (("n1", "n2", "x"),), "exclude": (("n3",),)}),
        ("--qos=best_effort", {"qos": "best-effort"}),
        ("-q urgent", {"priority": 80}),
        ("--requeue", {"retries": 1, "retry_on": (("node_lost",),)}),
        ("-d afterok:1:2,afterany:3", {"after_ok": (("1",), ("2",)), "after_any": (("3",),)}),
        ("-d afterok:1?afternotok:2",
         {"any_of": True, "after_ok": (("1",),), "after_not_ok": (("2",),)}),
        ("-d aftercorr:7", {"after_ok": (("7_*",),)}),
        ("--export=NONE", {"no_env": True}),
        ("--export=ALL,X=1", {"env": (("X", "1"),)}),
    ],
)  # fmt: skip
def test_sbatch_options_mean_the_same_in_our_words(line, options):
    assert options_of(f"#SBATCH {line}\n") == options


def test_an_sbatch_option_that_changes_nothing_is_taken_with_a_warning():
    found = script_options("#SBATCH --mail-type=END --comment=x\n", "job.sh", translate)

    assert found.options == {}
    assert found.warnings == [
        "job.sh:1: --mail-type has no effect in Rota",
        "job.sh:1: --comment has no effect in Rota",
    ]


@pytest.mark.parametrize(
    ("text", "length_s"),
    [
        ("10", 600),
        ("10:30", 630),
        ("1:00:00", 3600),
        ("2-3", 183_600),
        ("2-3:30", 185_400),
        ("2-3:30:15", 185_415),
        ("infinite", 0),
    ],
)
def test_slurm_times_are_read_in_slurms_way(text, length_s):
    assert slurm_time_s(text) == length_s
