"""``rota backup`` and ``rota restore``: what is in the file, and where it is not put."""

from __future__ import annotations

import io
import json
import sqlite3
import stat
import tarfile
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.journeys.box import Box
    from tests.support.postgres import PostgresServer


def lived(box: Box) -> tuple[int, int]:
    """A job that has ended and one that waits, by their ids."""
    done = box.ran(["sh", "-c", "exit 3"], name="done")
    return done["id"], box.job(["true"], name="held", hold=True)


def test_a_rota_comes_back_as_it_was_when_the_copy_was_made(
    new_box: Callable[..., Box], tmp_path: Path
) -> None:
    old, new = new_box(), new_box()
    old.env["ROTA_CONFIG"] = str(tmp_path / "rota.toml")
    (tmp_path / "rota.toml").write_text("[agent]\nlabels = { rack = 'a' }\n")
    old.up()
    done, held = lived(old)
    token = old.rota("token", "create", "-q").stdout.strip()
    file = tmp_path / "copy.tar.gz"

    said = old.rota("backup", str(file)).stdout
    later = old.ran(["true"], name="later")["id"]
    old.down("--stop-jobs")
    (tmp_path / "rota.toml").unlink()
    new.env["ROTA_CONFIG"] = old.env["ROTA_CONFIG"]
    restored = new.rota("restore", str(file))
    new.up("--accept-database")

    assert said.startswith(f"wrote {file} (")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert f"wrote {tmp_path / 'rota.toml'}" in restored.stdout
    assert "once with --accept-database" in restored.stderr
    assert new.show(done)["exit_code"] == 3
    assert new.rota("release", str(held)).returncode == 0
    assert new.ended(held)["state"] == "completed"
    assert new.api("GET", f"/jobs/{later}")[0] == 404
    assert new.ran(["true"])["id"] == later
    url = {"ROTA_URL": new.status()["controller"]["url"], "ROTA_TOKEN": token}
    assert "done" in new.rota("queue", "-a", env=url).stdout
    key = "job-tokens.key"
    assert (new.state / key).read_bytes() == (old.state / key).read_bytes()


def test_postgresql_goes_into_sqlite_and_back_into_postgresql(
    new_box: Callable[..., Box], tmp_path: Path, postgres_server: PostgresServer
) -> None:
    first, second, third = new_box(), new_box(), new_box()
    with postgres_server.database() as one, postgres_server.database() as two:
        first.env["ROTA_SERVER_DATABASE"] = one
        third.env["ROTA_SERVER_DATABASE"] = two
        first.up()
        done, held = lived(first)
        first.rota("backup", str(tmp_path / "one"))
        first.down()
        second.rota("restore", str(tmp_path / "one"))
        second.up()
        in_sqlite = second.show(done)["exit_code"], second.state_of(held)
        second.down()
        second.rota("backup", str(tmp_path / "two"))
        third.rota("restore", str(tmp_path / "two"))
        third.up()

        in_postgres = third.show(done)["exit_code"], third.state_of(held)
        audited = third.rota("audit", "--limit", "1000").stdout
        third.job(["true"])
        elsewhere = ("--state-dir", str(tmp_path / "x"))
        again = third.refusal("restore", *elsewhere, str(tmp_path / "two"), exit_code=3)
        third.down()

    assert in_sqlite == in_postgres == (3, "held")
    assert "submit" in audited
    assert "another controller leads" in again


def test_what_is_there_is_never_overwritten(box: Box, tmp_path: Path) -> None:
    file = tmp_path / "copy"
    box.rota("backup", str(file))

    twice = box.refusal("backup", str(file))
    live = box.refusal("restore", str(file))
    box.down()
    occupied = box.refusal("restore", str(file))

    assert f"{file} is there already; give a new name" in twice
    assert f"Rota works in {box.state} (pid " in live
    assert f"{box.state} is not empty: {box.state / 'rota.db'} is there" in occupied


def with_manifest(file: Path, changed: Path, **changes: object) -> None:
    """The same backup with another manifest."""
    with tarfile.open(file) as archive, tarfile.open(changed, "w:gz") as other:
        for member in archive.getmembers():
            found = archive.extractfile(member)
            assert found is not None
            body = found.read()
            if member.name == "manifest.json":
                body = json.dumps({**json.loads(body), **changes}).encode()
                member.size = len(body)
            other.addfile(member, io.BytesIO(body))


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"", "is not a whole backup of Rota"),
        (b"nonsense", "is not a whole backup of Rota"),
    ],
)
def test_a_file_that_is_no_backup_is_refused(
    new_box: Callable[..., Box], tmp_path: Path, content: bytes, line: str
) -> None:
    (tmp_path / "copy").write_bytes(content)

    assert line in new_box().refusal("restore", str(tmp_path / "copy"))


def test_a_backup_of_a_newer_rota_is_refused(new_box: Callable[..., Box], tmp_path: Path) -> None:
    box = new_box()
    box.up()
    box.rota("backup", str(tmp_path / "copy"))
    box.down()
    with_manifest(tmp_path / "copy", tmp_path / "newer", schema="999", rota="9.0")

    said = new_box().refusal("restore", str(tmp_path / "newer"))

    assert "newer was made by a newer Rota (9.0, this is " in said


def test_without_a_database_nothing_is_written(new_box: Callable[..., Box], tmp_path: Path) -> None:
    box = new_box()

    said = box.refusal("backup", str(tmp_path / "copy"))

    assert f"there is no database {box.state / 'rota.db'}" in said
    assert not (tmp_path / "copy").exists()


def test_a_copy_under_load_is_whole(box: Box, tmp_path: Path) -> None:
    for number in range(20):
        box.job(["true"], name=f"n{number}", hold=True)
    box.rota("backup", str(tmp_path / "copy"))

    with tarfile.open(tmp_path / "copy") as archive:
        archive.extract("rota.db", tmp_path, filter="data")
    with sqlite3.connect(tmp_path / "rota.db") as copy:
        found = copy.execute("SELECT count(*) FROM jobs").fetchone()[0]
        whole = copy.execute("PRAGMA integrity_check").fetchone()[0]
    copy.close()

    assert (found, whole) == (20, "ok")
