"""What a job hears before its time is over, deadlines that it can meet, and where it prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.journeys.box import until

if TYPE_CHECKING:
    from tests.journeys.box import Box

#: Prints what it hears, and ends with the last of it.
LISTENS = (
    "trap 'echo warned' USR2; trap 'echo saved; exit 0' USR1;"
    " trap 'echo told to end; exit 1' TERM; i=0;"
    " while [ $i -lt 1200 ]; do sleep 0.05; i=$((i+1)); done"
)


def test_the_checkpoint_signal_comes_at_the_time_limit_too(home: Box) -> None:
    job = home.job(["sh", "-c", LISTENS], time_limit_s=1, checkpoint_signal="USR1")

    ended = home.ended(job)

    assert (ended["state"], home.output(job)) == ("timeout", "saved\n")


def test_without_a_checkpoint_signal_the_limit_is_a_plain_end(home: Box) -> None:
    job = home.job(["sh", "-c", LISTENS], time_limit_s=1)

    assert home.ended(job)["state"] == "timeout"
    assert home.output(job) == "told to end\n"


def test_a_warning_comes_once_before_the_limit_and_the_job_goes_on(home: Box) -> None:
    job = home.submit("--time", "3s", "--signal", "USR2@2s", "--", "sh", "-c", LISTENS)

    ended = home.ended(job)

    assert (ended["state"], ended["warn_signal"], ended["warn_s"]) == ("timeout", "USR2", 2)
    assert home.output(job) == "warned\ntold to end\n"


def test_each_try_is_warned(home: Box) -> None:
    job = home.job(
        ["sh", "-c", LISTENS],
        **{"time_limit_s": 2, "warn_signal": "USR2", "warn_s": 1},
        **{"retries": 1, "retry_on": ["time_limit"], "backoff_s": 0},
    )

    ended = home.ended(job)

    assert len(ended["attempts"]) == 2
    assert home.output(job).startswith("warned\n")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--signal", "USR1@2m"], "it comes before a limit: give time_limit_s"),
        (["--signal", "USR1@soon", "--time", "5m"], "expected a signal and a time: USR1@5m"),
        (["--signal", "NOSUCH@1m", "--time", "5m"], "warn_signal: "),
        (
            ["--deadline", "now+1m", "--time", "2m"],
            "deadline_at: cannot be met: by its time limit the job takes 2m",
        ),
        (
            ["--deadline", "now+1h", "--estimate", "50m", "--begin", "now+30m"],
            "deadline_at: cannot be met: by its estimate the job takes 50m",
        ),
    ],
)
def test_what_cannot_be_is_refused_at_submit(home: Box, words: list[str], line: str) -> None:
    assert line in home.refusal("submit", *words, "--", "true")


def test_an_estimate_goes_before_the_limit_for_a_deadline(home: Box) -> None:
    words = ("--deadline", "now+1h", "--time", "2h", "--estimate", "30m")

    assert home.submit(*words, "--hold", "--", "true")


def test_a_deadline_that_passes_leaves_a_mark_and_the_job_goes_on(home: Box) -> None:
    job = home.submit("--deadline", "now+1s", "--", "sleep", "60")

    until(lambda: home.show(job)["deadline_missed_at"], "the mark")

    assert ", missed" in home.rota("show", str(job)).stdout
    home.rota("update", str(job), "--deadline", "now+1h")
    assert "missed" not in home.rota("show", str(job)).stdout
    assert home.state_of(job) == "running"


def test_folders_of_output_files_are_made(home: Box) -> None:
    job = home.submit("-o", "logs/%x/%j.txt", "--name", "deep", "--", "echo", "hello")

    assert home.ended(job)["state"] == "completed"
    assert home.read(f"logs/deep/{job}.txt") == "hello\n"
