"""Reading logs: parts, tails, and files that users may have turned into something else."""

import asyncio
import os
import pwd
import stat
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rota.agent.chores import Complaints, keep_up
from rota.agent.files.reports import VARIABLE, ReportFolders, drop_old_reports
from rota.agent.visits.log_days import QUIET_S, drop_old_days, file_away, trusted_s
from rota.agent.visits.logs import PART_BYTES_MAX, Logs, drop_beginning
from rota.as_user import child
from rota.as_user.logs import TAIL_BYTES_MAX
from rota.believed_time import DAY_S
from rota.rpc.visits import LogPart, ReadLog
from tests.agent.hurdles import dead_file_system
from tests.support.machine import missing, small_disk

TEXT = b"one\ntwo\nthree\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "u1.out").write_bytes(TEXT)
    return tmp_path


def ask(folder: Path, offset: int = 0, limit: int = 1000, **fields: object) -> LogPart:
    request = {"request": 9, "uid": "u1", "stream": "stdout"} | fields
    logs = Logs(folder)
    try:
        return asyncio.run(logs.read(ReadLog(offset=offset, limit=limit, **request)))
    finally:
        logs.close()


def test_a_part_is_read_from_its_offset_up_to_its_limit(folder: Path):
    part = ask(folder, offset=4, limit=3)

    assert part == LogPart(9, 4, b"two", len(TEXT))


def test_a_negative_offset_counts_from_the_end(folder: Path):
    assert ask(folder, offset=-6).body == b"three\n"
    assert ask(folder, offset=-600).body == TEXT


def test_an_offset_at_or_behind_the_end_gives_nothing_and_the_size(folder: Path):
    assert ask(folder, offset=len(TEXT)) == LogPart(9, len(TEXT), b"", len(TEXT))
    assert ask(folder, offset=99) == LogPart(9, 99, b"", len(TEXT))


@pytest.mark.parametrize(
    ("text", "lines", "expected"),
    [
        (TEXT, 1, b"three\n"),
        (TEXT, 2, b"two\nthree\n"),
        (TEXT, 3, TEXT),
        (TEXT, 50, TEXT),
        (b"a\nb", 1, b"b"),
        (b"a\n\n\n", 2, b"\n\n"),
        (b"no end", 1, b"no end"),
        (b"", 5, b""),
        (b"x" * 200_000 + b"\nlast\n", 1, b"last\n"),
        (b"first\n" + b"y" * 150_000 + b"\nlast\n", 2, b"y" * 150_000 + b"\nlast\n"),
    ],
)
def test_the_last_lines_are_found(folder: Path, text: bytes, lines: int, expected: bytes):
    (folder / "logs" / "u1.out").write_bytes(text)

    part = ask(folder, limit=PART_BYTES_MAX, lines=lines)

    assert part.body == expected
    assert part.offset == len(text) - len(expected)


def test_lines_are_looked_for_in_the_last_megabytes_only_and_the_answer_says_so(folder: Path):
    line = b"x" * TAIL_BYTES_MAX
    (folder / "logs" / "u1.out").write_bytes(b"first\n" + line + b"\nlast\n")

    near = ask(folder, lines=1)
    far = ask(folder, limit=10, lines=2)

    assert (near.body, near.error) == (b"last\n", "")
    assert far.offset == far.size - TAIL_BYTES_MAX
    assert "only the last 4 MiB" in far.error


def test_a_log_that_does_not_exist_yet_is_empty(folder: Path):
    assert ask(folder, uid="u2") == LogPart(9, 0, b"", 0)
    assert ask(folder, stream="stderr") == LogPart(9, 0, b"", 0)


def test_a_chosen_path_is_read_and_missed_by_name(folder: Path):
    (folder / "mine.txt").write_bytes(b"mine")

    assert ask(folder, path=str(folder / "mine.txt"), user="root").body == b"mine"
    missing = ask(folder, path=str(folder / "gone.txt"), user="root")
    assert missing.error == f"{folder}/gone.txt: no such file"


def test_no_answer_is_larger_than_the_limit_of_a_part(folder: Path):
    (folder / "logs" / "u1.out").write_bytes(b"z" * (PART_BYTES_MAX + 10))

    assert len(ask(folder, limit=10 * PART_BYTES_MAX).body) == PART_BYTES_MAX


def test_an_unknown_stream_is_refused(folder: Path):
    assert ask(folder, stream="stdwar").error == "stream 'stdwar': stdout or stderr"


def test_a_pipe_in_the_place_of_a_file_is_refused_and_does_not_hold_us(folder: Path):
    os.mkfifo(folder / "pipe")

    assert ask(folder, path=str(folder / "pipe"), user="root").error.endswith("not a regular file")


@pytest.mark.root
class TestRightsOfTheUser:
    """A root agent reads a path that a user chose as that user would."""

    def test_a_link_to_a_file_of_root_is_refused(self, open_folder: Path):
        secret = open_folder / "secret"
        secret.write_text("password")
        secret.chmod(0o600)
        (open_folder / "output").symlink_to(secret)

        part = ask(open_folder, path=str(open_folder / "output"), user="nobody")

        assert part.body == b""
        assert part.error == f"{open_folder}/output: permission denied"
        assert (os.geteuid(), os.getegid()) == (0, 0)

    def test_a_file_of_the_user_is_read(self, open_folder: Path):
        (open_folder / "output").write_text("fine")

        assert ask(open_folder, path=str(open_folder / "output"), user="nobody").body == b"fine"

    def test_a_path_without_a_user_is_refused(self, open_folder: Path):
        (open_folder / "output").write_text("fine")

        part = ask(open_folder, path=str(open_folder / "output"))

        assert "whose file" in part.error

    def test_what_a_job_says_of_itself_is_read_as_its_user(self, open_folder: Path):
        entry = pwd.getpwnam("nobody")
        folders = ReportFolders(open_folder)
        said = Path(folders.variables("nobody", (entry.pw_uid, entry.pw_gid), "u1")[VARIABLE])
        secret = open_folder / "secret"
        secret.write_text("password")
        secret.chmod(0o600)
        nothing = ask(open_folder, stream="progress", user="nobody")
        said.symlink_to(secret)

        part = ask(open_folder, stream="progress", user="nobody")

        assert (nothing.body, nothing.error) == (b"", "")
        assert part.body == b""
        assert part.error == f"{said}: permission denied"
        assert stat.S_IMODE(said.parent.stat().st_mode) == 0o700
        assert said.parent.stat().st_uid == entry.pw_uid
        assert stat.S_IMODE(said.parent.parent.stat().st_mode) == 0o711
        assert "stdout or stderr" in ask(open_folder, stream="progress").error

    def test_an_unknown_user_is_named(self, open_folder: Path):
        part = ask(open_folder, path=str(open_folder / "output"), user="no-such-user")

        assert part.error.endswith("user no-such-user: no such user on this node")


@pytest.mark.root
def test_an_agent_without_the_rights_of_root_acts_for_its_own_user_alone():
    os.seteuid(pwd.getpwnam("nobody").pw_uid)
    try:
        child.become("name:nobody")
        with pytest.raises(child.ChildRefusal, match="not root and cannot act for root"):
            child.become("name:root")
    finally:
        os.seteuid(0)


def test_of_a_large_log_the_oldest_part_goes_and_everybody_keeps_their_place(folder: Path):
    log = folder / "logs" / "u1.out"
    text = b"".join(b"line %07d\n" % number for number in range(100_000))
    log.write_bytes(text)
    size = len(text)

    went = drop_beginning(str(log), 400_000)
    again = drop_beginning(str(log), 400_000)
    whole = ask(folder, limit=PART_BYTES_MAX)
    with log.open("ab") as file:
        file.write(b"more\n")

    assert went >= size - 400_000 - 8192
    assert again == 0
    assert log.stat().st_blocks * 512 <= 400_000
    assert whole.offset + len(whole.body) == whole.size == size
    assert text.endswith(whole.body)
    assert whole.body.startswith(text[whole.offset : whole.offset + 20])
    assert ask(folder, offset=size).body == b"more\n"
    assert ask(folder, lines=2).body == b"line 0099999\nmore\n"


def test_a_log_within_its_bound_is_left_alone(folder: Path):
    log = folder / "logs" / "u1.out"

    assert drop_beginning(str(log), 1 << 20) == 0
    assert drop_beginning(str(folder / "logs" / "none.out"), 1) == 0
    assert log.read_bytes() == TEXT


def test_logs_of_ended_attempts_are_moved_to_their_day_and_read_there(folder: Path):
    logs = folder / "logs"
    (logs / "u2.out").write_text("alive")
    (logs / "u1.err").touch()
    today = datetime.fromtimestamp((logs / "u1.out").stat().st_ctime, UTC).date().isoformat()

    early = file_away(logs, time.time() - QUIET_S, frozenset())
    moved = file_away(logs, time.time() + 9, frozenset({"u2"}))

    assert (early, moved) == (0, 1)
    assert sorted(path.name for path in logs.iterdir()) == ["ended", "u2.out"]
    assert [path.name for path in (logs / "ended" / today).iterdir()] == ["u1.out"]
    assert stat.S_IMODE((logs / "ended" / today).stat().st_mode) & 0o066 == 0
    assert ask(folder).body == TEXT
    assert ask(folder, stream="stderr").body == b""


def test_old_logs_go_but_not_those_of_living_attempts(folder: Path):
    ended = folder / "logs" / "ended"
    for day, name in (
        ("01", "old.out"),
        ("02", "alive.out"),
        ("02", "dead.out"),
        ("03", "new.out"),
    ):
        (ended / f"2031-05-{day}").mkdir(parents=True, exist_ok=True)
        (ended / f"2031-05-{day}" / name).write_text("x")
    before_s = datetime(2031, 5, 3, 12, tzinfo=UTC).timestamp()

    went = drop_old_days(folder / "logs", before_s, frozenset({"alive"}))

    assert went == 1
    left = [path.relative_to(ended).as_posix() for path in ended.glob("*/*")]
    assert sorted(left) == ["2031-05-02/alive.out", "2031-05-03/new.out"]
    assert ask(folder, uid="new").body == b"x"


def test_old_words_of_jobs_go_but_not_those_of_living_attempts(folder: Path):
    folders = ReportFolders(folder)
    for uid in ("old", "alive"):
        Path(folders.variables("ada/..", None, uid)[VARIABLE]).write_text("x")
    place = folder / "progress" / "of-ada%2F.."

    before = drop_old_reports(folder, time.time() - 60, frozenset())
    after = drop_old_reports(folder, time.time() + 60, frozenset({"alive"}))

    assert (before, after) == (0, 1)
    assert [path.name for path in place.iterdir()] == ["alive"]


@pytest.mark.root
def test_over_the_words_of_jobs_their_user_may_mount_what_never_answers(open_folder: Path):
    owner = pwd.getpwnam("nobody")[2:4]
    ReportFolders(open_folder).variables("nobody", owner, "u1")
    place = open_folder / "progress" / "of-nobody"

    with dead_file_system(place):
        dropped = drop_old_reports(open_folder, time.time() + 60, frozenset())
        part = ask(open_folder, stream="progress", user="nobody")
        again = ReportFolders(open_folder).variables("nobody", owner, "u2")

    assert (dropped, part.body, part.error, again) == (0, b"", "", {})


def test_a_clock_that_leaps_by_years_drops_the_logs_of_a_day_at_a_time(folder: Path):
    logs, then = folder / "logs", datetime(2031, 5, 1, tzinfo=UTC)

    def look(after_days: float) -> int:
        now_s = trusted_s(folder, then.timestamp() + after_days * DAY_S)
        return drop_old_days(logs, now_s - 30 * DAY_S, frozenset())

    for day in range(40):
        made = logs / "ended" / (then - timedelta(days=day)).date().isoformat()
        made.mkdir(parents=True)
        (made / "u1.out").write_text("x")

    assert look(0) == 9
    assert [look(3000) for _ in range(3)] == [1, 1, 1]
    # Set right again: what is left stays until it is old.
    assert [look(0), look(3), look(4)] == [0, 0, 1]


def test_a_link_in_place_of_a_log_is_moved_and_not_followed(folder: Path, tmp_path: Path):
    other = tmp_path / "secret"
    other.write_text("not yours")
    (folder / "logs" / "u9.out").symlink_to(other)

    file_away(folder / "logs", time.time() + 9, frozenset())

    assert other.read_text() == "not yours"
    assert not (folder / "logs" / "u9.out").is_symlink()


@pytest.fixture
def held(folder: Path) -> Iterator[Path]:
    """A log with something mounted over it, as its user may do with FUSE."""
    path = folder / "logs" / "held.out"
    path.write_text("held")
    mounted = subprocess.run(["mount", "--bind", path, path], capture_output=True, check=False)
    if mounted.returncode:
        missing("needs to mount")
    yield path
    subprocess.run(["umount", "-l", path], check=True)


def at_this_moment(folder: Path, complaints: Complaints | None = None) -> int:
    return file_away(folder / "logs", time.time() + 9, frozenset(), complaints)


@pytest.mark.root
def test_a_log_that_cannot_be_moved_stays_and_is_told_of_once(
    folder: Path, held: Path, caplog: pytest.LogCaptureFixture
):
    complaints = Complaints("logs that stay")

    moved = [at_this_moment(folder, complaints) for _ in range(3)]

    assert moved == [1, 0, 0]
    assert held.read_text() == "held"
    assert ask(folder).body == TEXT
    assert [record.getMessage() for record in caplog.records] == [
        "logs that stay, 1 in all, first held.out: Device or resource busy"
    ]


@pytest.mark.root
def test_an_old_day_with_a_log_that_cannot_be_removed_goes_but_for_that(folder: Path):
    day = folder / "logs" / "ended" / "2031-05-01"
    day.mkdir(parents=True)
    for name in ("a.out", "held.out", "z.out"):
        (day / name).write_text("x")
    (folder / "logs" / "ended" / "lost+found").mkdir()
    subprocess.run(["mount", "--bind", day / "held.out", day / "held.out"], check=True)
    before_s = datetime(2031, 6, 1, tzinfo=UTC).timestamp()

    went = drop_old_days(folder / "logs", before_s, frozenset())
    left = [path.name for path in day.iterdir()]
    subprocess.run(["umount", "-l", day / "held.out"], check=True)

    assert (went, left) == (0, ["held.out"])
    assert drop_old_days(folder / "logs", before_s, frozenset()) == 1


@pytest.mark.root
def test_on_a_full_disk_logs_stay_where_they_are(folder: Path):
    with small_disk(folder / "small", "nr_inodes=3"):
        (folder / "small" / "logs").mkdir()
        (folder / "small" / "logs" / "u1.out").write_bytes(TEXT)

        moved = at_this_moment(folder / "small")

        assert moved == 0
        assert ask(folder / "small").body == TEXT


def test_a_chore_that_breaks_is_begun_again_and_the_same_trouble_is_said_once(
    caplog: pytest.LogCaptureFixture,
):
    troubles = [OSError("full"), OSError("full"), OSError("away"), ValueError("a bug")]
    rounds = iter([*troubles, None])

    async def chore() -> None:
        if (trouble := next(rounds)) is not None:
            raise trouble

    asyncio.run(keep_up("old logs", chore, again_s=0))

    assert [record.getMessage() for record in caplog.records] == [
        "old logs: goes on later: OSError: full",
        "old logs: goes on later: OSError: away",
        "old logs: goes on later: ValueError: a bug",
    ]
