"""Members, saves and emptied nodes on the command line."""

from typing import Any

import pytest

from rota.cli.submit.role_option import parse_role


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("driver=1", {"name": "driver", "count": 1}),
        (
            "worker=8, min=4, cpus=1.5, mem=16G, gpus=2, gpu-type=A100",
            {
                "name": "worker",
                "count": 8,
                "min_count": 4,
                "resources": {"cpus": 1.5, "memory_mb": 16384, "gpus": 2, "gpu_type": "A100"},
            },
        ),
    ],
)
def test_a_role_is_written_in_one_word(text: str, body: dict[str, Any]) -> None:
    assert parse_role(text) == body


@pytest.mark.parametrize("text", ["", "a", "a=0", "a=x", "=2", "a=1,b", "a=1,speed=3", "a=1,min=x"])
def test_a_role_that_cannot_be_read_says_what_is_expected(text: str) -> None:
    with pytest.raises(ValueError, match="is not valid; expected"):
        parse_role(text)


def test_roles_and_saves_are_sent_in_the_words_of_the_server(fake: Any, rota: Any) -> None:
    fake.routes["POST /jobs"] = {"id": 1}

    ended = rota(
        "submit", "--no-env", "--role", "driver=1", "--role", "worker=2,cpus=4",
        "--save-signal", "USR2", "--save-every", "15m", "--", "true",
    )  # fmt: skip

    assert ended.code == 0, ended.err
    body = fake.asked[-1].body
    assert body["roles"] == [
        {"name": "driver", "count": 1},
        {"name": "worker", "count": 2, "resources": {"cpus": 4}},
    ]
    assert (body["save_signal"], body["save_every_s"]) == ("USR2", 900)


def test_saves_of_a_job_are_changed_in_the_words_of_the_server(fake: Any, rota: Any) -> None:
    fake.routes["PATCH /jobs/3"] = {"id": 3}

    ended = rota("update", "3", "--save-signal", "USR2", "--save-every", "15m")

    assert (ended.code, ended.out) == (0, "updated 3\n")
    assert fake.asked[-1].body == {"save_signal": "USR2", "save_every_s": 900}


@pytest.mark.parametrize("command", ["run", "submit", "plan"])
def test_a_job_on_no_node_is_refused_before_it_is_sent(fake: Any, rota: Any, command: str) -> None:
    ended = rota(command, "--nodes", "0", "--", "true")

    assert ended.code == 2
    assert "--nodes" in ended.err
    assert "0 is too small; the least is 1" in ended.err
    assert fake.asked == []


def test_an_update_takes_the_number_of_nodes_back(fake: Any, rota: Any) -> None:
    fake.routes["PATCH /jobs/3"] = {"id": 3}

    ended = rota("update", "3", "--nodes", "0")

    assert ended.code == 0, ended.err
    assert fake.asked[-1].body == {"nodes": 0}


@pytest.mark.parametrize("words", [("drain",), ("node", "drain")])
def test_a_drain_is_asked_for_with_its_wishes(fake: Any, rota: Any, words: tuple[str, ...]) -> None:
    fake.routes["POST /nodes/n1:drain"] = {"name": "n1"}
    fake.routes["GET /jobs"] = {"items": [], "cursor": None}

    ended = rota(*words, "n1", "--migrate", "--deadline", "now+1h", "-r", "fans")

    assert (ended.code, ended.out) == (0, "drained n1\n")
    body = fake.asked[-1].body
    assert (body["migrate"], body["note"]) == (True, "fans")
    assert body["deadline_at"].endswith("Z")


def test_a_drain_that_moves_jobs_of_others_asks_first_and_says_which(fake: Any, rota: Any) -> None:
    there = {"id": 7, "ref": "7", "user": "bob", "nodes": ["n1"], "state": "running"}
    elsewhere = {**there, "id": 8, "ref": "8", "nodes": ["n2"]}
    fake.routes["GET /jobs"] = {"items": [there, elsewhere], "cursor": None}
    fake.routes["POST /nodes/n1:drain"] = {"name": "n1"}
    fake.routes["GET /nodes/n1"] = {"name": "n1", "state": "up"}

    told = rota("drain", "n1", "--migrate", "--dry-run")
    asked = rota("drain", "n1", "--migrate")
    plain = rota("drain", "n1")

    assert told.out == "would drain n1; of what runs there 7 (bob) may move\n"
    assert "move or stop 1 job, 1 of them of bob? there is nobody to ask here: add" in asked.err
    assert [one.method for one in fake.asked] == ["GET", "GET", "GET", "POST"]
    assert (plain.code, rota("drain", "n1", "--migrate", "--yes").code) == (0, 0)


def test_a_cordoned_node_is_drained_and_nothing_moves(fake: Any, rota: Any) -> None:
    fake.routes["POST /nodes/n1:drain"] = {"name": "n1"}

    ended = rota("node", "cordon", "n1")

    assert (ended.code, ended.out) == (0, "cordoned n1\n")
    assert fake.asked[-1].body == {}


def test_the_list_of_nodes_says_how_full_they_are_and_when_they_will_be_empty(
    fake: Any, rota: Any
) -> None:
    amount = {"cpus": 4, "memory_mb": 8192, "disk_mb": 0, "gpus": 2}
    fake.routes["GET /nodes"] = {
        "items": [
            {
                "name": "n1",
                "state": "up",
                "drained": True,
                "migrates": True,
                "deadline_at": "2126-01-01T12:00:00Z",
                "note": "fans",
                "total": amount,
                "used": {"cpus": 3, "memory_mb": 4096, "gpus": 1},
                "jobs": [1, 2],
            }
        ]
    }

    head, line = rota("nodes").out.splitlines()

    assert head.split() == ["NODE", "STATE", "CPUS", "MEM", "GPUS", "JOBS", "NOTE"]
    assert line.split()[:6] == ["n1", "drained", "3/4", "4G/8G", "1/2", "2"]
    assert "fans; its jobs move, empty by 2126-01-01" in line
