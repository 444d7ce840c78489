"""The compiled starter and the one in Python do the same: a table of orders, drawn with both.

A third one is built with the compiler's checks for memory and undefined behaviour, and draws the
same table.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rota.keeper.build import COMPILERS, FLAGS, SOURCE
from tests.agent.support import Keeper, keeper
from tests.support.machine import missing

#: Looks at all that a process is given.
LOOK = (
    "pwd; umask; id -u; id -g; id -G; nproc; ulimit -n; ulimit -c; cat; env | sort | grep -v ^_;"
    " ls /proc/self/fd; grep -E '^(Sig(Blk|Ign|Cgt)|Uid|Gid|NoNewPrivs)' /proc/self/status; nice;"
    " cat /proc/self/oom_score_adj; cut -d ' ' -f 5,6 /proc/$$/stat | tr -s '0-9' N; echo err >&2"
)
PATH = f"PATH={os.environ['PATH']}"
FIRST = sorted(os.sched_getaffinity(0))[0]
#: What is asked for; ``HERE`` stands for a folder of its own, in which some files are.
ORDERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "another folder": {"cwd": "HERE"},
    "umask": {"umask": 0o027},
    "input": {"stdin": "HERE/input"},
    "both outputs in one": {"stdout": "HERE/both", "stderr": "HERE/both"},
    "a file that is there": {"stdout": "HERE/input"},
    "emptied before": {"stdout": "HERE/input", "outputs": "truncate"},
    "folders are made": {"stdout": "HERE/a/b/c", "outputs": "append", "umask": 0o022},
    "a device": {"stdout": "/dev/null", "outputs": "truncate"},
    "pinned": {"cpus": [FIRST]},
    "limits": {"ulimits": {"nofile": 77, "core": 0}},
    "no limit": {"ulimits": {"nproc": -1}},
    "odd words": {"argv": ["printf", "%s|", "", "a b", "ü\n", "\udcff"], "env": [PATH, "X=\udcfe"]},
    "an empty environment": {"env": []},
    "a variable twice": {"argv": ["env"], "env": [PATH, "A=1", "B=x=y", "EMPTY="]},
    "no folder": {"cwd": "HERE/none"},
    "a file as folder": {"cwd": "HERE/input"},
    "no folder, and a way out": {"cwd": "HERE/none", "elsewhere": "no way"},
    "a file as folder, and a way out": {"cwd": "HERE/input", "elsewhere": "no way"},
    "output in the folder that is missing": {
        **{"cwd": "HERE/none//", "stdout": "HERE/none/out", "elsewhere": "no way"},
    },
    "no input": {"stdin": "HERE/none"},
    "no place for output": {"stdout": "HERE/none/out"},
    "no place for errors": {"stderr": "HERE/none/err"},
    "a pipe without a reader": {"stdout": "HERE/pipe"},
    "a folder as output": {"stdout": "HERE"},
    "no command": {"argv": ["frobnicate"]},
    "no such path": {"argv": ["HERE/none"]},
    "no program": {"argv": ["HERE/input"]},
    "no format": {"argv": ["HERE/nonsense"]},
    "no interpreter": {"argv": ["HERE/script"]},
    "a folder as command": {"argv": ["HERE"]},
    "below a file": {"argv": ["HERE/input/x"]},
    "found late": {"argv": ["late"], "env": ["PATH=/none::HERE/input:HERE/bin"]},
    "the closed one is passed over": {"argv": ["closed"], "env": ["PATH=HERE:HERE/bin"]},
    "only a closed one": {"argv": ["closed"], "env": ["PATH=/none:HERE"]},
    "here": {"argv": ["late"], "env": ["PATH=:/none"], "cwd": "HERE/bin"},
    "too long": {"argv": ["true", "x" * 200_000]},
    "no CPU": {"cpus": [4000]},
    "no group": {"cgroup": "HERE/none"},
    "no user": {"user": "no-such-user"},
    "too much": {"user": "nobody", "ulimits": {"nofile": 1 << 40}},
    "a user": {"user": "nobody"},
    "a user again": {"user": "nobody", "stdin": "HERE/input"},
    "closed to the user": {"user": "nobody", "cwd": "HERE/private"},
    "closed output": {"user": "nobody", "stdout": "HERE/private/out"},
    "closed program": {"user": "nobody", "argv": ["HERE/private/program"]},
    "killed": {"argv": ["sh", "-c", "kill -9 $$"], "env": [PATH]},
}


def compiled(folder: Path, *flags: str) -> str:
    compiler = next((found for name in COMPILERS if (found := shutil.which(name))), None)
    if compiler is None:
        missing("needs a C compiler")
    program = folder / "starter"
    command = [compiler, *FLAGS, *flags, "-o", str(program), SOURCE]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return str(program)


@pytest.fixture(scope="module")
def starters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Keeper]]:
    checks = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    paths = {
        "python": "python",
        "compiled": compiled(tmp_path_factory.mktemp("plain")),
        "checked": compiled(tmp_path_factory.mktemp("checked"), *checks),
    }
    with (
        keeper("--starter", paths["python"]) as python,
        keeper("--starter", paths["compiled"]) as plain,
        keeper("--starter", paths["checked"]) as checked,
    ):
        yield {"python": python, "compiled": plain, "checked": checked}


def draw(one: Keeper, uid: str, order: dict[str, Any]) -> dict[str, Any]:
    """All that can be seen of one order, without what differs from run to run."""
    here = one.folder / "here"
    shutil.rmtree(here, ignore_errors=True)
    prepare(here)
    filled = fill({"argv": ["sh", "-c", LOOK], "env": [PATH, "FLAVOUR=mint"], **order}, str(here))

    one.spawn(uid, *filled.pop("argv"), **filled)
    ended = one.ended(uid)

    told = {name: ended[name] for name in ("code", "signal", "error", "fault", "lost", "note")}
    files = {
        str(path.relative_to(one.folder)): (path.stat().st_mode, path.stat().st_uid, text_of(path))
        for path in sorted([*here.rglob("*"), *(one.folder / "logs").glob(f"{uid}.*")])
    }
    ran = bool(ended["started_s"])
    return fill({"told": told, "ran": ran, "files": files}, "FOLDER", str(one.folder))


def prepare(here: Path) -> None:
    for name in ("bin", "private"):
        (here / name).mkdir(parents=True)
    (here / "input").write_text("some input\n")
    (here / "nonsense").write_text("\x00\x01 no program")
    (here / "script").write_text("#!/no/such/interpreter\n")
    for name in ("bin/late", "bin/closed", "private/program"):
        (here / name).write_text("#!/bin/sh\necho found\n")
        (here / name).chmod(0o755)
    (here / "closed").write_text("#!/bin/sh\necho never\n")
    for name in ("nonsense", "script"):
        (here / name).chmod(0o755)
    (here / "private").chmod(0o700)
    os.mkfifo(here / "pipe")


def text_of(path: Path) -> str:
    return path.read_text(errors="surrogateescape") if path.is_file() else ""


def fill(value: Any, there: str, name: str = "HERE") -> Any:
    """With the folder's path in the place of its name, or the other way round."""
    if isinstance(value, str):
        return value.replace(name, there)
    if isinstance(value, dict):
        return {fill(key, there, name): fill(each, there, name) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(fill(each, there, name) for each in value)
    return value


@pytest.mark.root
@pytest.mark.parametrize("kind", ["compiled", "checked"])
@pytest.mark.parametrize("name", ORDERS)
def test_an_order_has_the_same_result_with_both(starters: dict[str, Keeper], name: str, kind: str):
    uid = f"{kind}-{list(ORDERS).index(name)}"

    expected, drawn = (draw(starters[one], uid, ORDERS[name]) for one in ("python", kind))

    assert drawn == expected


@pytest.mark.root
def test_the_table_has_starts_that_work_and_starts_that_fail(starters: dict[str, Keeper]):
    drawn = [
        draw(starters["compiled"], f"all-{number}", order)
        for number, order in enumerate(ORDERS.values())
    ]

    codes = [one["told"]["code"] for one in drawn]
    assert {0, 126, 127, None} <= set(codes)
    assert {one["told"]["fault"] for one in drawn} == {"", "job", "node"}


@pytest.mark.root
def test_many_at_once_pass_the_checks(starters: dict[str, Keeper]):
    one = starters["checked"]
    for number in range(200):
        one.spawn(f"many-{number}", "true" if number % 3 else "frobnicate")

    codes = [one.ended(f"many-{number}")["code"] for number in range(200)]

    assert codes == [0 if number % 3 else 127 for number in range(200)]
    assert (one.folder / "keeper.log").read_text() == ""
