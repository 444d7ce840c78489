"""Whom a job wants to tell, over REST."""

from tests.api.running import Caller, Running


def test_a_job_keeps_whom_it_tells_and_shows_it_to_its_owner_only(server: Running, caller: Caller):
    target = "https://hooks.example.org/secret,on=started,failed"
    job = server.as_user("ann").submit(notify=[target, "http://hooks.example.org:81/x"], hold=True)

    assert server.as_user("ann").job(job)["notify"] == [target, "http://hooks.example.org:81/x"]
    assert server.as_user("bob").job(job)["notify"] == []
    again = caller.get(f"/jobs/{job}/request").json
    assert again["notify"] == [target, "http://hooks.example.org:81/x"]


def test_whom_a_waiting_job_tells_can_be_changed(caller: Caller):
    job = caller.submit(notify=["https://a.example.org"], hold=True)

    changed = caller.patch(f"/jobs/{job}", {"notify": ["https://b.example.org"]})

    assert changed.status == 200, changed.body
    assert caller.job(job)["notify"] == ["https://b.example.org"]
    assert caller.patch(f"/jobs/{job}", {"notify": []}).status == 200
    assert caller.job(job)["notify"] == []


def test_a_target_that_cannot_be_served_is_refused_at_submit(caller: Caller):
    for target, problem in [
        ("mail:ann@example.org", "sends no mail"),
        ("ftp://x.org/a", "there is no notifier ftp"),
        ("https://x.org,on=finishd", "there is no event"),
    ]:
        answer = caller.post("/jobs", {"command": "true", "notify": [target]})
        assert answer.status == 400
        assert answer.json["field"] == "notify"
        assert problem in answer.json["detail"]
    many = [f"https://x.org/{number}" for number in range(21)]
    assert caller.post("/jobs", {"command": "true", "notify": many}).status == 400


def test_the_status_lists_every_event_that_can_be_told(caller: Caller):
    status = caller.get("/notify/status").json

    assert "node_failed" in status["events"]
    assert (status["mail"], status["receivers"]) == (False, [])
