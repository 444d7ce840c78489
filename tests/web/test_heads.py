"""The heads of a site in the browser: which one leads, and how far behind the other can be read."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tests.journeys.test_heads import Heads
from tests.web.browsing import Visitor

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser


def test_the_care_page_shows_which_head_leads_and_which_one_stands_by(
    tmp_path: Path, postgres_url: str, browser: Browser
) -> None:
    heads = Heads(tmp_path, postgres_url)
    try:
        heads.up()
        leader, other = heads.leader, heads.other
        token = json.loads(leader.rota("token", "create", "--access", "admin", "--json").stdout)[
            "token"
        ]
        visitor = Visitor(browser, heads.url(leader))
        visitor.enter(token)

        rows = visitor.go("/web/care").locator("#heads tbody tr")

        expect(rows).to_have_count(2)
        expect(rows.nth(0).locator("td")).to_have_text(
            [heads.url(leader), "leads", "now", "-", re.compile(r"^\d")]
        )
        expect(rows.nth(1).locator("td")).to_have_text(
            [heads.url(other), "stands by", re.compile(r" s ago$"), re.compile(r"^\d\S* s$"),
             re.compile(r"^\d")]
        )  # fmt: skip
        visitor.close()
    finally:
        heads.close()
