"""Being told what happens to jobs, on a live box: webhooks, mail, and a controller that dies."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.journeys.box import until
from tests.notify.receivers import MailSink, WebSink, dead_port

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.journeys.box import Box


def set_up(box: Box, text: str) -> None:
    box.state.mkdir(parents=True, exist_ok=True)
    (box.state / "rota.toml").write_text(text)
    box.up()


def told_of(web: WebSink, job: int, event: str) -> Any:
    return web.until(
        lambda got: [p for p in got if p.event == event and p.json["job"]["id"] == job],
        f"job {job} to be told as {event}",
    )


def test_the_site_and_the_job_are_told_by_webhook_and_by_mail(
    new_box: Callable[..., Box], web: WebSink, mail: MailSink
) -> None:
    box = new_box()
    set_up(
        box,
        f"""
        [notify]
        hosts = ["127.0.0.1"]
        smtp_host = "127.0.0.1"
        smtp_port = {mail.port}
        smtp_from = "rota@box.example"
        [[notify.webhooks]]
        name = "site"
        url = "{web.url}/site"
        headers = {{ "X-Token" = "abc" }}
        """,
    )

    job = box.submit(
        *("--notify", f"{web.url}/own,on=started,end", "--notify", "mail:ann@x.org"),
        *("--", "sh", "-c", "exit 7"),
    )
    box.ended(job)
    told_of(web, job, "failed")
    web.until(lambda got: len(got) >= 6, "four for the site and two for the job")

    site = [p for p in web.got if p.path == "/site"]
    assert [p.event for p in site] == ["submitted", "eligible", "started", "failed"]
    assert all(p.headers["X-Token"] == "abc" for p in site)
    assert [p.event for p in web.got if p.path == "/own"] == ["started", "failed"]
    assert site[-1].json["detail"]["exit_code"] == 7
    assert f"job {job} " in str(mail.wait(1)[0]["Subject"])
    status = json.loads(box.rota("notify", "--json").stdout)
    user = box.show(job)["user"]
    assert {one["name"]: one["given_up"] for one in status["receivers"]} == {
        "webhook site": 0,
        f"jobs at 127.0.0.1:{web.port} of {user}": 0,
        f"mail of {user}": 0,
    }


def test_a_controller_killed_between_commit_and_delivery_still_delivers(
    new_box: Callable[..., Box], web: WebSink
) -> None:
    box = new_box()
    port = dead_port()
    box.env["ROTA_NOTIFY_HOSTS"] = "127.0.0.1"
    box.up()
    web.gate.clear()

    hanging = box.job(["true"], notify=[f"{web.url}/hangs"])
    absent = box.job(["true"], notify=[f"http://127.0.0.1:{port}/absent,on=all"])
    box.ended(absent)
    first = told_of(web, hanging, "completed")[0]
    box.kill("controller")
    late = WebSink(port)
    web.gate.set()

    again = web.until(lambda got: got[1:], "the message under way to come again")[0]
    assert again.headers["Idempotency-Key"] == first.headers["Idempotency-Key"]
    told_of(late, absent, "completed")
    assert late.events == ["submitted", "eligible", "started", "completed"]
    late.close()


def test_a_dead_receiver_slows_nothing_down_and_the_doctor_says_so(
    new_box: Callable[..., Box],
) -> None:
    box = new_box()
    hook = f'[[notify.webhooks]]\nname="gone"\nurl="http://127.0.0.1:{dead_port()}"'
    set_up(box, f"{hook}\nretries = 1\nbackoff_s = 0.05")

    for _ in range(5):
        assert box.ran(["true"])["state"] == "completed"

    def given_up() -> int:
        _, status = box.api("GET", "/notify/status")
        return int(status["receivers"][0]["given_up"])

    until(lambda: given_up() == 20, "four messages of each of five jobs to be given up")
    line = next(
        line for line in box.rota("doctor", check=False).stdout.splitlines() if "gone" in line
    )
    assert line.startswith("warn  notify        webhook gone: down, 20 given up")
    assert "gave up telling webhook gone" in (box.state / "controller.log").read_text()


def test_a_target_that_is_mistyped_is_refused_before_anything_is_sent(home: Box) -> None:
    assert "there is no event 'faild'; did you mean failed?" in home.refusal(
        "submit", "--notify", "https://x.org/a,on=faild", "--", "true"
    )
    assert "sends no mail" in home.refusal("submit", "--notify", "mail:a@x.org", "--", "true")


def test_the_site_is_told_of_nodes_that_are_drained_and_fall_silent(
    new_box: Callable[..., Box], web: WebSink
) -> None:
    box = new_box()
    hook = f'[[notify.webhooks]]\nurl = "{web.url}/ops"\nevents = ["node"]\n'
    set_up(box, hook)

    box.rota("node", "drain", "box", "--reason", "new disk")
    box.rota("node", "resume", "box")
    box.kill("agent")

    web.until(lambda got: any(p.event == "node_silent" for p in got), "the silence to be told")
    told = {p.event: p.json for p in web.got}
    assert told["node_drained"]["text"] == "node box takes no new jobs: new disk"
    assert told["node_resumed"]["node"] == told["node_silent"]["node"] == "box"
    assert all("job" not in body for body in told.values())
