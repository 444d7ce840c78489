"""What people expected of Rota in their first hours, from Slurm, ssh, submitit and the shell."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import rota
from tests.journeys.box import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.journeys.box import Box

DIES = """import os, time, pathlib
print("began")
while not pathlib.Path("go").exists():
    time.sleep(0.02)
print("about to die")
os.abort()
"""


def shell(home: Box, line: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """A line of bash in the work folder, with ``rota`` as people type it."""
    program = Path(sys.executable).parent
    return subprocess.run(
        ["bash", "-c", f"PATH={program}:$PATH\n{line}"],
        cwd=home.work,
        env=home.env,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_what_a_program_prints_is_seen_while_it_runs_and_although_it_dies(home: Box) -> None:
    (home.work / "t.py").write_text(DIES)
    job = home.submit("--", sys.executable, "t.py")

    until(lambda: home.output(job) == "began\n", "its first line while it runs")
    (home.work / "go").touch()
    home.ended(job)

    assert home.output(job) == "began\nabout to die\n"


@pytest.mark.parametrize("source", ["printf 'a\\nb\\nc\\n' |", "< lines", "< <(cat lines)"])
def test_a_loop_that_reads_lines_keeps_them_when_it_runs_jobs(home: Box, source: str) -> None:
    (home.work / "lines").write_text("a\nb\nc\n")
    before, after = (source, "") if source.endswith("|") else ("", source)

    done = shell(home, f"{before} while read x; do rota run -- echo got $x; done {after}")

    assert done.stdout == "got a\ngot b\ngot c\n"
    assert "--stdin - passes it on" in done.stderr


def test_a_script_from_standard_input_goes_on_behind_a_run(home: Box) -> None:
    done = shell(home, "bash", "rota run -- echo one\nrota run -- echo two\n")

    assert done.stdout == "one\ntwo\n"


def test_input_that_is_meant_for_the_job_still_reaches_it(home: Box) -> None:
    piped = shell(home, "printf 'b\\na\\n' | rota run -- sort; true")
    asked = shell(home, "rota run --stdin - -- sort; true", stdin="d\nc\n")

    assert (piped.stdout, asked.stdout) == ("a\nb\n", "c\nd\n")


def test_a_sweep_is_done_again_with_other_values_of_one_parameter(home: Box) -> None:
    first = home.submit("--param", "lr=1,2", "--param", "seed=7,8", "--", "echo", "{lr} {seed}")
    home.rota("wait", str(first))

    again = int(home.rota("redo", str(first), "--param", "lr=5").stdout)
    home.rota("wait", str(again))

    assert [home.output(f"{again}_{n}") for n in range(2)] == ["5 7\n", "5 8\n"]
    elements = home.api("GET", f"/jobs?array={again}&arrays=expand")[1]["items"]
    assert len(elements) == 2, "seeds are kept once each, and the values of lr are not"


def test_a_file_of_python_is_run_where_it_is_by_python(home: Box) -> None:
    (home.work / "model.py").write_text("NAME = 'net'\n")
    (home.work / "train.py").write_text(
        "#ROTA --name fit --cpus 2\nimport sys\nimport model\nprint(model.NAME, sys.argv)\n"
    )
    elsewhere = home.work / "elsewhere"
    elsewhere.mkdir()

    here = home.rota("run", "train.py", "a b").stdout
    job = home.submit("--workdir", str(elsewhere), "train.py")

    assert here == "net ['train.py', 'a b']\n"
    assert home.ended(job)["name"] == "fit"
    assert home.output(job) == f"net ['{home.work}/train.py']\n"
    assert home.show(job)["resources"]["cpus"] == 2


def test_a_python_file_for_sbatch_must_say_so_itself(home: Box) -> None:
    (home.work / "train.py").write_text("#SBATCH --time=1\nprint(1)\n")

    assert "put '#!/usr/bin/env python3' above them" in home.refusal("submit", "train.py")


def test_a_new_script_runs_as_it_was_written(home: Box) -> None:
    wrote = home.rota("new", "my job.sh").stdout

    job = home.submit("my job.sh")

    assert wrote == "wrote my job.sh; change it, then: rota submit 'my job.sh'\n"
    assert home.ended(job)["state"] == "completed"
    assert home.show(job)["name"] == "my job"
    assert home.output(job).startswith(f"job {job} on ")
    assert "my job.sh: file exists" in home.refusal("new", "my job.sh")


def test_a_handle_has_what_its_job_wrote_to_standard_error(home: Box) -> None:
    with rota.connect(f"unix://{home.state}/rota.sock") as cluster:
        job = cluster.submit(lambda: print("to nobody", file=sys.stderr))
        job.result(60)

        assert (job.stderr(), job.logs()) == ("to nobody\n", "")


def test_what_a_month_used_is_told_from_one_day_to_another(home: Box) -> None:
    home.ran(["sleep", "1"])

    today = home.rota("usage", "--since", "today", "--csv").stdout.splitlines()
    before = home.rota("usage", "--since", "30d", "--until", "1d", "--csv").stdout.splitlines()

    assert float(today[1].split(",")[3]) > 0
    assert float(before[1].split(",")[3]) == 0
    refused = home.refusal("usage", "--since", "1h", "--until", "2h")
    assert "a period begins before it ends" in refused


def test_lists_have_the_same_words_everywhere(home: Box) -> None:
    assert home.rota("node", "list", "-q").stdout == home.rota("nodes", "-q").stdout
    assert home.rota("quota", "list").stdout == home.rota("quota", "show").stdout
    assert home.rota("notify", "list").stdout == home.rota("notify").stdout
    made = home.rota("reserve", "add", "--gpus", "1", "--start", "tomorrow 9:00",
                     "--duration", "1h", "--user", "ann", "-q").stdout  # fmt: skip
    assert home.rota("reserve", "cancel", "-q", made.strip()).stdout == made


def test_an_option_without_its_value_takes_no_dashes_for_it(home: Box) -> None:
    assert "-n needs a value" in home.refusal("run", "-n", "--", "true")
    assert "--queue needs a value" in home.refusal("submit", "--queue", "--", "true")


def test_a_program_that_finds_no_rota_ends_in_one_short_error(tmp_path: Path) -> None:
    program = "import rota\nrota.connect().submit(print)"
    environment = {"HOME": str(tmp_path), "ROTA_STATE_DIR": str(tmp_path)}

    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )

    *frames, said = done.stderr.splitlines()
    assert said.startswith("rota.client.errors.NobodyThere: rota is not running here: start it")
    assert sum("File " in frame for frame in frames) == 2, "ours, and where we were told"


def test_a_head_without_nodes_is_told_how_one_joins(new_box: Callable[..., Box]) -> None:
    head = new_box()
    head.up("--no-agent")

    told = head.rota("doctor", check=False).stdout

    assert "fail  agent         no node has joined yet; 'rota token create --join' here" in told


def test_ports_of_a_job_that_has_ended_are_gone_with_it(home: Box) -> None:
    ended = home.ran(["true"])["id"]

    said = home.refusal("forward", str(ended), "8888")

    assert said == f"rota: job {ended} has ended (completed), and its ports with it"
