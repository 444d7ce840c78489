"""Whatever stands behind an option of a showing command, the answer is in Slurm's manner."""

import importlib

import pytest

from rota.slurm.call.command import PROGRAMS
from rota.slurm.call.getopt import OptionEntry
from tests.slurm.cluster import Cluster

SHOWING = ("squeue", "sinfo", "sacct", "sprio", "sshare", "sdiag", "sstat")
VALUES = ("", "x", "1", "0-1,3", "-1", "root", "all", ",", "%", "n[1-", "2026-11-19T00:00", "1_1")


def entries(program: str) -> list[OptionEntry]:
    module = importlib.import_module(PROGRAMS[program].partition(":")[0])
    return [entry for entry in module.OPTIONS.entries if entry.names[0] != "iterate"]


def typed(entry: OptionEntry, value: str) -> str:
    name = entry.names[0]
    if len(name) == 1:
        return f"-{name}{value if entry.takes else ''}"
    return f"--{name}={value}" if entry.takes else f"--{name}"


@pytest.mark.slow
@pytest.mark.parametrize("program", SHOWING)
def test_no_value_of_an_option_ends_in_an_error_of_ours(program: str, cluster: Cluster) -> None:
    jobs = [cluster.submit("-H", "-J", name, *more) for name, more in JOBS.items()]

    said = {
        word: cluster.run(program, word).stderr
        for entry in entries(program)
        for word in (typed(entry, value) for value in (VALUES if entry.takes else ("",)))
    }

    assert {word: text for word, text in said.items() if "internal error" in text} == {}
    cluster.text("scancel", *map(str, jobs))


#: Name -> how it was submitted.
JOBS = {
    "plain": (),
    "many": ("-a", "0-3%2", "-n2"),
    "picky": ("-w", "n2", "--mem=100", "--gres=gpu:1", "-d", "singleton"),
}
