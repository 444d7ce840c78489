"""Every command explains its options, one line each, and names them all in its usage."""

import importlib

import pytest

from rota.slurm.call.command import PROGRAMS
from rota.slurm.call.getopt import OptionEntry, OptionTable
from rota.slurm.orders.options import SHEETS
from tests.slurm.cluster import Cluster

#: Those of the table of options have tests of their own; slurmstepd is no command.
COMMANDS = [name for name in PROGRAMS if name not in (*SHEETS, "slurmstepd")]


def entries_of(program: str) -> list[OptionEntry]:
    module = importlib.import_module(PROGRAMS[program].partition(":")[0])
    table = module.OPTIONS
    assert isinstance(table, OptionTable)
    return table.entries


@pytest.mark.parametrize("program", COMMANDS)
def test_help_explains_each_option_and_usage_names_it(program: str, cluster: Cluster) -> None:
    explained = cluster.text(program, "--help").splitlines()
    named = cluster.text(program, "--usage")

    for entry in entries_of(program):
        dashes = "--" if len(entry.names[0]) > 1 else "-"
        assert entry.says, entry
        assert any(
            f"{dashes}{entry.names[0]}" in line and line.endswith(entry.says) for line in explained
        )
        assert f"[{dashes}{entry.names[0]}{entry.takes}]" in named


def test_scancel_of_a_workload_key_leaves_jobs_of_others_alone(cluster: Cluster) -> None:
    mine = cluster.submit("-H", "--wckey=mine")
    other = cluster.submit("-H", "--wckey=other")

    answer = cluster.run("scancel", "--wckey=mine", "-u", "alice")

    assert answer.code == 0
    assert mine not in cluster.server.host.cluster.jobs
    assert other in cluster.server.host.cluster.jobs
