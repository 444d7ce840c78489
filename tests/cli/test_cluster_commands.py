"""``rota clusters``, ``rota vdc`` and ``rota usage --cost``: what they send and print."""

import csv
import io

import pytest

from rota.cli.cluster.clusters import cluster_table
from rota.cli.cluster.usage import cost_csv, cost_table
from rota.cli.rules.vdc import body_of, vdc_table
from rota.client.errors import ClientError

AMOUNT = {"cpus": 8.0, "memory_mb": 100, "disk_mb": 0, "gpus": 2}
PERIOD = {"cpu_hours": 4.0, "memory_gb_hours": 1.0, "gpu_hours": 2.0, "cost": 12.5}
USE = {
    "currency": "EUR",
    "items": [{"user": "ada", "project": "vision", "attempts": 3, "period": PERIOD}],
    "budgets": [
        {
            "kind": "project", "name": "vision", "hard": 100.0, "soft": None,
            "period_s": 2592000, "spent": 98.2,
        }
    ],
}  # fmt: skip
NOTHING = dict.fromkeys(
    (
        *("clusters", "strategy", "preferred", "label", "jobs", "cpus", "mem", "gpus"),
        *("overcommit", "max_per_user"),
    )
)


def test_a_cluster_is_a_line_with_its_state_and_since_when():
    cluster = {
        "name": "hpc", "state": "away", "since": "2026-11-15T14:02:00Z", "note": "no answer",
        "engines": ["slurm-a"], "nodes": 2, "ready": 0, "total": AMOUNT, "free": AMOUNT,
        "running": 3, "waiting": 1,
    }  # fmt: skip

    head, line = cluster_table([cluster])

    assert head.split()[:3] == ["CLUSTER", "STATE", "NODES"]
    assert line.split()[:3] == ["hpc", "away", "0/2"]
    assert "slurm-a" in line
    assert "no answer" in line


def test_options_of_a_virtual_data_centre_become_its_body():
    given = NOTHING | {
        "clusters": ("hpc:2:60", "local"),
        "strategy": "weight",
        "label": (("disk", "ssd"),),
        "mem": "2g",
        "gpus": 4.0,
        "max_per_user": 0,
    }

    assert body_of(given) == {
        "clusters": [{"name": "hpc", "weight": 2.0, "priority": 60}, {"name": "local"}],
        "strategy": "weight",
        "labels": {"disk": "ssd"},
        "limits": {"gpus": 4.0, "memory_mb": 2048},
        "max_per_user": 0,
    }
    with pytest.raises(ClientError, match="NAME:WEIGHT"):
        body_of(NOTHING | {"clusters": ("hpc:heavy",)})


def test_a_virtual_data_centre_shows_the_states_of_its_clusters_and_what_binds():
    vdc = {
        "name": "science", "strategy": "cost", "used": {"jobs": 2}, "max_per_user": 4,
        "clusters": [{"name": "hpc", "state": "away"}, {"name": "local", "state": "up"}],
        "offered": {"jobs": None, "gpus": 3.0},
    }  # fmt: skip

    line = vdc_table([vdc])[1]

    assert "hpc (away), local (up)" in line
    assert "3 gpus, 4 jobs per user" in line


def test_costs_are_summed_up_and_budgets_say_what_is_left():
    lines = cost_table(USE)

    assert lines[1].split() == ["ada", "vision", "4.0", "2.0", "12.50", "EUR"]
    assert lines[2].split() == ["total", "12.50", "EUR"]
    assert lines[-1].split() == ["project", "vision", "98.20", "100.00", "1.80", "30d"]


def test_costs_are_read_by_a_spreadsheet():
    (row,) = csv.DictReader(io.StringIO(cost_csv(USE)))

    assert (row["user"], row["project"], row["attempts"]) == ("ada", "vision", "3")
    assert (row["gpu_hours"], row["cost"]) == ("2.0", "12.5")
