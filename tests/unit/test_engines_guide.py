"""The page on engines says what there is: every setting of every kind, and commands that exist."""

from __future__ import annotations

import re

import msgspec
import pytest

from rota.backends.kubernetes.settings import KubernetesSettings
from rota.backends.ray.settings import RaySettings
from rota.backends.slurm.settings import SlurmSettings
from rota.cli.main import cli
from rota.core.words.presets import PRESETS
from rota.settings.quotas import PROVIDERS
from tests.support.machine import REPOSITORY

PAGE = (REPOSITORY / "docs" / "engines.md").read_text()


def section(title: str) -> str:
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    assert found is not None, title
    return found[1]


@pytest.mark.parametrize(
    ("title", "settings"),
    [("Slurm", SlurmSettings), ("Kubernetes", KubernetesSettings), ("Ray", RaySettings)],
)
def test_every_setting_of_a_kind_is_in_its_table(title, settings):
    rows = [line for line in section(title).splitlines() if line.startswith("| `")]
    documented = {word for row in rows for word in re.findall(r"`(\w+)`", row.split("|")[1])}
    common = {"give_back_s"}

    known = {field.name for field in msgspec.structs.fields(settings)}
    assert known - documented - {"in_cluster"} == set()
    assert documented - known - common == set()


def test_the_guide_names_a_policy_and_an_engine_for_each_sort_of_site():
    guide = section("Which engine and which policy")

    for kind in ("Slurm", "Kubernetes", "Ray", "own agents"):
        assert kind in guide
    heading, *rows = [
        [cell.strip() for cell in row.split("|")] for row in guide.splitlines() if row[:2] == "| "
    ]
    for column, known in (("policy", PRESETS), ("quotas", PROVIDERS)):
        cells = [row[heading.index(column)] for row in rows]
        named = {word for cell in cells for word in re.findall(r"`([\w-]+)`", cell)}
        assert named
        assert named <= set(known)


def test_a_job_that_is_stuck_is_looked_for_with_commands_that_exist():
    text = section("When a job is stuck")

    for word in ("sacctmgr show association", "sacctmgr show qos", "kubectl get resourcequota"):
        assert word in text
    for command in re.findall(r"`rota (\w+)", text):
        assert command in cli.commands or command in cli.list_commands(None)
