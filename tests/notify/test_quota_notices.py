"""What the site is told of quotas."""

import json
from collections.abc import Callable

import pytest

from rota.controller.commands.commands import NoteQuota
from rota.settings.notify import Notify
from rota.testing.scene import ADMIN
from tests.notify.post import Post, hook
from tests.notify.receivers import WebSink

MakePost = Callable[..., Post]


def use_up(post: Post) -> None:
    note = {"actor": ADMIN, "note": "4 of 5 jobs (80 %)"}
    post.scene.ask(NoteQuota(level=80, project="vision", **note))
    post.scene.ask(NoteQuota(level=100, user="ann", **note))
    post.publish()


def test_a_site_that_names_quotas_hears_of_them(make_post: MakePost, web: WebSink) -> None:
    post = make_post(Notify(webhooks=(hook(web.url, events=["quota"]),)))

    use_up(post)

    first, second = (json.loads(one.body) for one in web.wait(2))
    assert first["event"] == "quota_near"
    assert first["account"] == "project vision"
    assert first["text"] == "project vision is near its limit: 4 of 5 jobs (80 %)"
    assert first["detail"] == {"level": 80, "detail": "4 of 5 jobs (80 %)"}
    assert (second["event"], second["account"]) == ("quota_reached", "user ann")
    assert not {"job", "node"} & first.keys()


@pytest.mark.parametrize("events", [[], ["end"], ["node"]])
def test_a_site_that_names_no_quotas_hears_nothing_of_them(
    make_post: MakePost, web: WebSink, events: list[str]
) -> None:
    post = make_post(Notify(webhooks=(hook(web.url, **({"events": events} if events else {})),)))

    use_up(post)
    post.scene.submit("good")
    post.scene.finish("good")
    post.publish()

    post.until_all_told()
    assert not [event for event in web.events if event.startswith("quota")]
