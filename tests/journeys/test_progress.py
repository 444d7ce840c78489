"""How far jobs of any kind say they are: said inside, seen in lists, over time and afterwards."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tests.journeys.box import until

if TYPE_CHECKING:
    from tests.journeys.box import Box

ROTA = f"{sys.executable} -m rota.cli.main"
WAITS = "while [ ! -e {0} ]; do sleep 0.05; done"


def test_a_shell_line_says_how_far_it_is_and_what_it_said_stays(home: Box) -> None:
    go = home.work / "go"
    line = (
        f"{ROTA} progress 0.1 loss=2.5; {ROTA} progress 0.4 loss=0.25 lr=1e-3 --message 'epoch 19'"
        f"; {WAITS.format(go)}; {ROTA} progress 1"
    )
    job = home.job(["sh", "-c", line])
    until(lambda: "40% epoch 19" in home.rota("queue").stdout, "a column that says how far it is")

    shown = home.rota("show", str(job)).stdout
    go.touch()
    home.reach(job, "completed")
    said = home.api("GET", f"/jobs/{job}/progress")[1]
    few = home.api("GET", f"/jobs/{job}/progress?points=2")[1]

    assert "loss=0.25 lr=0.001" in shown
    assert said["fraction"] == [0.1, 0.4, 1.0]
    assert said["figures"] == {"loss": [2.5, 0.25, None], "lr": [None, 0.001, None]}
    assert (said["attempt"], said["task"], said["note"], said["message"]) == (1, 0, "", "")
    assert said["at"] == sorted(said["at"])
    assert few["fraction"] == [0.1, 1.0]
    assert home.api("GET", f"/jobs/{job}/progress?task=1")[0] == 404


def test_each_task_and_each_try_speaks_for_itself(home: Box) -> None:
    line = (
        f"test $ROTA_ATTEMPT != 1 || {{ {ROTA} progress 0.9; exit 3; }};"
        f" {ROTA} progress 0.$ROTA_TASK_INDEX$ROTA_ATTEMPT"
    )
    job = home.job(["sh", "-c", line], tasks=2, retries=1, backoff_s=0)
    home.reach(job, "completed")

    said = [home.api("GET", f"/jobs/{job}/progress?task={task}")[1] for task in (0, 1)]

    assert [(one["attempt"], one["fraction"]) for one in said] == [(2, [0.02]), (2, [0.12])]


def test_what_a_job_writes_there_itself_is_taken_for_no_more_than_it_is(home: Box) -> None:
    good = '{"fraction": 0.5, "at_s": \'$(date +%s)\', "loss": 1, "big": 1e308, "no": true}'
    bad = ("nonsense", '{"fraction": 7, "at_s": 1}', '{"fraction": 0.1, "at_s": "x"}', "[1]")
    words = "; ".join(f"echo '{word}' >> $ROTA_PROGRESS_FILE" for word in (bad[0], good, *bad[1:]))
    flood = "head -c 3000000 /dev/zero | tr '\\\\0' x > $ROTA_PROGRESS_FILE"
    job = home.ran(["sh", "-c", f"sleep 1; {words}"])["id"]
    flooded = home.ran(["sh", "-c", f"sleep 1; {flood}; {words}"])["id"]
    piped = home.ran(["sh", "-c", "mkfifo $ROTA_PROGRESS_FILE"])["id"]

    said, piped_said = (home.api("GET", f"/jobs/{one}/progress")[1] for one in (job, piped))

    assert said["fraction"] == [0.5]
    assert said["figures"] == {"loss": [1.0]}
    assert home.api("GET", f"/jobs/{flooded}/progress")[1]["fraction"] == [0.5]
    assert piped_said["fraction"] == []


def test_what_cannot_be_meant_is_refused_where_it_is_said(home: Box) -> None:
    inside = {"ROTA_JOB_ID": "7", "ROTA_PROGRESS_FILE": str(home.work / "said")}

    def refused(*words: str) -> str:
        done = home.rota("progress", *words, env=inside, check=False)
        assert done.returncode == 2
        return done.stderr

    assert "0.0<=x<=1.0" in refused("40")
    for word in ("loss", "loss=", "loss=high", "loss=nan", "1=2", "fraction=0.4", "a b=1"):
        assert "expected NAME=NUMBER" in refused("0.4", word)
    assert "too many" in refused("0.4", *(f"f{number}=1" for number in range(17)))
    assert "at most 200 characters" in refused("0.4", "-m", "x" * 201)
    assert not (home.work / "said").exists()
    outside = home.rota("progress", "0.4", check=False)
    assert (outside.returncode, "not inside a job" in outside.stderr) == (2, True)
    nowhere = home.rota("progress", "0.4", env={"ROTA_JOB_ID": "7"}, check=False)
    assert (nowhere.returncode, "no place for it" in nowhere.stderr) == (2, True)
