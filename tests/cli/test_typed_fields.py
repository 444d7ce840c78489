"""``rota queue --json --fields``: values for programs, not the text of a table."""

import json

import pytest

from rota.cli.cluster.reserve import body_of
from tests.cli.test_render import a_job

#: 2026-11-16T12:00:00 UTC.
NOON_S = 1_794_830_400.0


def test_chosen_fields_are_numbers_and_moments_in_json(fake, rota):
    job = a_job(
        id=7,
        array_id=5,
        array_index=1,
        ref="5_1",
        state="completed",
        submitted_at="2026-11-16T12:00:00Z",
        started_at="2026-11-16T12:00:05Z",
        ended_at="2026-11-16T12:01:35Z",
        tasks=2,
        resources={"cpus": 2.0, "memory_mb": 1024, "gpus": 1},
    )
    fake.routes["GET /jobs"] = {"items": [job], "cursor": None}
    names = "id,ref,time,wait,cpus,mem,gpus,started,exit"

    ended = rota("queue", "-a", "--json", "--fields", names)

    assert json.loads(ended.out) == [
        {
            "id": 7,
            "ref": "5_1",
            "time": 90.0,
            "wait": 5.0,
            "cpus": 4.0,
            "mem": 2048,
            "gpus": 2.0,
            "started": "2026-11-16T12:00:05Z",
            "exit": job.get("exit_code"),
        }
    ]


def test_the_end_of_a_reservation_counts_from_now_unless_it_lies_behind_its_start():
    given = {"start": "tomorrow 9:00", "zone": "UTC"}

    named = body_of({**given, "until": "tomorrow 17:00"}, NOON_S)
    clock = body_of({**given, "until": "17:00"}, NOON_S)
    length = body_of({"start": "now+2d", "until": "now+3d", "zone": "UTC"}, NOON_S)

    assert named["end_at"] == clock["end_at"] == "2026-11-17T17:00:00Z"
    assert named["start_at"] == "2026-11-17T09:00:00Z"
    assert length["start_at"][:10] == "2026-11-18"
    assert length["end_at"][:10] == "2026-11-19"


def test_commands_have_the_names_that_their_neighbours_have(rota):
    assert rota("quota", "list", "--help").code == 0
    assert rota("reserve", "cancel", "--help").code == 0


@pytest.mark.parametrize(
    "words",
    [
        ("attach", "7", "--task", "1_0"),
        ("gpus", "ignore", "n1", "1_0"),
        ("audit", "--limit", "\u0661\u0662"),
        ("logs", "7", "--tail", "1_0"),
        ("vdc", "set", "v", "--cpus", "1_0"),
        ("vdc", "set", "v", "--gpus", "nan"),
        ("vdc", "set", "v", "--clusters", "a:1_0"),
        ("vdc", "set", "v", "--clusters", "a:1:1_0"),
        ("cancel", "12_[\u0663]"),
    ],
    ids=lambda words: "-".join(words[:-1]),
)
def test_a_number_has_the_digits_0_to_9_alone(fake, rota, words):
    refused = rota(*words)

    assert refused.code != 0
    assert repr(words[-1])[1:-1] in refused.err
    assert not [asked for asked in fake.asked if asked.method != "GET"]
