"""Receivers that are closed behind each test, and couriers over scenes."""

from collections.abc import Callable, Iterator

import pytest

from rota.settings.notify import Notify
from tests.notify.post import Post
from tests.notify.receivers import WebSink

#: Where the receivers of tests are: jobs may name it because the site says so.
HERE = "127.0.0.1"


@pytest.fixture
def other_web() -> Iterator[WebSink]:
    sink = WebSink()
    yield sink
    sink.close()


@pytest.fixture
def make_post() -> Iterator[Callable[..., Post]]:
    made: list[Post] = []

    def make(settings: Notify | None = None, **options: object) -> Post:
        made.append(Post(settings or Notify(hosts=(HERE,)), **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for post in made:
        post.close()
