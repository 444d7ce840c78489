"""A service that runs as root, an attacker and a victim."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attacks.people import Person, new_user, open_folder
from tests.journeys.box import Box, until

HERE = Path(__file__).parent
FLAG = "of root alone"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker("root")
            item.add_marker("slow")


@pytest.fixture(scope="session")
def users() -> Iterator[tuple[str, str]]:
    with new_user("mallory") as attacker, new_user("alice") as victim:
        yield attacker, victim


@pytest.fixture(scope="module")
def town(users: tuple[str, str]) -> Iterator[Box]:
    """The service, all of it as root. In its midst lies a file of root's."""
    with open_folder() as folder:
        box = Box(folder / "box", cpus=16)
        box.up()
        (box.state / "agent" / "rootonly").mkdir(mode=0o700)
        (box.state / "agent" / "rootonly" / "flag").write_text(FLAG)
        yield box
        box.down("--stop-jobs")


@pytest.fixture
def flag(town: Box) -> Iterator[Path]:
    """Root's own file, which nothing of a user's may reach: after the test it is as before."""
    path = town.state / "agent" / "rootonly" / "flag"
    before = path.stat()
    yield path
    after = path.stat()
    assert path.read_text() == FLAG
    assert (after.st_uid, after.st_mode, after.st_nlink) == (0, before.st_mode, 1)
    assert [entry.name for entry in path.parent.iterdir()] == ["flag"]


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where both have a folder of their own."""
    with open_folder() as path:
        yield path


@pytest.fixture
def mallory(town: Box, users: tuple[str, str], folder: Path) -> Iterator[Person]:
    """The attacker. What is left of its jobs goes with the test."""
    person = Person(town, users[0], folder / "mallory")
    yield person
    person.api("POST", "/jobs:cancel", {"all": True})
    until(lambda: not _unfinished(town, person.user), "the attacker's jobs to end")


@pytest.fixture
def alice(town: Box, users: tuple[str, str], folder: Path) -> Iterator[Person]:
    """The victim; nobody but alice may enter her folder ``private``."""
    person = Person(town, users[1], folder / "alice")
    private = person.write("private.txt", "TOPSECRET\n", 0o600)
    assert private.exists()
    yield person
    person.api("POST", "/jobs:cancel", {"all": True})
    until(lambda: not _unfinished(town, person.user), "the victim's jobs to end")


def _unfinished(town: Box, user: str) -> list[object]:
    return list(town.api("GET", f"/jobs?state=active&user={user}&limit=5")[1]["items"])
