"""``rota report`` over a live Rota."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.journeys.box import Box


def test_a_week_is_told_as_text_page_json_and_csv(box: Box):
    box.rota("policy", "set", "prices.rates=cpu 3600", "prices.currency=EUR")
    box.rota("project", "add", "lab")
    box.rota("quota", "set", "--project", "lab", "--cpus", "1")
    box.ran(["sleep", "0.2"], project="lab")
    box.ran(["false"], project="lab")
    held = box.job(["sleep", "60"], project="lab")
    box.reach(held, "running")

    text = box.rota("report").stdout
    box.rota("report", "month", "--html", "out.html")
    told = json.loads(box.rota("report", "2d", "--json").stdout)
    table = list(csv.DictReader(box.rota("report", "--csv").stdout.splitlines()))
    box.rota("cancel", str(held))

    assert "over its limit: project lab has 1 of 1 cpu (100%)" in text
    assert "forecast: none: only 0 whole days are on record" in text
    assert "<h1>What Rota did</h1>" in box.read("out.html")
    assert (told["total"]["jobs"], told["total"]["failed"]) == (3, 1)
    assert told["total"]["cost"] > 0
    # By day as in all, with what still runs; the first day of the period counts in part.
    days = {name: sum(day[name] for day in told["days"]) for name in ("cost", "cpu_hours")}
    assert days["cost"] == pytest.approx(told["total"]["cost"], abs=0.01)
    assert days["cpu_hours"] == pytest.approx(told["total"]["cpu_hours"], abs=0.001)
    assert [row["cause"] for row in told["failures"]] == ["exit"]
    assert told["waits"][0]["started"] == 3
    assert [(row["project"], row["jobs"]) for row in table] == [("lab", "3")]


def test_what_cannot_be_is_refused_in_a_line(box: Box):
    assert box.refusal("report", "fortnight") == (
        "rota: period: 'fortnight' is not valid; week, month, or a time of 1h to 366d"
    )
    assert "exclude each other" in box.refusal("report", "--csv", "--json")
    assert box.refusal("report", "--html", "no/such/folder.html").startswith("rota: --html: ")
    assert "'400d'" in box.refusal("report", "400d")
