"""A last word in the output of a job is written with the rights of its user, or not at all."""

import asyncio
import os
import pwd
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.agent.visits.logs import Logs
from rota.rpc.visits import WriteRemark
from tests.agent import support

ME = pwd.getpwuid(os.geteuid()).pw_name


def write_remark(message: WriteRemark) -> None:
    logs = Logs(Path("/nowhere"))
    try:
        asyncio.run(logs.remark(message))
    finally:
        logs.close()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    with support.folder() as path:
        yield path


def test_a_remark_is_put_behind_what_is_there(tmp_path: Path):
    path = tmp_path / "out"
    path.write_text("before\n")

    write_remark(WriteRemark("u1", str(path), ME, "why\n"))

    assert path.read_text() == "before\nwhy\n"


def test_what_is_no_file_or_not_there_is_left_alone(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")

    for name in ("pipe", "none"):
        write_remark(WriteRemark("u1", str(tmp_path / name), ME, "why\n"))
    write_remark(WriteRemark("u1", str(tmp_path / "none"), "no-such-user", "why\n"))

    assert not (tmp_path / "none").exists()


@pytest.mark.root
def test_a_link_to_a_file_of_somebody_else_is_not_followed_with_our_rights(open_folder: Path):
    secret = open_folder / "secret"
    secret.write_text("of root\n")
    link = open_folder / "out"
    link.symlink_to(secret)

    write_remark(WriteRemark("u1", str(link), "nobody", "why\n"))

    assert secret.read_text() == "of root\n"
