"""The HTML report: complete, self-contained, and deaf to what a trace wants to inject."""

import base64
import hashlib
import json
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from rota.core.facts.errors import Rejected
from rota.sim.figures import summarise
from rota.sim.report import write_report
from tests.sim.runs import job, played, steady
from tests.support.machine import missing

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


@pytest.fixture(autouse=True)
def _drawing_code():
    try:
        import plotly  # noqa: F401
    except ImportError:
        missing("plotly is not installed (the extra `sim` brings it)")


class Elements(HTMLParser):
    """What a browser would make of the page: its elements and the text in some of them."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.scripts = []
        self.words = []
        self.open = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.open = tag
        self.found.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        self.open = ""

    def handle_data(self, data):
        if self.open == "script":
            self.scripts[-1] += data
        else:
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())

    @property
    def pictures(self):
        return json.loads(self.scripts[0])


def report(tmp_path, runs, title="A title", settings=None):
    path = tmp_path / "report.html"
    write_report(path, title, settings or {}, runs, [summarise(run) for run in runs])
    return Elements(path.read_text(encoding="utf-8"))


def test_a_report_has_every_picture_and_its_place(tmp_path):
    page = report(tmp_path, [steady(200, [0, 700]), steady(200, [5, 60], "easy-sjbf")])

    places = {attrs["id"] for tag, attrs in page.found if attrs.get("class") == "picture"}
    assert places == {"policies", "used", "waiting", "sizes", "gantt"}
    assert page.pictures["fixed"].keys() == places - {"gantt"}
    assert all(picture["data"] for picture in page.pictures["fixed"].values())
    assert len(page.pictures["gantt"]) == 2


def test_a_report_shows_title_settings_figures_and_the_doubt_in_them(tmp_path):
    runs = [steady(200, [0, 700]), steady(200, [5, 60], "easy-sjbf")]

    page = report(tmp_path, runs, "KTH in spring", {"events": "single"})

    assert "KTH in spring" in page.text
    assert "200 jobs over 5.8 hours on 4 processors, 2 policies" in page.text
    assert "events single" in page.text
    assert "mean wait, seconds 350 32.5" in page.text
    assert "against easy" in page.text
    assert "95 % intervals from 2,000 draws of 50 blocks" in page.text


def test_policies_that_lie_far_apart_share_a_logarithmic_axis(tmp_path):
    near = report(tmp_path, [steady(10, [60]), steady(10, [90], "b")]).pictures["fixed"]
    far = report(tmp_path, [steady(10, [60]), steady(10, [9000], "b")]).pictures["fixed"]

    assert near["policies"]["layout"]["xaxis"]["rangemode"] == "tozero"
    assert far["policies"]["layout"]["xaxis"]["type"] == "log"


def test_curves_carry_the_share_in_use_and_the_queue(tmp_path):
    run = played([job(1, 0, 100, 2), job(2, 0, 100, 4)], [0, 100], capacity=4)

    fixed = report(tmp_path, [run]).pictures["fixed"]

    low, high, *_ = fixed["used"]["data"]
    assert (low["y"][0], high["y"][0]) == (50, 50)
    assert (low["y"][-1], high["y"][-1]) == (100, 100)
    assert [fixed["waiting"]["data"][1]["y"][place] for place in (0, -1)] == [1, 0]


def test_boxes_carry_the_quantiles_of_the_waits(tmp_path):
    jobs = [job(n, 0, 10, 2) for n in range(1, 6)]

    fixed = report(tmp_path, [played(jobs, [0, 100, 200, 300, 400])]).pictures["fixed"]

    (box,) = fixed["sizes"]["data"]
    assert box["x"] == ["2-4"]
    assert (box["q1"], box["median"], box["q3"]) == ([100], [200], [300])


def test_bars_of_a_job_point_at_its_text(tmp_path):
    jobs = [job(7, 0, 60, 2, user="ada"), job(8, 0, 60, 4)]

    (chart,) = report(tmp_path, [played(jobs, [0, 4000])]).pictures["gantt"]

    assert [trace["name"] for trace in chart["data"]] == ["no wait", "up to 6 h"]
    assert chart["texts"][chart["data"][0]["job"][0]] == (
        "<b>job 7</b> on 2 processors<br>user ada<br>waited 0s<br>ran 1m"
    )
    assert "waited 1h6m40s" in chart["texts"][chart["data"][1]["job"][0]]


def test_the_page_says_which_jobs_it_does_not_draw(tmp_path):
    short = report(tmp_path, [steady(300, [0])])
    long = report(tmp_path, [steady(3000, [0])])

    assert "cannot draw them all" not in short.text
    drawn = re.search(r"Drawn: easy ([\d,]+) of 3,000 jobs", long.text)
    assert 1000 < int(drawn[1].replace(",", "")) <= 1500


def test_nothing_that_a_trace_says_becomes_part_of_the_page(tmp_path):
    jobs = [job(1, 0, 10, user=EVIL, group=EVIL, name=EVIL), job(2, 0, 10)]
    run = played(jobs, [0, 0], policy=EVIL, unit=EVIL, nodes=[EVIL, "b"])

    page = report(tmp_path, [run], EVIL, {EVIL: EVIL})

    tags = [tag for tag, _ in page.found]
    assert tags.count("script") == 3
    assert "img" not in tags
    assert EVIL in page.text
    # Plotly reads HTML in labels, so they must be escaped once more.
    (chart,) = page.pictures["gantt"]
    assert "<script" not in json.dumps(page.pictures)
    assert "&lt;script&gt;" in chart["texts"][0]


def test_the_page_asks_for_nothing_outside_and_runs_its_own_scripts_only(tmp_path):
    page = report(tmp_path, [steady(10, [0])])

    assert not [attrs for _, attrs in page.found if {"src", "href"} & attrs.keys()]
    (rules,) = [a["content"] for t, a in page.found if t == "meta" and "http-equiv" in a]
    assert rules.startswith("default-src 'none'; ")
    for script in page.scripts[1:]:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in rules


def test_no_button_of_a_picture_sends_it_away(tmp_path):
    page = report(tmp_path, [steady(10, [0])])

    assert "showSendToCloud: false" in page.scripts[2]
    assert 'plotlyServerURL: ""' in page.scripts[2]


@pytest.mark.slow
def test_thirty_thousand_jobs_under_three_policies_stay_below_eight_megabytes(tmp_path):
    waits = [(place * 7919) % 5000 for place in range(997)]
    runs = [
        steady(30_000, waits[shift:], f"policy-{shift}", capacity=64) for shift in (0, 300, 600)
    ]

    report(tmp_path, runs)

    assert (tmp_path / "report.html").stat().st_size < 8_000_000


def test_runs_of_the_same_policy_are_told_apart(tmp_path):
    page = report(tmp_path, [steady(10, [0]), steady(10, [9])])

    assert "easy (2)" in page.text


def test_a_run_without_jobs_still_makes_a_page(tmp_path):
    page = report(tmp_path, [played([], [])])

    assert "0 jobs" in page.text


def test_a_report_about_nothing_is_refused_and_leaves_no_file(tmp_path):
    with pytest.raises(Rejected, match="at least one run"):
        write_report(tmp_path / "report.html", "t", {}, [], [])

    assert list(tmp_path.iterdir()) == []


def test_a_report_leaves_one_whole_file(tmp_path):
    report(tmp_path, [steady(10, [0])])

    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_without_plotly_one_line_says_what_to_install(tmp_path):
    # In a process of its own: an import that fails must not linger in this one.
    code = (
        "import sys; sys.modules['plotly.offline'] = None\n"
        "from pathlib import Path\n"
        "from rota.core.facts.errors import Unavailable\n"
        "from rota.sim.report import write_report\n"
        "from rota.sim.run import Run\n"
        "try: write_report(Path(sys.argv[1]), 't', {}, [Run('easy', [], 4)], [{}])\n"
        "except Unavailable as refusal: print(refusal)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "report.html")],
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )

    assert done.stdout == "the report needs plotly: pip install 'rota[sim]'\n"
    assert list(tmp_path.iterdir()) == []


def test_the_page_begins_with_a_verdict_and_names_who_pays_in_hours(tmp_path):
    jobs = [job(number, number, 10, user="ann" if number % 2 else "bob") for number in range(8)]
    first = played(jobs, [j.submit_s for j in jobs], policy="easy")
    late = [j.submit_s + (7200 if j.user == "bob" else 0) for j in jobs]
    other = played(jobs, late, policy="sjf")
    runs = [first, other]

    write_report(tmp_path / "page.html", "x", {}, runs, [summarise(run) for run in runs])

    text = (tmp_path / "page.html").read_text()
    assert "Verdict: under sjf instead of easy jobs wait 1h longer on average" in text
    assert '<tr><th scope="row">bob</th><td>4</td><td>0.00</td><td>2.00</td>' in text
