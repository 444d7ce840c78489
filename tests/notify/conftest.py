"""Receivers that are closed behind each test, and couriers over scenes."""

from collections.abc import Callable, Iterator

import pytest

from rota.notify_settings import Notify
from tests.notify.post import Post
from tests.notify.receivers import WebSink


@pytest.fixture
def other_web() -> Iterator[WebSink]:
    sink = WebSink()
    yield sink
    sink.close()


@pytest.fixture
def make_post() -> Iterator[Callable[..., Post]]:
    made: list[Post] = []

    def make(settings: Notify | None = None, **options: object) -> Post:
        made.append(Post(settings or Notify(), **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for post in made:
        post.close()
