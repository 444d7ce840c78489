"""The showing commands print what a real Slurm printed, but for what the documentation names."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slurm.cluster import Cluster, recorded_cluster
from tests.slurm.goldens import Golden, differences, read_golden, renamed
from tests.slurm.stage import set_the_stage
from tests.support.machine import REPOSITORY

FOLDER = REPOSITORY.parent / "shared" / "slurm" / "golden"
DIFFERENCES = REPOSITORY / "docs" / "slurm-differences.md"
SHOWING = {"squeue", "sinfo", "sacct", "sacctmgr", "sprio", "sshare", "sstat", "sreport", "sdiag"}
#: The one that is lost there is drained here: both have a reason.
RENAMED = {"scontrol_show_node_lost": {"n2": "n4"}}


def listed_differences() -> dict[str, str]:
    """Golden file -> why ours differs, as the documentation says."""
    rows = re.findall(r"^\| `(\w+)\.txt` \| (.+) \|$", DIFFERENCES.read_text(), re.MULTILINE)
    return dict(rows)


def is_ours(golden: Golden) -> bool:
    if not golden.simple:
        return False
    program, *words = golden.argv
    shows = program == "scontrol" and ("show" in words or "ping" in words)
    return program in SHOWING or shows


def showing_goldens() -> list[str]:
    paths = sorted(FOLDER.glob("*.txt")) if FOLDER.is_dir() else []
    return [path.stem for path in paths if is_ours(read_golden(path))]


class Played:
    def __init__(self, cluster: Cluster, ids: dict[str, str]) -> None:
        self.cluster = cluster
        self.ids = ids

    def _with_our_ids(self, word: str) -> str:
        """Only what is a list of ids, or ``jobid=12``, holds ids: a width is none."""
        return renamed(word, self.ids) if re.fullmatch(r"(\w+=)?[\d,]+", word) else word

    def compare(self, golden: Golden) -> list[str]:
        names = RENAMED.get(golden.name, {})
        argv = [names.get(word, self._with_our_ids(word)) for word in golden.argv]
        answer = self.cluster.run(*argv, user=golden.user)
        assert isinstance(answer.stdout, str)
        assert "internal error" not in answer.stderr
        return differences(golden, answer.stdout, answer.stderr, answer.code)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    with recorded_cluster(tmp_path_factory.mktemp("box")) as cluster:
        yield Played(cluster, set_the_stage(cluster))


@pytest.mark.parametrize("name", showing_goldens())
def test_a_recorded_call_has_the_recorded_shape_or_is_listed_as_different(
    name: str, played: Played, shared_folder: Path
) -> None:
    golden = read_golden(shared_folder / "slurm" / "golden" / f"{name}.txt")

    found = played.compare(golden)

    if name in listed_differences():
        assert found, f"{name} is listed as different and is not"
    else:
        assert not found


def test_every_letter_of_a_format_has_the_recorded_header(
    played: Played, shared_folder: Path
) -> None:
    recorded = (shared_folder / "slurm" / "golden" / "squeue_letters.txt").read_text()
    rows = re.findall(r"^(%\w)\t([^\t\n]*)\t", recorded, re.MULTILINE)

    headers = {
        letter: played.cluster.text("squeue", "-j", played.ids["23"], "-o", letter).split("\n")[0]
        for letter, _ in rows
    }

    assert headers == dict(rows)


def test_every_listed_difference_names_a_recording(shared_folder: Path) -> None:
    folder = shared_folder / "slurm" / "golden"

    assert all((folder / f"{name}.txt").is_file() for name in listed_differences())


@pytest.mark.parametrize(
    ("recorded", "state", "reason", "code"),
    [
        ("1", "TIMEOUT", "TimeLimit", "0:0"),
        ("3", "COMPLETED", "None", "0:0"),
        ("12", "FAILED", "NonZeroExitCode", "3:0"),
        ("16", "FAILED", "JobLaunchFailure", "0:11"),
        ("17", "OUT_OF_MEMORY", "OutOfMemory", "0:125"),
        ("88", "NODE_FAIL", "NodeDown", "0:0"),
    ],
)
def test_an_end_has_the_recorded_state_reason_and_exit_code(
    played: Played, recorded: str, state: str, reason: str, code: str
) -> None:
    job = played.ids[recorded]

    queue = played.cluster.text("squeue", "-h", "-t", "all", "-j", job, "-o", "%T %r")
    account = played.cluster.text("sacct", "-nXP", "-j", job, "-o", "state,exitcode")

    assert queue == f"{state} {reason}\n"
    assert account == f"{state}|{code}\n"
