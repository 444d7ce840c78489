"""Texts name the thing: the job, the node, the user. Words that leave it open are kept out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.support.machine import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

#: For "the user that" or "the process that"; nothing here is a man or a woman.
NAMELESS = re.compile(
    r"\b(whoever|those who|(?:some|any)(?:body|one) who|he|his|him|himself)\b", re.I
)
#: For a number or an amount with a name.
COUNTLESS = re.compile(r"\bso (many|much)\b(?! that\b)", re.I)
#: What changed is told in the words of its day.
PAGES = [
    *(REPOSITORY / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")),
    *sorted((REPOSITORY / "docs").rglob("*.md")),
]
SOURCES = sorted((REPOSITORY / "src" / "rota").rglob("*.py"))


def _lines(paths: list[Path], word: re.Pattern[str]) -> list[str]:
    return [
        f"{path.relative_to(REPOSITORY)}:{number}: {line.strip()[:100]}"
        for path in paths
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if word.search(line)
    ]


def test_no_text_leaves_open_who_or_what_it_speaks_of():
    found = _lines([*PAGES, *SOURCES], NAMELESS)

    assert not found, "name the user, the job or the process:\n" + "\n".join(found)


def test_texts_name_a_number_instead_of_so_many():
    found = _lines([*PAGES, *SOURCES], COUNTLESS)

    assert not found, "name the number:\n" + "\n".join(found)
