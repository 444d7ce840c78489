"""What the pages say in prose and the settings hold."""

from __future__ import annotations

import re

from rota.config import load
from tests.support.machine import REPOSITORY

DAYS = re.compile(r"`(\w+)\.(\w*days)` \((\d+)\)")
#: Days after which a key changes, and nothing is forgotten.
NOT_FORGOTTEN = {("server", "node_key_days")}


def settings_of_days() -> dict[tuple[str, str], int]:
    """Every setting of a number of days, with its default."""
    found = load({"ROTA_STATE_DIR": "/nowhere"})
    return {
        (section, name): getattr(getattr(found, section), name)
        for section in found.__struct_fields__
        for name in getattr(getattr(found, section), "__struct_fields__", ())
        if name.endswith("days")
    }


def test_the_page_for_admins_names_everything_that_is_forgotten_and_after_how_many_days() -> None:
    page = (REPOSITORY / "docs" / "admin.md").read_text(encoding="utf-8")
    section = page.partition("## What grows\n")[2].partition("\n## ")[0]

    told = {(part, name): int(days) for part, name, days in DAYS.findall(section)}

    held = settings_of_days()
    assert told == {key: days for key, days in held.items() if key not in NOT_FORGOTTEN}
    assert "removed by itself" not in page


def test_the_pages_agree_that_grpc_is_encrypted_where_rest_is() -> None:
    said = [
        (REPOSITORY / "docs" / name).read_text(encoding="utf-8")
        for name in ("cluster.md", "grpc.md")
    ]

    assert "encrypted with the same certificate" in said[0]
    assert "with the same certificate" in said[1]
    assert not any("without encryption" in text for text in said)
