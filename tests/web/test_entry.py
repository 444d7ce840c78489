"""Who comes in to the web page, and what a browser cannot be tricked into."""

from __future__ import annotations

import http.client
import json
import re
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from rota.web import room
from tests.api.running import WAIT_S, Answer, Running, running

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGES = ("/", "/web/job/1", "/web/sweep/1", "/web/care", "/web/people", "/web/plan", "/web/nothing")
OURS = {"X-Rota-Page": "1"}


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with tempfile.TemporaryDirectory(prefix="rota-") as name, running(Path(name)) as started:
        yield started


def ask(
    server: Running, method: str, path: str, body: object = None, cookie: str = "", **more: str
) -> Answer:
    """One request over the network, with these headers and a cookie."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=WAIT_S)
    headers = {name.replace("_", "-"): value for name, value in more.items()}
    headers |= {"Cookie": cookie} if cookie else {}
    try:
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        return Answer(connection.getresponse())
    finally:
        connection.close()


def token_of(server: Running, user: str, access: str = "user") -> str:
    return str(server.local().post("/tokens", {"user": user, "access": access}).json["token"])


def sign_in(server: Running, token: str) -> Answer:
    return ask(server, "POST", "/web/sign-in", {"token": token}, X_Rota_Page="1")


def cookie_of(answer: Answer) -> str:
    return str(answer.headers["Set-Cookie"]).partition(";")[0]


def test_nobody_sees_a_page_or_a_feed_without_a_name(server: Running) -> None:
    for path in PAGES:
        answer = ask(server, "GET", path)
        assert answer.status == 303
        assert answer.headers["Location"].startswith("/web/sign-in?next=")
        assert answer.body == b""
    for path in ("/web/feed/nodes", "/web/feed/queue", "/web/feed/care", "/web/live"):
        assert ask(server, "GET", path).status == 401


def test_a_token_signs_in_by_a_cookie_that_no_script_reads(server: Running) -> None:
    answer = sign_in(server, token_of(server, "ada"))

    assert answer.json == {"user": "ada"}
    flags = answer.headers["Set-Cookie"].split("; ")[1:]
    assert flags == ["Path=/", "HttpOnly", "SameSite=Strict"]
    page = ask(server, "GET", "/", cookie=cookie_of(answer))
    assert page.status == 200
    assert b'data-user="ada"' in page.body
    status = ask(server, "GET", "/api/v1/status", cookie=cookie_of(answer)).json
    assert (status["user"], status["access"]) == ("ada", "user")


@pytest.mark.parametrize("token", ["", "rota_0_no", "x; Path=/", 'a"b', "ü" * 9])
def test_a_token_that_is_not_valid_sets_no_cookie(server: Running, token: str) -> None:
    answer = sign_in(server, token)

    assert answer.status == 401
    assert "Set-Cookie" not in answer.headers
    assert "token is not valid" in answer.json["detail"]


def test_a_token_of_agents_and_a_body_of_another_kind_open_nothing(server: Running) -> None:
    agent = str(server.local().post("/tokens", {"access": "agent"}).json["token"])

    assert sign_in(server, agent).status == 403
    refused = ask(server, "POST", "/web/sign-in", ["x"], X_Rota_Page="1")
    assert (refused.status, refused.json["field"]) == (400, "token")


def test_a_change_by_cookie_needs_the_header_that_no_other_site_can_send(server: Running) -> None:
    cookie = cookie_of(sign_in(server, token_of(server, "ada")))
    job = {"command": ["true"], "hold": True}

    refused = ask(server, "POST", "/api/v1/jobs", job, cookie)
    taken = ask(server, "POST", "/api/v1/jobs", job, cookie, X_Rota_Page="1")

    assert (refused.status, refused.json["field"]) == (403, "x-rota-page")
    assert taken.status == 201
    assert ask(server, "DELETE", f"/api/v1/jobs/{taken.json['id']}", None, cookie).status == 403
    assert ask(server, "POST", "/web/sign-in", {"token": "x"}).status == 403


def test_a_terminal_opens_for_a_page_of_ours_only(server: Running) -> None:
    job = server.local().submit(["true"], hold=True)
    cookie = cookie_of(sign_in(server, token_of(server, "root", "admin")))
    for path in (f"/web/terminal/{job}", f"/api/v1/jobs/{job}/attach"):
        for origin, reason in (
            ("http://elsewhere.example", "a token is needed"),
            (f"http://127.0.0.1:{server.port}", "has no terminal"),
        ):
            address = f"ws://127.0.0.1:{server.port}{path}"
            with connect(address, additional_headers={"Cookie": cookie}, origin=origin) as line:
                with pytest.raises(ConnectionClosed) as closed:
                    line.recv(WAIT_S)
                assert closed.value.rcvd is not None
                assert reason in closed.value.rcvd.reason


def test_a_link_lets_its_maker_in_once(server: Running) -> None:
    made = server.network(token_of(server, "ada")).post("/web/links").json
    assert made["url"].endswith(made["path"])

    first = ask(server, "GET", made["path"])
    again = ask(server, "GET", made["path"])

    assert (first.status, first.headers["Location"]) == (303, "/")
    assert b'data-user="ada"' in ask(server, "GET", "/", cookie=cookie_of(first)).body
    assert again.headers["Location"] == "/web/sign-in?used=1"
    assert "Set-Cookie" not in again.headers


def test_links_without_number_of_one_user_take_nobody_elses_away(server: Running) -> None:
    ada = server.local(token_of(server, "ada")).post("/web/links").json["path"]
    mallory = server.local(token_of(server, "mallory"))

    made = [mallory.post("/web/links").json["path"] for _ in range(room.LINKS_MAX + 1)]

    left = [ask(server, "GET", path).headers["Location"] for path in (made[0], made[1])]
    assert left == ["/web/sign-in?used=1", "/"]
    assert ask(server, "GET", ada).headers["Location"] == "/"


def test_a_link_that_is_too_old_lets_nobody_in(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "LINK_S", -1.0)
    made = server.local().post("/web/links").json

    answer = ask(server, "GET", made["path"])

    assert answer.headers["Location"] == "/web/sign-in?used=1"


def test_what_a_link_makes_does_not_outlive_its_maker(server: Running) -> None:
    asked = {"user": "eve", "access": "user", "expires_s": 600}
    made = server.local().post("/tokens", asked).json
    caller = server.network(made["token"])
    used, late = (caller.post("/web/links").json["path"] for _ in range(2))

    cookie = cookie_of(ask(server, "GET", used))
    tokens = server.local().get("/tokens").json["items"]
    server.local().delete(f"/tokens/{made['id']}")

    assert ask(server, "GET", late).headers["Location"] == "/web/sign-in?used=1"
    (page,) = [token for token in tokens if token["user"] == "eve" and token["by"] == made["id"]]
    assert (page["note"], page["expires_at"]) == ("web page", made["expires_at"])
    assert ask(server, "GET", "/api/v1/status", cookie=cookie).status == 401


def test_a_viewer_makes_no_links(server: Running) -> None:
    refused = server.network(token_of(server, "vera", "viewer")).post("/web/links")

    assert refused.status == 403


def test_signing_out_ends_what_a_link_began_and_revoking_ends_any_page(server: Running) -> None:
    path = server.network(token_of(server, "ada")).post("/web/links").json["path"]
    by_link = cookie_of(ask(server, "GET", path))
    out = ask(server, "POST", "/web/sign-out", {}, by_link, X_Rota_Page="1")
    assert out.headers["Set-Cookie"].endswith("Max-Age=0")
    assert ask(server, "GET", "/api/v1/status", cookie=by_link).status == 401
    token = token_of(server, "ben")
    by_token = cookie_of(sign_in(server, token))

    server.local().delete(f"/tokens/{token.split('_')[1]}")

    answer = ask(server, "GET", "/web/plan", cookie=by_token)
    assert answer.headers["Location"] == "/web/sign-in?next=%2Fweb%2Fplan"
    assert answer.headers["Set-Cookie"].endswith("Max-Age=0")


def test_two_rotas_on_one_host_have_a_cookie_each(server: Running) -> None:
    cookie = cookie_of(sign_in(server, token_of(server, "ada")))

    assert cookie.startswith(f"rota_{server.port}=")
    assert ask(server, "GET", "/api/v1/status", cookie=f"x{cookie}").status == 401
    other = cookie.replace(str(server.port), "1", 1)
    assert ask(server, "GET", "/api/v1/status", cookie=other).status == 401


@pytest.mark.parametrize("place", ["https://evil.example/", "//evil.example", "/\\evil", "x"])
def test_signing_in_leads_to_no_other_site(server: Running, place: str) -> None:
    page = ask(server, "GET", f"/web/sign-in?next={place}")

    assert b'data-next="/"' in page.body


def test_every_page_says_what_a_browser_may_load(server: Running) -> None:
    cookie = cookie_of(sign_in(server, token_of(server, "root", "admin")))
    job = server.local().submit(["true"], hold=True)
    for path in (*PAGES, "/web/sign-in", f"/web/job/{job}", "/web/feed/nodes"):
        headers = ask(server, "GET", path, cookie=cookie).headers
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-store"


def test_files_are_kept_by_what_is_in_them_and_nothing_else_is_given_out(server: Running) -> None:
    page = ask(server, "GET", "/web/sign-in").body.decode()
    names = re.findall(r'(?:href|src)="(/web/static/[^"]+)"', page)
    assert len(names) == 4

    for name in names:
        answer = ask(server, "GET", name)
        assert answer.status == 200
        assert "immutable" in answer.headers["Cache-Control"]
    folder = names[0].rpartition("/")[0]
    for name in ("../frames.py", "..%2fframes.py", "none.js", ""):
        assert ask(server, "GET", f"{folder}/{name}").status == 404


def test_other_methods_and_unknown_feeds_are_refused_in_a_line(server: Running) -> None:
    cookie = cookie_of(sign_in(server, token_of(server, "ada")))

    assert ask(server, "PUT", "/", {}, cookie, X_Rota_Page="1").status == 405
    assert ask(server, "GET", "/web/feed/none", cookie=cookie).status == 404
    bad = ask(server, "GET", "/web/feed/queue?page=-1", cookie=cookie)
    assert (bad.status, bad.json["field"]) == (400, "page")
    assert ask(server, "GET", "/web/feed/care", cookie=cookie).status == 403
    page = ask(server, "GET", "/web/care", cookie=cookie)
    assert (page.status, b"this needs admin or operator" in page.body) == (403, True)


@pytest.mark.parametrize("body", ["\\" * 60_000, "\\a" * 30_000, "x" * 60_000])
def test_a_cookie_of_a_stranger_keeps_nobody_waiting(server: Running, body: str) -> None:
    """Whatever is in it, and before anybody knows who sends it."""
    name = f"rota_{server.port}"
    began_s = time.monotonic()

    for cookie in (f'{name}="{body}"', f"a={body}; {name}={body}"):
        assert ask(server, "GET", "/api/v1/status", cookie=cookie).status == 401

    assert time.monotonic() - began_s < 2.0


def test_the_cookie_is_found_among_those_of_other_pages(server: Running) -> None:
    ours = cookie_of(sign_in(server, token_of(server, "ann")))

    for around in ("{}; a=b", 'a="x;y"; {}', "odd; =; {}; z", "{};", " {} ;b={}"):
        assert (
            ask(server, "GET", "/web/feed/nodes", cookie=around.replace("{}", ours)).status == 200
        )
    for wrong in (f"x{ours}", ours.replace("=", "x=", 1), ours + "x", ours.upper()):
        assert ask(server, "GET", "/web/feed/nodes", cookie=wrong).status == 401
