"""A job that is linked to a run of an experiment: its end sets the run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from rota.core.facts.errors import Rejected
from rota.notify.plugins import load_notifier
from rota.settings.notify import EVENTS, Notify, PluginRule

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.notify.post import Post
    from tests.notify.receivers import WebSink


def tracked(url: str, **options: object) -> Notify:
    rule = PluginRule(
        use="tracker",
        name="tracker",
        address="run",
        events=EVENTS,
        options={"url": url, **options},
        backoff_s=0.01,
    )
    return Notify(plugins=(rule,))


def bodies(sink: WebSink, count: int) -> list[dict[str, Any]]:
    return [json.loads(one.body) for one in sink.wait(count)]


@pytest.mark.parametrize(
    ("code", "signal", "cancel", "status"),
    [(0, 0, False, "finished"), (3, 0, False, "crashed"), (None, 15, True, "killed")],
)
def test_the_end_of_a_job_sets_its_run(
    make_post: Callable[..., Post], other_web: WebSink, code, signal, cancel, status
):
    post = make_post(tracked(other_web.url))

    job = post.submit("train", labels={"run": "4f2a"})
    if cancel:
        post.scene.cancel(job)
    post.scene.finish(job, code, signal=signal)
    post.publish()

    first, last = bodies(other_web, 2)
    assert first == {"run_id": "4f2a", "status": "running", "job_id": job}
    assert (last["run_id"], last["status"]) == ("4f2a", status)
    assert last["end_time"] == int(post.scene.now_s * 1000)


def test_jobs_without_a_run_are_not_told_of(make_post: Callable[..., Post], other_web: WebSink):
    post = make_post(tracked(other_web.url))

    post.scene.finish(post.submit("plain"))
    post.scene.finish(post.submit("train", labels={"run": "b"}))
    post.publish()
    post.until_all_told()

    assert {body["run_id"] for body in bodies(other_web, 2)} == {"b"}


def test_a_tracker_has_its_own_words_and_its_own_paths(
    make_post: Callable[..., Post], other_web: WebSink
):
    names = {"finished": "FINISHED", "running": "RUNNING"}
    post = make_post(tracked(f"{other_web.url}/runs/{{run}}", names=names))

    post.scene.finish(post.submit("train", labels={"run": "a/b"}))
    post.publish()

    assert [body["status"] for body in bodies(other_web, 2)] == ["RUNNING", "FINISHED"]
    assert all(one.path.endswith("/runs/a%2Fb") for one in other_web.wait(2))


def test_a_tracker_that_is_away_is_tried_again(make_post: Callable[..., Post], other_web: WebSink):
    other_web.status = 503
    post = make_post(tracked(other_web.url))

    post.scene.finish(post.submit("train", labels={"run": "a"}))
    post.publish()
    other_web.wait(2)
    other_web.status = 204
    post.until_all_told()

    told = [json.loads(one.body)["status"] for one in other_web.got]
    assert told[:2] == ["running", "running"]
    assert told[-1] == "finished"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"url": "ftp://x"}, "expected http"),
        ({"url": "http://x/", "names": {"done": "x"}}, "names: 'done' is not valid; known: run"),
        ({}, "url"),
    ],
)
def test_bad_options_are_refused_at_the_start(options, words):
    rule = PluginRule(use="tracker", name="tracker", address="run", options=options)

    with pytest.raises(Rejected, match=words):
        load_notifier(rule)
