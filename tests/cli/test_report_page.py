"""A report as one page: complete, for people, and without a request to anybody."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

from rota.cli.cluster.report import report_csv, report_lines
from rota.cli.cluster.report_page import page

ROW = {
    "user": "ann",
    "project": "vision",
    "jobs": 12,
    "completed": 9,
    "failed": 3,
    "cancelled": 0,
    "cpu_hours": 120.5,
    "gpu_hours": 40.0,
    "memory_gb_hours": 10.0,
    "cost": 80.0,
    "cpu_efficiency": 0.5,
    "gpu_efficiency": 0.25,
    "gpu_idle_hours": 8.0,
    "energy_kwh": 3.5,
}
EVIL = "<script>alert(1)</script>"


def answer(**changes: Any) -> dict[str, Any]:
    days = [f"2026-11-{day:02}" for day in range(9, 16)]
    return {
        "since": "2026-11-09T00:00:00Z",
        "until": "2026-11-16T00:00:00Z",
        "currency": "EUR",
        "total": ROW | {"user": "", "project": ""},
        "items": [ROW, ROW | {"user": EVIL, "gpu_efficiency": None}],
        "days": [
            {"day": day, "jobs": 2, "cpu_hours": 17.0, "gpu_hours": 5.7, "cost": 1.0}
            for day in days
        ],
        "waits": [
            {"queue": "default", "started": 10, "median_s": 4.0, "p95_s": 900.0, "longest_s": 3600}
        ],
        "failures": [
            {
                "cause": "out_of_memory",
                "fault": "request",
                "tries": 3,
                "cpu_hours": 1.0,
                "gpu_hours": 2.5,
                "job": 66,
            }
        ],
        "forecast": [
            {
                "resource": "gpu",
                "days": days,
                "hours": [6.0] * 7,
                "spread": 1.2,
                "capacity": 48.0,
            }
        ],
        "forecast_method": "a straight line through the last 7 whole days",
        "alerts": [
            {
                "kind": "project",
                "name": "vision",
                "resource": "gpu",
                "used": 2,
                "limit": 2,
                "percent": 100.0,
                "level": 100,
            }
        ],
        "jobs_seen": 12,
        "complete": True,
        **changes,
    }


class Outline(HTMLParser):
    """Which tags there are, whether each is closed, and the text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        closed = tag == "meta" or str(self.get_starttag_text()).endswith("/>")
        if not closed:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self.open and self.open[-1] == tag:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        self.text += data


def outline(text: str) -> Outline:
    found = Outline()
    found.feed(text)
    return found


def test_the_page_is_whole_and_tells_all_of_it():
    found = outline(page(answer()))

    assert found.open == []
    assert found.seen.count("svg") == 4, "two of days, one of users, one of what may come"
    for words in (
        *("ann", "vision", "80.00 EUR", "out_of_memory", "default", "15m", "8.0"),
        *("All of a limit", "a straight line", "3.5 kWh", "75 %"),
    ):
        assert words in found.text, words


def test_nothing_is_asked_of_any_other_place_and_no_script_runs():
    text = page(answer())

    assert not re.search(r"(src|href)\s*=|url\(|@import|https?://", text)
    assert "<script" not in text.lower()
    assert "default-src &#x27;none&#x27;" in text or "default-src 'none'" in text


def test_names_that_users_chose_are_shown_and_not_obeyed():
    text = page(answer())

    assert EVIL not in text
    assert "&lt;script&gt;" in text


def test_every_chart_says_what_it_is_to_those_who_do_not_see_it():
    labels = re.findall(r'<svg [^>]*role="img" aria-label="([^"]+)"', page(answer()))

    assert "GPU-hours by day" in labels
    assert len(labels) == 4


def test_a_period_without_anything_is_a_page_too():
    nothing = answer(
        items=[],
        waits=[],
        failures=[],
        forecast=[],
        alerts=[],
        days=[{"day": "2026-11-09", "jobs": 0, "cpu_hours": 0, "gpu_hours": 0, "cost": 0}],
    )

    found = outline(page(nothing))

    assert found.open == []
    assert "svg" not in found.seen
    assert "No job started." in found.text


def test_the_same_in_a_terminal_names_limits_and_what_the_forecast_rests_on():
    text = "\n".join(report_lines(answer(), 7 * 86400))

    assert "the last 7d:" in text
    assert "over its limit: project vision has 2 of 2 gpu (100%)" in text
    assert "the next 7 days may take 6.0 of 48 GPU-hours each, give or take 1.2" in text
    assert "forecast: a straight line" in text


def test_csv_has_a_line_for_each_account_and_leaves_out_what_is_not_known():
    head, first, second = report_csv(answer()).splitlines()

    assert head.startswith("user,project,jobs,completed,failed")
    assert first == "ann,vision,12,9,3,0,120.5,40.0,10.0,80.0,0.5,0.25,8.0,3.5"
    assert ",0.5,,8.0," in second
