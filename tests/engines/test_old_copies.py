"""Copies of logs that an engine has dropped go after as long as the jobs that they are of."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from rota.backends.journal import EngineEntry, EngineJournal, Stance
from rota.backends.old_copies import look
from rota.believed_time import DAY_S

if TYPE_CHECKING:
    from pathlib import Path

DAYS = 30


def copies(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "logs").iterdir())


def test_copies_go_when_they_are_old_but_for_those_of_attempts_whose_end_is_not_known(
    tmp_path: Path,
):
    journal, now_s = EngineJournal(tmp_path / "journal.db"), time.time()
    journal.put([EngineEntry(uid="a.0.1", node="n", state=Stance.SUBMITTED)])
    (tmp_path / "logs").mkdir()
    for name in ("a.0.1.stdout", "b.0.1.stdout", "b.0.1.stderr"):
        (tmp_path / "logs" / name).write_text("printed\n")
    seen = {}

    for day in (0, 10, 20, 29, 32):
        asyncio.run(look(tmp_path / "logs", DAYS, journal, now_s + day * DAY_S))
        seen[day] = len(copies(tmp_path))
    journal.close()

    assert seen == {0: 3, 10: 3, 20: 3, 29: 3, 32: 1}
    assert copies(tmp_path) == ["a.0.1.stdout"]


def test_a_clock_that_has_gone_wrong_by_years_drops_nothing(tmp_path: Path):
    journal, now_s = EngineJournal(tmp_path / "journal.db"), time.time()
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "b.0.1.stdout").write_text("printed\n")

    for at_s in (now_s, now_s + 4000 * DAY_S, now_s):
        asyncio.run(look(tmp_path / "logs", DAYS, journal, at_s))
    journal.close()

    assert copies(tmp_path) == ["b.0.1.stdout"]


def test_where_there_never_was_a_copy_there_is_nothing_to_do(tmp_path: Path):
    journal = EngineJournal(tmp_path / "journal.db")

    asyncio.run(look(tmp_path / "logs", DAYS, journal, time.time()))
    journal.close()

    assert not (tmp_path / "logs").exists()
