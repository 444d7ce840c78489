"""Hours at which a queue starts jobs, on the clock of its place."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from rota.controller.commands import commands as cmd
from rota.core.changes.compare import differences, fold
from rota.core.facts.errors import Rejected
from rota.core.facts.tenant import Queue
from rota.hours import parse_hours, turn
from rota.testing.scene import OPERATOR, Scene

BERLIN = ZoneInfo("Europe/Berlin")


def moment(text: str) -> float:
    """On the clock of Berlin."""
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN).timestamp()


@pytest.mark.parametrize(
    ("hours", "now", "is_open", "changes"),
    [
        ("mon-fri 8:00-18:00", "2026-11-16T07:59", False, "2026-11-16T08:00"),
        ("mon-fri 8:00-18:00", "2026-11-16T08:00", True, "2026-11-16T18:00"),
        ("mon-fri 8:00-18:00", "2026-11-13T18:00", False, "2026-11-16T08:00"),
        ("22:00-6:00", "2026-11-16T03:00", True, "2026-11-16T06:00"),
        ("22:00-6:00", "2026-11-16T12:00", False, "2026-11-16T22:00"),
        ("fri 22:00-6:00", "2026-11-14T05:00", True, "2026-11-14T06:00"),
        ("sat-mon 0:00-24:00", "2026-11-16T12:00", True, "2026-11-17T00:00"),
        ("mon 8:00-12:00, mon 12:00-14:00", "2026-11-16T09:00", True, "2026-11-16T14:00"),
        # The night in which the clock goes from two to three, and the one with two hours two.
        ("1:00-4:00", "2026-03-29T01:30", True, "2026-03-29T04:00"),
        ("1:00-4:00", "2026-10-25T01:30", True, "2026-10-25T04:00"),
    ],
)
def test_hours_are_read_on_the_clock_of_the_place(hours, now, is_open, changes):
    assert turn(parse_hours(hours), BERLIN, moment(now)) == (is_open, moment(changes))


@pytest.mark.parametrize("hours", ["", "0:00-24:00", "mon-sun 0:00-24:00"])
def test_what_is_always_open_never_turns(hours):
    assert turn(parse_hours(hours), BERLIN, moment("2026-11-16T12:00")) == (True, 0.0)


@pytest.mark.parametrize(
    "text", ["8-18", "mon", "mo 8:00-18:00", "8:60-9:00", "25:00-26:00", "24:00-2:00", "8:00-9:00,"]
)
def test_hours_that_cannot_be_read_are_refused_with_what_is_allowed(text):
    with pytest.raises(ValueError, match=r"is not valid; expected hours such as 22:00-6:00"):
        parse_hours(text)


def night_scene(now: str) -> Scene:
    scene = Scene()
    scene.now_s = moment(now)
    queue = Queue(name="night", hours="22:00-6:00", zone="Europe/Berlin")
    scene.ask(cmd.SetQueue(actor=OPERATOR, queue=queue))
    return scene


def test_a_queue_starts_jobs_within_its_hours_and_what_runs_then_runs_on():
    scene = night_scene("2026-11-16T21:00")
    scene.submit("early", queue="night")
    scene.submit("other")
    waiting = (scene.state("early"), scene.state("other"), scene.why("early"))

    scene.pass_time(3600)
    running = scene.state("early")
    scene.pass_time(8 * 3600)
    scene.submit("late", queue="night")

    assert waiting == (
        "queued",
        "running",
        "queue night is outside its hours (22:00-6:00) until 2026-11-16T21:00:00Z",
    )
    assert running == "running"
    assert scene.states("early", "late") == ["running", "queued"]


def test_hours_that_begin_while_the_controller_is_down_are_seen_when_it_is_back():
    scene = night_scene("2026-11-16T21:00")
    scene.submit("job", queue="night")
    scene.crash()
    scene.now_s += 2 * 3600

    scene.restart()

    assert scene.state("job") == "running"
    log = list(scene.store.all_events())
    assert differences(fold(log, scene.cluster.ids.cluster_id), scene.cluster) == []


def test_a_queue_without_hours_again_starts_at_once():
    scene = night_scene("2026-11-16T12:00")
    scene.submit("job", queue="night")

    scene.ask(cmd.SetQueue(actor=OPERATOR, queue=Queue(name="night")))

    assert scene.state("job") == "running"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"hours": "always"}, "hours: 'always' is not valid"),
        ({"zone": "Berlin"}, "zone: 'Berlin' is not a known time zone"),
        ({"zone": "local"}, "zone: 'local' is not known everywhere"),
    ],
)
def test_hours_and_zones_are_checked_when_a_queue_is_set(fields, words):
    scene = Scene()

    with pytest.raises(Rejected, match=words):
        scene.ask(cmd.SetQueue(actor=OPERATOR, queue=Queue(name="q", **fields)))
