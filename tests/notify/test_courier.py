"""What happens to jobs reaches those who want to know: once at least, in order, and in time."""

import hashlib
import hmac
import socket
import sys
import types
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from rota.controller.commands.commands import Idle, NoteGpus, RemoveReservation
from rota.core.facts.gpu_use import Overuse
from rota.core.facts.notices import ENDS, EVENTS
from rota.notify import receiver as receiver_module
from rota.notify.courier import SENDS_EACH, SENDS_MAX
from rota.rpc.messages import Seen, Sighting
from rota.settings.notify import Notify, PluginRule, read_entries
from rota.testing.scene import ADMIN, ALICE, Scene
from tests.journeys.box import until
from tests.notify.post import Post, hook, mail_rule
from tests.notify.receivers import MailSink, WebSink, dead_port

MakePost = Callable[..., Post]


def live_through_everything(scene: Scene) -> None:
    """Jobs that together have every event of a job's life."""
    scene.submit("good")
    scene.finish("good")
    scene.submit("bad")
    scene.finish("bad", 3)
    scene.submit("greedy")
    uid = scene.job("greedy").tasks[0].attempts[-1].uid
    found = (Overuse(uid, 0, 31_000),)
    idle = (Idle(uid, (0,), scene.now_s),)
    scene.ask(NoteGpus(actor=ADMIN, node="box", overuse=found, idle=idle))
    scene.finish("greedy")
    scene.submit("held", hold=True)
    scene.release("held")
    scene.requeue("held")
    scene.finish("held", None, signal=15)
    scene.cancel("held")
    scene.finish("held", None, signal=15)
    scene.submit("slow", time_limit_s=5, deadline_s=scene.now_s + 3)
    scene.pass_time(6)
    scene.finish("slow", None, signal=15)
    scene.submit("lost")
    uid = scene.job("lost").tasks[0].attempts[-1].uid
    scene.report(Seen(uid, Sighting.MISSING), node="box")
    scene.submit("holder", cpus=4, time_limit_s=60)
    by_s = scene.now_s + 600
    scene.submit("owed", cpus=4, time_limit_s=60, deadline_s=by_s, promise=True)
    (kept,) = scene.cluster.reservations
    scene.ask(RemoveReservation(actor=ADMIN, reservation=kept))
    scene.finish("holder")
    scene.finish("owed")
    scene.set_policy("preemptive", preempt_min_runtime_s=0)
    scene.submit("meek", cpus=4, priority=10, preemptible=True)
    scene.submit("urgent", cpus=4, priority=70)
    scene.finish("meek", None, signal=15)
    scene.submit("late", cpus=4, priority=0, scheduling_timeout_s=5)
    scene.pass_time(6)


def test_every_documented_event_is_really_sent(make_post: MakePost, web: WebSink):
    post = make_post(Notify(webhooks=(hook(web.url),)))

    live_through_everything(post.scene)
    post.publish()
    post.until_all_told()

    assert set(web.events) == set(EVENTS)
    assert web.events.count("deadline_missed") == 1
    assert post.scene.states("good", "bad", "held", "slow", "lost", "meek", "late") == [
        *("completed", "failed", "cancelled", "timeout", "node_failed", "preempted"),
        "unschedulable",
    ]


def test_the_events_of_a_job_come_in_the_order_of_its_life(make_post: MakePost, web: WebSink):
    post = make_post(Notify(webhooks=(hook(web.url),)))

    post.submit("job", hold=True, retries=1, backoff_s=1.0)
    post.scene.release("job")
    post.scene.finish("job", 3)
    post.scene.pass_time(2)
    post.scene.finish("job")
    post.publish()
    post.until_all_told()

    assert web.events == [
        *("submitted", "held", "released", "eligible", "started"),
        *("requeued", "eligible", "started", "completed"),
    ]
    retry = web.got[5].json["detail"]
    assert (retry["why"], retry["cause"]) == ("retry", "exit")


def test_a_message_says_what_happened_to_which_job(make_post: MakePost, web: WebSink):
    settings = Notify(webhooks=(hook(web.url + "/in?x=1", headers={"X-Team": "a"}, secret="s3"),))
    post = make_post(settings)

    job = post.submit("train", project="vision", labels={"app": "web"})
    post.scene.finish("train", 3)
    post.publish()
    failed = web.wait(4)[3]

    assert failed.path == "/in?x=1"
    assert failed.json["event"] == failed.headers["X-Rota-Event"] == "failed"
    assert failed.json["job"] == failed.json["job"] | {
        "id": job,
        "name": "train",
        "user": "alice",
        "project": "vision",
        "labels": {"app": "web"},
        "nodes": ["box"],
    }
    assert failed.json["detail"] == {"cause": "exit", "exit_code": 3, "detail": "exit code 3"}
    assert failed.json["text"] == f"job {job} (train) of alice: failed, exit code 3"
    assert failed.headers["X-Team"] == "a"
    assert failed.headers["Idempotency-Key"] == failed.json["id"]
    sum_ = hmac.new(b"s3", failed.body, hashlib.sha256).hexdigest()
    assert failed.headers["X-Rota-Signature"] == f"sha256={sum_}"


def test_a_start_that_only_its_end_tells_of_is_told_once(make_post: MakePost, web: WebSink):
    post = make_post(Notify(webhooks=(hook(web.url, events=["started", "completed"]),)))
    post.scene.starts = False

    post.submit("brief")
    uid = post.scene.job("brief").tasks[0].attempts[-1].uid
    now_s = post.scene.now_s
    ended = Seen(uid, Sighting.ENDED, started_s=now_s, ended_s=now_s, exit_code=0)
    post.scene.report(ended, node="box")
    post.publish()
    post.until_all_told()

    assert web.events == ["started", "completed"]


def test_a_gang_starts_once_however_many_tasks_it_has(make_post: MakePost, web: WebSink):
    post = make_post(Notify(webhooks=(hook(web.url, events=["started", "end"]),)))

    post.submit("gang", tasks=4)
    post.scene.finish("gang")
    post.publish()
    post.until_all_told()

    assert web.events == ["started", "completed"]


def test_an_array_is_told_as_a_whole_once_whatever_its_elements_do(
    make_post: MakePost, web: WebSink
):
    post = make_post()

    array = post.submit("sweep", f"{web.url},on=all", array="0-3")
    for position, code in enumerate((0, 3, 4, 0)):
        post.scene.finish(array + 1 + position, code)
    post.publish()
    post.until_all_told()

    assert web.events == ["submitted", "eligible", "started", "failed", "failed"]
    assert all(posted.json["job"]["id"] == array for posted in web.got)
    first, last = (posted.json["detail"] for posted in web.got[-2:])
    assert first["element"] == f"{array}_1"
    assert "first failure" in web.got[-2].json["text"]
    assert last["elements"] == {"completed": 2, "failed": 2}


def test_an_array_that_is_cancelled_is_told_when_its_last_element_has_ended(
    make_post: MakePost, web: WebSink
):
    post = make_post()

    array = post.submit("sweep", web.url, array="0-7", cpus=2)
    post.scene.cancel("sweep")
    post.publish()
    for position in range(2):
        post.scene.finish(array + 1 + position, None, signal=15)
    post.publish()
    post.until_all_told()

    assert web.events == ["cancelled"]
    assert web.got[0].json["detail"]["elements"] == {"cancelled": 8}


def test_elements_are_told_by_themselves_to_a_target_that_asks_for_them(
    make_post: MakePost, web: WebSink
):
    post = make_post()

    array = post.submit("sweep", f"{web.url},on=all,elements", array="0-2")
    for position in range(3):
        post.scene.finish(array + 1 + position)
    post.publish()
    post.until_all_told()

    told = [(posted.event, posted.json["job"]["array_index"]) for posted in web.got[2:]]
    assert [posted.json["job"].get("count") for posted in web.got[:2]] == [3, 3]
    assert web.events[:2] == ["submitted", "eligible"]
    assert sorted(told) == [(e, i) for e in ("completed", "started") for i in range(3)]


def test_a_hook_hears_only_of_the_events_users_and_projects_that_it_names(
    make_post: MakePost, web: WebSink, other_web: WebSink
):
    hooks = (
        hook(web.url, name="a", events=["problem"], users=["ali*"]),
        hook(other_web.url, name="b", projects=["vision"], events=["submitted"]),
    )
    post = make_post(Notify(webhooks=hooks))

    from rota.testing.scene import BOB

    post.submit("one", project="vision")
    post.submit("two", project="text", actor=BOB)
    post.scene.finish("one", 1)
    post.scene.finish("two", 1)
    post.publish()
    post.until_all_told()

    assert [(p.event, p.json["job"]["name"]) for p in web.got] == [("failed", "one")]
    assert [(p.event, p.json["job"]["name"]) for p in other_web.got] == [("submitted", "one")]


def test_a_job_that_names_whom_to_tell_tells_how_it_ended(make_post: MakePost, web: WebSink):
    post = make_post()

    post.submit("quiet")
    post.submit("loud", f"{web.url}/a", f"{web.url}/b,on=started")
    post.scene.finish("quiet")
    post.scene.finish("loud")
    post.publish()
    post.until_all_told()

    assert sorted((p.path, p.event) for p in web.got) == [("/a", "completed"), ("/b", "started")]


def test_an_answer_that_asks_for_patience_is_followed_by_another_try(
    make_post: MakePost, web: WebSink
):
    web.status = 503
    post = make_post(Notify(webhooks=(hook(web.url, events=["submitted"], retries=50),)))

    post.submit()
    web.wait(3)
    web.status = 200
    post.until_all_told()

    assert len({posted.json["id"] for posted in web.got}) == 1
    assert post.receiver(f"webhook 127.0.0.1:{web.port}").sent == 1


def test_a_message_that_is_refused_is_not_sent_again(make_post: MakePost, web: WebSink):
    web.status = 404
    post = make_post(Notify(webhooks=(hook(web.url, name="h", events=["submitted"]),)))

    post.submit()
    post.until_all_told()

    assert len(web.got) == 1
    assert (post.receiver("webhook h").given_up, post.receiver("webhook h").down) == (1, False)
    assert post.receiver("webhook h").problem == "it answered 404"


def test_a_dead_receiver_is_given_up_and_said_so_and_keeps_nobody_waiting(
    make_post: MakePost, web: WebSink, caplog: pytest.LogCaptureFixture
):
    dead = hook(f"http://127.0.0.1:{dead_port()}", name="dead", events=["submitted"])
    post = make_post(Notify(webhooks=(dead, hook(web.url, name="live", events=["submitted"]))))

    for _ in range(5):
        post.submit()
    web.wait(5)
    post.until_all_told()

    assert post.receiver("webhook dead").given_up == 5
    assert post.receiver("webhook dead").down
    assert "gave up telling webhook dead that job 1 submitted after 3 tries" in caplog.text
    assert post.receiver("webhook live").given_up == 0


def test_a_receiver_that_hangs_holds_up_only_itself(
    make_post: MakePost, web: WebSink, other_web: WebSink
):
    web.gate.clear()
    hooks = (hook(web.url, name="slow", timeout_s=30), hook(other_web.url, name="quick"))
    post = make_post(Notify(webhooks=hooks))

    for number in range(20):
        post.submit(f"job{number}")
    other_web.until(lambda got: sum(p.event == "submitted" for p in got) == 20, "all 20")
    web.wait(1)

    assert len(web.got) == 1
    assert post.receiver("webhook slow").waiting


def test_what_one_user_asks_for_keeps_nobody_elses_messages_waiting(
    make_post: MakePost, web: WebSink, other_web: WebSink
):
    """Whether they go to the same place, or to as many others as there are sends at once."""
    hanging = [WebSink() for _ in range(SENDS_MAX)]
    for sink in hanging:
        sink.gate.clear()
    site = hook(other_web.url, name="site", users=["bob"], events=["submitted"])
    post = make_post(Notify(webhooks=(site,), hosts=("127.0.0.1",), timeout_s=30))

    for sink in hanging:
        post.submit("hers", f"{sink.url}/x,on=submitted", actor=replace(ALICE, user="mallory"))
    web.status = 503
    post.submit("late", f"{web.url}/x,on=submitted", actor=replace(ALICE, user="mallory"))
    until(lambda: sum(len(sink.got) for sink in hanging) == SENDS_EACH, "her share of the sends")
    post.submit("his", f"{web.url}/his,on=submitted", actor=replace(ALICE, user="bob"))

    web.until(lambda got: any(posted.path == "/his" for posted in got), "what bob asked for")
    other_web.wait(1)
    assert sum(len(sink.got) for sink in hanging) == SENDS_EACH
    for sink in hanging:
        sink.gate.set()
        sink.close()


def test_what_does_not_fit_in_memory_waits_in_the_log(
    make_post: MakePost, web: WebSink, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(receiver_module, "WAITING_MAX", 5)
    monkeypatch.setattr("rota.notify.courier.WAITING_MAX", 5)
    web.gate.clear()
    post = make_post(Notify(webhooks=(hook(web.url, name="h", timeout_s=30),)))

    jobs = [post.submit(f"job{number}") for number in range(300)]
    web.wait(1)
    post.until(lambda: post.receiver("webhook h").behind, "it to be behind")
    assert len(post.receiver("webhook h").waiting) <= 7
    web.gate.set()
    post.until_all_told()

    told = [posted.json["job"]["id"] for posted in web.got if posted.event == "submitted"]
    assert told == jobs


def test_what_was_committed_before_a_crash_is_told_after_it(make_post: MakePost, web: WebSink):
    post = make_post(Notify(webhooks=(hook(web.url),)))
    post.submit("before")
    post.until_all_told()
    told = len(web.got)

    post.die()
    post.scene.finish("before")
    post.scene.submit("unseen")
    post.begin()
    post.until_all_told()

    assert web.events[told:] == ["completed", "submitted", "eligible", "started"]


def test_a_message_under_way_at_a_crash_comes_again_with_the_same_id(
    make_post: MakePost, web: WebSink, other_web: WebSink
):
    web.gate.clear()
    hooks = (hook(web.url, name="hangs", timeout_s=30), hook(other_web.url, name="well"))
    post = make_post(Notify(webhooks=hooks))

    post.submit("job")
    web.wait(1)
    other_web.wait(3)
    post.until_all_told_but("webhook hangs")
    post.die()
    web.gate.set()
    post.begin()
    post.until_all_told()

    ids = [posted.json["id"] for posted in web.got]
    assert ids[0] == ids[1]
    assert web.events == ["submitted", "submitted", "eligible", "started"]
    assert len(other_web.got) == 3, "who was told already is not told again"


def test_a_store_that_never_told_anybody_does_not_tell_its_past(make_post: MakePost, web: WebSink):
    scene = Scene()
    scene.submit("old")
    post = make_post(Notify(webhooks=(hook(web.url),)), scene=scene)

    post.submit("new")
    post.until_all_told()

    assert {posted.json["job"]["name"] for posted in web.got} == {"new"}


def test_events_that_concern_nobody_cost_no_reading(make_post: MakePost):
    post = make_post()
    reads: list[int] = []
    inner = post.scene.store.events

    def events(**limits: int) -> object:
        reads.append(1)
        return inner(**limits)

    records = []
    for number in range(50):
        post.scene.submit(f"job{number}")
    records = inner(after=post.published, limit=10_000)
    post.scene.store.events = events  # type: ignore[method-assign,assignment]
    assert post.courier is not None
    post.courier.publish(records)

    assert post.courier.status() == (0, [])
    assert not reads


def test_a_mail_says_how_a_job_ended(make_post: MakePost, mail: MailSink):
    settings = Notify(
        smtp_host="127.0.0.1", smtp_port=mail.port, smtp_from="rota@box.example", smtp_user="u",
        smtp_password="p", smtp_security="none", mails=(mail_rule("ops@x.org", events=["failed"]),),
    )  # fmt: skip
    post = make_post(settings)

    post.submit("träin", "mail:ann@x.org")
    post.scene.finish("träin", 3)
    post.publish()
    mails = sorted(mail.wait(2), key=lambda one: str(one["To"]))

    assert [one["To"] for one in mails] == ["ann@x.org", "ops@x.org"]
    assert mails[0]["From"] == "rota@box.example"
    assert mails[0]["X-Rota-Event"] == "failed"
    assert mails[0]["Message-ID"] == f"<{mails[0]['X-Rota-Delivery']}@box.example>"
    text = mails[0].get_payload(decode=True).decode().replace("\r\n", "\n")
    assert text.startswith("job 1 (träin) of alice: failed, exit code 3\n")
    assert "nodes:         box\n" in text
    assert len(mail.logins) == 2


def test_an_address_that_the_mail_server_refuses_is_given_up_at_once(
    make_post: MakePost, mail: MailSink
):
    settings = Notify(smtp_host="127.0.0.1", smtp_port=mail.port, smtp_from="rota@box.example")
    post = make_post(settings)

    post.submit("a", "mail:nobody@x.org")
    post.submit("b", "mail:ann@x.org")
    post.scene.finish("a")
    post.scene.finish("b")
    post.publish()
    mail.wait(1)
    post.until_all_told()

    assert post.receiver("mail of alice").problem == ""
    assert (post.receiver("mail of alice").sent, post.receiver("mail of alice").given_up) == (1, 1)


def test_a_notifier_of_ones_own_is_given_the_notice(
    make_post: MakePost, monkeypatch: pytest.MonkeyPatch
):
    told: list[tuple[str, str, str]] = []

    class Chat:
        def __init__(self, token: str) -> None:
            self.token = token

        def send(self, notice, address, timeout_s):
            if not told:
                told.append(("", "", ""))
                raise RuntimeError("not the first time")
            told.append((self.token, address, notice.event))

    module = types.ModuleType("site_chat")
    module.Chat = Chat  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "site_chat", module)
    table = {"use": "site_chat:Chat", "name": "chat", "options": {"token": "t"}, "backoff_s": 0.01}
    rule = read_entries("plugins", [table])[0]
    assert isinstance(rule, PluginRule)
    post = make_post(Notify(plugins=(rule,), backoff_s=0.01))

    post.submit("job", "chat:#ml,on=started")
    post.until_all_told()

    assert told[1:] == [("t", "#ml", "started")]


def test_ends_are_what_people_hear_of_by_default():
    assert set(ENDS) == {
        *("completed", "failed", "cancelled", "timeout", "node_failed", "unschedulable"),
    }


def test_a_name_that_leads_inside_is_not_followed(make_post, web):
    post = make_post(Notify(backoff_s=0.01))
    inside = f"http://localhost:{web.port}/x,on=submitted"

    post.submit("job", inside)

    post.until_all_told()
    told = post.receiver(f"jobs at localhost:{web.port} of alice")
    assert (told.given_up, "which is not public (see notify.hosts)" in told.problem) == (1, True)
    assert web.got == []


def test_a_name_that_changes_its_mind_is_not_asked_twice(make_post, web, monkeypatch):
    asked = []
    real = socket.getaddrinfo

    def resolver(host, port, *more, **options):
        if host != "rebinding.example.org":
            return real(host, port, *more, **options)
        asked.append(host)
        return real("192.88.99.1" if len(asked) == 1 else "127.0.0.1", port, *more, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolver)
    post = make_post(Notify(retries=0, timeout_s=0.3))

    post.submit("job", f"http://rebinding.example.org:{web.port}/x,on=submitted")

    post.until_all_told()
    assert asked == ["rebinding.example.org"]
    assert web.got == []
