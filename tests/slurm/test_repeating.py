"""``-i``: a listing that is printed again and again."""

import signal
import subprocess

import pytest

from tests.slurm.real import Slurm

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("program", ["squeue", "sinfo"])
def test_a_listing_is_repeated_under_its_date_until_it_is_interrupted(
    either: Slurm, program: str
) -> None:
    process = subprocess.Popen(
        [program, "-i", "1"], env=either.env, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    rounds = [[], []]

    for lines in rounds:
        while not lines or lines[-1] != "\n":
            lines.append(process.stdout.readline())
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)

    (first, *once), (second, *again) = rounds
    assert first != second
    assert {len(first.split()), len(second.split())} == {5}
    assert once[0] == again[0] == either.text(program).splitlines(keepends=True)[0]
    assert process.returncode in (-signal.SIGINT, 130)


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("squeue", "squeue: error: --iterate=0\n\n"),
        ("sinfo", "sinfo: error: Error: invalid entry for --iterate=0\n"),
    ],
)
def test_a_pause_that_is_no_number_of_seconds_is_refused(
    slurm: Slurm, program: str, said: str
) -> None:
    done = slurm.run(program, "-i", "0")

    assert (done.returncode, done.stdout, done.stderr) == (1, "", said)
