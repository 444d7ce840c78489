"""The container file and the manifests name what there is: files, options, extras, users, ports."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

import click
import pytest

from rota import __version__, config
from rota.cli.main import cli
from tests.support.machine import REPOSITORY

DEPLOY = REPOSITORY / "deploy"
CONTAINER = (DEPLOY / "Containerfile").read_text()
CONTROLLER = (DEPLOY / "kubernetes" / "base" / "controller.yaml").read_text()


def lines(word: str) -> list[str]:
    return re.findall(rf"^{word} (.*)$", CONTAINER, re.MULTILINE)


def listed(text: str) -> Any:
    """A list of YAML on one line, of plain words."""
    return [word.strip() for word in text.strip("[]").split(",")]


def test_every_file_that_is_copied_is_in_the_repository():
    copied = [line.split()[:-1] for line in lines("COPY") if not line.startswith("--from")]

    assert copied
    for name in (name for names in copied for name in names):
        assert (REPOSITORY / name).exists(), name


def test_the_extras_are_those_of_the_project():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    found = re.search(r"'\.\[(.*)\]'", CONTAINER)

    assert found is not None
    assert set(found[1].split(",")) <= set(project["optional-dependencies"])


@pytest.mark.parametrize("source", ["container file", "manifest"])
def test_what_is_started_is_a_command_that_exists(source):
    if source == "manifest":
        found = re.search(r"args: (\[.*\])", CONTROLLER)
        assert found is not None
        words = listed(found[1])
    else:
        assert json.loads(lines("ENTRYPOINT")[-1]) == ["rota"]
        words = json.loads(lines("CMD")[-1])

    _, command, rest = cli.resolve_command(click.Context(cli), words)
    assert command is not None
    command.make_context(words[0], rest, resilient_parsing=False)


def test_user_port_and_version_are_the_same_everywhere():
    (user,) = lines("USER")
    port = str(config.DEFAULT_PORT)
    tag = re.search(r"newTag: (.*)", (DEPLOY / "kubernetes/base/kustomization.yaml").read_text())

    assert user == "10001:10001"
    assert re.findall(r"(?:runAsUser|runAsGroup|fsGroup): (\d+)", CONTROLLER) == ["10001"] * 3
    assert lines("EXPOSE") == re.findall(r"containerPort: (\d+)", CONTROLLER) == [port]
    assert tag is not None
    assert tag[1] == __version__


def test_the_settings_of_the_manifests_are_valid():
    text = (DEPLOY / "kubernetes" / "base" / "rota.toml").read_text()

    settings = config.parse(text, "rota.toml", {})

    assert settings.engines["here"]["in_cluster"] is True
    assert settings.server.address == ("0.0.0.0", config.DEFAULT_PORT)
