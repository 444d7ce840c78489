"""Working folders from users: unpacked as they were, or refused with the name of what is wrong."""

import gzip
import hashlib
import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from rota.agent.files import bundles
from rota.agent.files.bundles import BundleFailed, NodeBundles


def packed(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w:gz") as archive:
        for member, text in members:
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
    return body.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", mode: int = 0o644):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, link, mode
    return info


def taken_in(shelf: NodeBundles, body: bytes) -> str:
    digest = hashlib.sha256(body).hexdigest()
    half = len(body) // 2
    shelf.add(digest, 0, body[:half])
    shelf.add(digest, half, body[half:])
    shelf.keep(digest)
    return digest


def test_a_folder_is_unpacked_afresh_for_each_attempt_and_removed_with_it(tmp_path: Path):
    shelf = NodeBundles(tmp_path)
    body = packed(
        (member("run.sh", mode=0o755), b"#!/bin/sh\n"),
        (member("pkg", tarfile.DIRTYPE, mode=0o755), b""),
        (member("pkg/__init__.py"), b"x = 1\n"),
        (member("pkg/again.py", tarfile.SYMTYPE, "__init__.py"), b""),
    )
    digest = taken_in(shelf, body)

    first = Path(shelf.unpack(digest, "u1", None))
    (first / "scratch").write_text("left by a try before")
    second = Path(shelf.unpack(digest, "u1", None))

    assert first == second
    assert not (second / "scratch").exists()
    assert (second / "run.sh").stat().st_mode & 0o100
    assert (second / "pkg" / "again.py").read_text() == "x = 1\n"
    shelf.remove("u1")
    assert (shelf.left_over(), shelf.has(digest)) == (set(), True)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (member("../escaped"), "escaped"),
        (member("link", tarfile.SYMTYPE, "/etc"), "link"),
        (member("link", tarfile.SYMTYPE, "../../out"), "link"),
        (member("hard", tarfile.LNKTYPE, "../../etc/passwd"), "passwd|hard"),
        (member("null", tarfile.CHRTYPE), "neither a file, a folder nor a link"),
        (member("pipe", tarfile.FIFOTYPE), "neither a file, a folder nor a link"),
    ],
    ids=["up", "link-absolute", "link-up", "hard-link", "device", "pipe"],
)
def test_what_leads_out_of_the_folder_or_is_no_file_is_refused(
    tmp_path: Path, bad: tarfile.TarInfo, said: str
):
    shelf = NodeBundles(tmp_path / "agent")
    digest = taken_in(shelf, packed((member("good"), b"x"), (bad, b"")))

    with pytest.raises(BundleFailed, match=said):
        shelf.unpack(digest, "u1", None)

    assert shelf.left_over() == set()
    assert not (tmp_path / "agent" / "escaped").exists()


def test_a_write_through_a_link_inside_stays_inside(tmp_path: Path):
    shelf = NodeBundles(tmp_path / "agent")
    body = packed((member("way", tarfile.SYMTYPE, ".."), b""), (member("way/escaped"), b"x"))
    digest = taken_in(shelf, body)

    with pytest.raises(BundleFailed):
        shelf.unpack(digest, "u1", None)

    assert not list((tmp_path / "agent").rglob("escaped"))


def test_a_bomb_is_stopped_before_it_fills_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(bundles, "GROWTH_FREE_BYTES", 1000)
    shelf = NodeBundles(tmp_path)
    digest = taken_in(shelf, packed((member("zeros"), bytes(10_000_000))))

    with pytest.raises(BundleFailed, match="unpacked it has more than"):
        shelf.unpack(digest, "u1", None)

    assert shelf.left_over() == set()


@pytest.mark.parametrize(
    "spoil", [lambda _: b"no archive", lambda body: body[:-20], lambda _: gzip.compress(b"x" * 99)]
)
def test_what_is_no_archive_is_refused_in_words(tmp_path: Path, spoil: Callable[[bytes], bytes]):
    shelf = NodeBundles(tmp_path)
    digest = taken_in(shelf, spoil(packed((member("file"), b"text"))))

    with pytest.raises(BundleFailed, match=f"bundle {digest[:12]}: "):
        shelf.unpack(digest, "u1", None)


def test_what_arrives_must_be_what_was_asked_for(tmp_path: Path):
    shelf = NodeBundles(tmp_path)
    shelf.add("0" * 64, 0, b"something else")

    with pytest.raises(BundleFailed, match="has the digest"):
        shelf.keep("0" * 64)

    assert not shelf.has("0" * 64)
    with pytest.raises(BundleFailed, match="not a sha256"):
        shelf.has("../../etc/passwd")


@pytest.mark.root
def test_an_unpacked_folder_belongs_to_the_user_of_the_job(open_folder: Path):
    shelf = NodeBundles(open_folder)
    digest = taken_in(
        shelf, packed((member("deep", tarfile.DIRTYPE), b""), (member("deep/f"), b""))
    )

    target = Path(shelf.unpack(digest, "u1", (65_534, 65_534)))

    owners = {path.stat().st_uid for path in (target, target / "deep", target / "deep" / "f")}
    assert owners == {65_534}
