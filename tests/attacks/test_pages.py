"""What is shown in a web page keeps nobody waiting, whatever a job prints."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, unix_connect

from rota.web.terminal import SCREENS_MAX, TOO_MUCH
from tests.attacks.people import Person
from tests.journeys.box import DEADLINE_S, acting_as, until

#: Each is a few bytes that a drawn screen takes long for, or that it keeps.
BOMBS = {
    "fills": r"\033#8",
    "stacks": r"a\314\201\314\201\314\201\314\201\314\201\314\201\314\201\314\201",
    "titles": r"\033]0;xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "odd": r"\033[1;2;3;4A\033[?5A\033[99999999999999999999B\033[?1;2c",
}
#: A call that nothing holds up takes no longer, on a loaded machine too.
AT_ONCE_S = 3.0


@contextmanager
def page_at(person: Person, job: int) -> Iterator[ClientConnection]:
    """A page with the terminal of a job, as large as one can be."""
    with acting_as(person.user):
        page = unix_connect(
            str(person.state / "rota.sock"), f"ws://x/web/terminal/{job}", max_size=None
        )
    with page:
        yield page


def with_terminal(person: Person, script: str) -> int:
    job = person.job(["sh", "-c", script], pty=True)
    person.reach(job, "running")
    return job


@pytest.mark.parametrize("bomb", BOMBS)
def test_no_output_in_a_page_holds_up_the_controller(mallory: Person, alice: Person, bomb: str):
    job = with_terminal(mallory, f"read go; while :; do printf '{BOMBS[bomb] * 20}'; done")

    with page_at(mallory, job) as page:
        page.send(json.dumps({"rows": 100, "columns": 300}))
        page.send(b"go\n")
        slowest_s, until_s = 0.0, time.monotonic() + 2.0
        while time.monotonic() < until_s:
            began_s = time.monotonic()
            assert alice.api("GET", "/status")[0] == 200
            slowest_s = max(slowest_s, time.monotonic() - began_s)
            with suppress(TimeoutError, ConnectionClosed):
                page.recv(timeout=0.1)

    assert slowest_s < AT_ONCE_S
    alice.is_served_soon()


def test_a_screen_that_is_not_done_in_time_ends_and_says_so(mallory: Person):
    job = with_terminal(mallory, f"read go; while :; do printf '{BOMBS['fills'] * 200}'; done")

    with page_at(mallory, job) as page, pytest.raises(ConnectionClosed) as closed:  # noqa: PT012
        page.send(json.dumps({"rows": 100, "columns": 300}))
        page.send(b"go\n")
        while True:
            page.recv(timeout=DEADLINE_S)

    assert closed.value.rcvd is not None
    assert closed.value.rcvd.reason == TOO_MUCH


def test_what_follows_an_odd_sequence_is_shown(mallory: Person):
    job = with_terminal(mallory, f"read go; printf '{BOMBS['odd']}\\033[0mseen'; sleep 300")
    shown = ""

    with page_at(mallory, job) as page:
        page.send(b"go\n")
        while "seen" not in shown:
            shown += str(page.recv(timeout=DEADLINE_S))


def test_one_user_has_so_many_terminals_open_and_no_more(mallory: Person, alice: Person):
    job, other = with_terminal(mallory, "sleep 300"), with_terminal(alice, "read go; sleep 300")
    pages = [page_at(mallory, job) for _ in range(SCREENS_MAX)]
    for page in pages:
        page.__enter__()

    with page_at(mallory, job) as one_more, pytest.raises(ConnectionClosed) as refused:
        one_more.recv(timeout=DEADLINE_S)
    with page_at(alice, other) as hers:
        hers.send(b"hello\n")
        assert "hello" in str(hers.recv(timeout=DEADLINE_S))
    for page in pages:
        page.__exit__(None, None, None)

    assert refused.value.rcvd is not None
    assert "close one" in refused.value.rcvd.reason
    until(lambda: _is_let_in(mallory, job), "a page to be let in again")


def _is_let_in(person: Person, job: int) -> bool:
    with page_at(person, job) as page:
        try:
            page.recv(timeout=0.5)
        except ConnectionClosed:
            return False
        except TimeoutError:
            return True
        return True
