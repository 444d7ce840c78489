"""Archives that have led out of folders elsewhere: none does here, and none stays unanswered.

All are unpacked for a plain user by a root agent. Nothing of ``tarfile``'s own filters is used, so
what holds here holds with every version of Python.
"""

import hashlib
import io
import os
import pwd
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.agent.files.bundles import BundleFailed, NodeBundles
from tests.agent import support

pytestmark = pytest.mark.root

NOBODY = pwd.getpwnam("nobody")
OWNER = (NOBODY.pw_uid, NOBODY.pw_gid)
SECRET = "of root alone"
DIR, LINK, HARD = tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE
Member = tuple[tarfile.TarInfo, bytes]


def entry(name: str, body: bytes = b"", kind: bytes = tarfile.REGTYPE, link: str = "") -> Member:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode, info.size = kind, link, 0o644, len(body)
    return info, body


def with_pax(member: Member, **headers: str) -> Member:
    member[0].pax_headers = {name.replace("_", "."): value for name, value in headers.items()}
    return member


def long_way_out() -> list[Member]:
    """Links whose resolved path is longer than the system takes: the checks of some versions give
    up there, and the way behind it goes up."""
    deep, way, found = "d" * 247, "", []
    steps = "abcdefghijklmnop"
    for step in steps:
        found.append(entry(f"{way}{deep}", kind=DIR))
        found.append(entry(f"{way}{step}", kind=LINK, link=deep))
        way += f"{deep}/"
    last = "/".join(steps) + "/" + "l" * 254
    found.append(entry(last, kind=LINK, link="../" * len(steps)))
    found.append(entry("escape", kind=LINK, link=f"{last}/../../rootonly"))
    found.append(entry("flaglink", kind=HARD, link="escape/flag"))
    return [*found, entry("flaglink", b"overwritten")]


def nested_headers() -> bytes:
    """Thousands of long names for one file, each of which is about the next."""
    info = tarfile.TarInfo("x")
    name = info.create_gnu_header(tarfile.TarInfo("y" * 150).get_info(), "utf-8", "strict")
    return name[:1024] * 5000 + name[1024:]


NEGATIVE = entry("x")[0]
NEGATIVE.size = -1024

REFUSED: dict[str, tuple[list[Member], str]] = {
    "up": ([entry("../out", b"x")], "leads out"),
    "up-inside": ([entry("a/../../out", b"x")], "leads out"),
    "up-after-dot": ([entry("./../out", b"x")], "leads out"),
    "absolute": ([entry("/etc/rota-out", b"x")], "absolute path"),
    "absolute-twice": ([entry("//etc/rota-out", b"x")], "absolute path"),
    "link-absolute": ([entry("l", kind=LINK, link="/etc")], "absolute path"),
    "link-up": ([entry("l", kind=LINK, link="..")], "leads out"),
    "link-up-deep": ([entry("a/l", kind=LINK, link="../../out")], "leads out"),
    "link-down-and-up": ([entry("l", kind=LINK, link="a/../../out")], "leads out"),
    "link-chain": (
        [
            entry("p/q/r", kind=DIR),
            entry("p/q/r/up", kind=LINK, link="../../.."),
            entry("out", kind=LINK, link="p/q/r/up/.."),
            entry("out/rootonly/flag", b"overwritten"),
        ],
        "leads out",
    ),
    "link-then-through": (
        [entry("sub", kind=DIR), entry("l", kind=LINK, link="sub"), entry("l/x", b"x")],
        "l/x",
    ),
    "folder-swapped-for-link": (
        [entry("d", kind=DIR), entry("d", kind=LINK, link="../../rootonly"), entry("d/flag", b"x")],
        "'d'",
    ),
    "folder-swapped-for-file": ([entry("d", kind=DIR), entry("d", b"x")], "'d'"),
    "hard-absolute": ([entry("h", kind=HARD, link="/etc/passwd")], "hard link"),
    "hard-inside": ([entry("f", b"x"), entry("h", kind=HARD, link="f")], "hard link"),
    "hard-then-overwrite": (
        [entry("h", kind=HARD, link="../../rootonly/flag"), entry("h", b"overwritten")],
        "hard link",
    ),
    "long-way-out": (long_way_out(), "not a directory"),
    "character-device": ([entry("null", kind=tarfile.CHRTYPE)], "neither a file"),
    "block-device": ([entry("disk", kind=tarfile.BLKTYPE)], "neither a file"),
    "pipe": ([entry("pipe", kind=tarfile.FIFOTYPE)], "neither a file"),
    "pax-path": ([with_pax(entry("good", b"x"), path="../out")], "leads out"),
    "pax-link": ([with_pax(entry("l", kind=LINK, link="good"), linkpath="/etc")], "absolute"),
    "pax-size": (
        [
            with_pax(
                entry("s", b"x"),
                GNU_sparse_major="0",
                GNU_sparse_minor="1",
                GNU_sparse_name="s",
                GNU_sparse_size=str(2 << 40),
                GNU_sparse_map="0,1",
            )
        ],
        "more than",
    ),
    "deep": ([entry("d/" * 1500 + "f", b"x")], "folders deep"),
    "deep-link": ([entry("d/" * 1500 + "l", kind=LINK, link="x")], "folders deep"),
    "long-name": ([entry("n" * 300, b"x")], "name too long"),
}  # fmt: skip


@pytest.fixture
def shelf() -> Iterator[NodeBundles]:
    with support.folder() as folder:
        (folder / "agent" / "rootonly").mkdir(parents=True, mode=0o700)
        (folder / "agent" / "rootonly" / "flag").write_text(SECRET)
        yield NodeBundles(folder / "agent")


def take_in(shelf: NodeBundles, body: bytes) -> str:
    digest = hashlib.sha256(body).hexdigest()
    shelf.add(digest, 0, body)
    shelf.keep(digest)
    return digest


def archive_of(members: list[Member], form: int = tarfile.PAX_FORMAT) -> bytes:
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w", format=form) as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    return body.getvalue()


def world(shelf: NodeBundles) -> dict[str, tuple[int, int, int, bytes]]:
    """Everything beside the unpacked folders: its owner, mode, links and content."""
    top = Path(shelf.folder_of("u1")).parents[1]
    return {
        str(path): (
            (status := path.lstat()).st_uid,
            status.st_mode,
            status.st_nlink if path.is_file() else 0,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in top.rglob("*")
        if top / "work" not in (path, *path.parents)
    }


#: Headers of the first form are not in the second.
FORMS = [(case, tarfile.PAX_FORMAT) for case in REFUSED]
FORMS += [(case, tarfile.GNU_FORMAT) for case in REFUSED if not case.startswith("pax-")]


@pytest.mark.parametrize(("case", "form"), FORMS)
def test_an_archive_that_leads_out_is_refused_and_touches_nothing(
    shelf: NodeBundles, case: str, form: int
):
    members, said = REFUSED[case]
    digest = take_in(shelf, archive_of(members, form))
    before = world(shelf)

    with pytest.raises(BundleFailed, match=said):
        shelf.unpack(digest, "u1", OWNER)

    assert world(shelf) == before
    assert shelf.left_over() == set()


def test_headers_that_are_about_headers_without_an_end_are_refused(shelf: NodeBundles):
    digest = take_in(shelf, nested_headers())

    with pytest.raises(BundleFailed, match="nested too deeply"):
        shelf.unpack(digest, "u1", OWNER)


def test_a_file_with_less_than_nothing_in_it_is_refused_at_once(shelf: NodeBundles):
    head = NEGATIVE.tobuf(tarfile.GNU_FORMAT)
    digest = take_in(shelf, head + bytes(10240))
    began_s = time.monotonic()

    with pytest.raises(BundleFailed):
        shelf.unpack(digest, "u1", OWNER)

    assert time.monotonic() - began_s < 20


def test_of_two_members_of_one_name_the_later_counts_and_no_link_is_written_through(
    shelf: NodeBundles,
):
    body = archive_of(
        [
            entry("f", b"first"),
            entry("f", b"second"),
            entry("kept", b"kept"),
            entry("l", kind=LINK, link="kept"),
            entry("l", b"not through it"),
        ]
    )

    target = Path(shelf.unpack(take_in(shelf, body), "u1", OWNER))

    assert (target / "f").read_text() == "second"
    assert (target / "kept").read_text() == "kept"
    assert not (target / "l").is_symlink()


def test_names_that_differ_in_case_alone_are_different_names(shelf: NodeBundles):
    body = archive_of(
        [entry("sub", kind=DIR), entry("Way", kind=LINK, link="sub"), entry("way/x", b"x")]
    )

    target = Path(shelf.unpack(take_in(shelf, body), "u1", OWNER))

    assert (target / "way" / "x").read_text() == "x"
    assert os.listdir(target / "sub") == []


def test_links_within_the_folder_are_kept_and_bits_that_lend_rights_are_not(shelf: NodeBundles):
    program = entry("bin/tool", b"#!/bin/sh\n")
    program[0].mode = 0o6777
    body = archive_of(
        [
            program,
            entry("lib/deep/l", kind=LINK, link="../../bin/tool"),
            entry("t", kind=LINK, link="bin"),
        ]
    )

    target = Path(shelf.unpack(take_in(shelf, body), "u1", OWNER))

    assert (target / "bin" / "tool").stat().st_mode & 0o7777 == 0o755
    assert (target / "lib" / "deep" / "l").resolve() == (target / "bin" / "tool").resolve()
    assert (target / "t").readlink() == Path("bin")
    assert {path.lstat().st_uid for path in target.rglob("*")} == {NOBODY.pw_uid}


def test_a_folder_that_its_job_made_deep_and_unreadable_is_removed(shelf: NodeBundles):
    target = shelf.unpack(take_in(shelf, archive_of([entry("f", b"x")])), "u1", OWNER)
    fd = os.open(target, os.O_RDONLY)
    for number in range(3000):
        os.mkdir("d", 0o700, dir_fd=fd)
        os.chown("d", *OWNER, dir_fd=fd)
        below = os.open("d", os.O_RDONLY, dir_fd=fd)
        if number % 100 == 99:
            os.chmod("d", 0, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)
    os.symlink("../../rootonly", f"{target}/way")

    shelf.remove("u1")

    assert shelf.left_over() == set()
    assert (Path(target).parents[1] / "rootonly" / "flag").read_text() == SECRET
