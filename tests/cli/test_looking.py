"""Looking again and again, and finding the file itself."""

from rota.cli.service.service import status_lines
from tests.cli.fake_server import Answer
from tests.cli.test_render import a_job


def test_a_watched_queue_is_listed_anew_until_it_is_interrupted(fake, rota):
    fake.routes["GET /jobs"] = [
        Answer({"items": [a_job(id=1, state="queued")], "cursor": None}),
        Answer({"items": [a_job(id=1, state="running")], "cursor": None}),
        Answer({"title": "gone", "status": 503, "detail": "rota is stopping"}, status=503),
    ]

    ended = rota("queue", "--watch", "0.01", "--fields", "id,state")

    assert [line.split() for line in ended.out.splitlines() if line.startswith("1")] == [
        ["1", "queued"],
        ["1", "running"],
    ]
    assert "rota is stopping" in ended.err


def test_the_path_of_a_log_is_where_the_agent_keeps_it(fake, rota, tmp_path):
    attempt = {"task": 0, "number": 1, "uid": "u7.0.1", "node": "box"}
    fake.routes["GET /jobs/7"] = a_job(id=7, attempts=[attempt])
    kept = tmp_path / "agent" / "logs" / "u7.0.1.err"
    kept.parent.mkdir(parents=True)
    kept.write_text("bad\n")

    assert rota("logs", "7", "--stderr", "--path").out == f"{kept}\n"
    assert "on box, not here" in rota("logs", "7", "--path").err


def test_the_path_of_a_log_is_the_one_that_was_asked_for(fake, rota):
    fake.routes["GET /jobs/7"] = a_job(id=7, output="/data/out.txt")

    assert rota("logs", "7", "--path").out == "/data/out.txt\n"


def test_status_tells_of_nodes_that_vanished_together_and_else_says_nothing():
    calm = {"controller": {}, "agent": {}, "jobs": {}}
    told = {**calm, "warning": "3 of 5 nodes fell silent together"}

    assert status_lines(told)[-1].split() == ["warning:", *told["warning"].split()]
    assert not any("warning" in line for line in status_lines(calm))
