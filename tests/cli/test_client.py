"""The thin client: addresses, tokens, broken lines, problem documents."""

import socket
import threading

import pytest

from rota.client.errors import ClientError, Refused, Unreachable
from rota.client.http import Client
from tests.cli.fake_server import Answer
from tests.support.ports import quiet_port


@pytest.fixture
def client(fake):
    made = Client([f"unix://{fake.path}"])
    yield made
    made.close()


def test_parameters_that_are_not_set_are_not_sent(fake, client):
    fake.routes["GET /jobs"] = {}

    client.get("/jobs", user="a b&c", name=None, label="", page=True, limit=0)

    assert fake.asked[0].query == {"user": "a b&c", "page": "1", "limit": "0"}


def test_a_token_travels_as_a_bearer(fake):
    fake.routes["GET /status"] = {}
    client = Client.from_environment({"ROTA_URL": f"unix://{fake.path}", "ROTA_TOKEN": "t"})

    client.get("/status")
    client.close()

    assert fake.asked[0].headers["Authorization"] == "Bearer t"


@pytest.mark.parametrize(
    "url", ["localhost:8082", "ftp://x", "http://", "unix://", "http://x:port", "nonsense", "/sock"]
)
def test_an_address_that_cannot_be_meant_is_refused(url):
    with pytest.raises(ClientError, match=r"ROTA_URL: .* is not valid; expected http"):
        Client.from_environment({"ROTA_URL": url})


def test_the_second_address_is_used_when_nothing_answers_at_the_first(fake, tmp_path):
    fake.routes["GET /status"] = {"nodes": 1}
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(tmp_path / "stale.sock"))
    stale.close()
    client = Client([f"unix://{tmp_path}/stale.sock", f"unix://{fake.path}"])

    answer = client.get("/status")
    client.close()

    assert answer["nodes"] == 1


def test_nobody_at_a_port_is_told_with_the_address():
    port = quiet_port()
    client = Client.from_environment({"ROTA_URL": f"http://127.0.0.1:{port}"})

    with pytest.raises(Unreachable, match=rf"nothing answers at http://127\.0\.0\.1:{port}: "):
        client.get("/status")


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"detail": "no\n such  job", "code": "not_found"}, 404, "no such job"),
        ({"title": "Forbidden"}, 403, "Forbidden"),
        ({}, 500, "the server answered 500"),
        (b"<html>Bad Gateway</html>", 502, "<html>Bad Gateway</html>"),
        (b"", 502, "the server answered 502 Bad Gateway"),
        ([1], 500, "the server answered 500"),
    ],
)
def test_every_refusal_is_one_line_whatever_its_body(fake, client, body, status, words):
    fake.is_rota = False
    fake.routes["GET /x"] = Answer(body, status)

    with pytest.raises(Refused) as caught:
        client.get("/x")

    assert str(caught.value).startswith(words)
    assert "\n" not in str(caught.value)
    assert caught.value.status == status


class OneShot:
    """Takes connections, answers ``answers`` of them once each and then hangs up."""

    def __init__(self, path, answers):
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self.requests = []
        self._thread = threading.Thread(target=self._serve, args=(answers,))
        self._thread.start()

    def _serve(self, answers):
        for answer in answers:
            connection, _ = self._listener.accept()
            with connection:
                request = connection.recv(65536)
                while b"Content-Length" in request and not request.endswith(b"{}"):
                    request += connection.recv(65536)
                self.requests.append(request)
                connection.sendall(answer)

    def close(self):
        self._thread.join()
        self._listener.close()


ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


def test_a_kept_connection_that_went_stale_is_opened_anew(tmp_path):
    server = OneShot(tmp_path / "s", [ANSWER, ANSWER])
    client = Client([f"unix://{tmp_path}/s"])

    client.get("/a")
    client.get("/b")
    client.close()
    server.close()

    assert [request.split()[1] for request in server.requests] == [b"/api/v1/a", b"/api/v1/b"]


def test_a_change_is_repeated_on_a_stale_connection_only_under_a_key(tmp_path):
    server = OneShot(tmp_path / "s", [ANSWER, ANSWER])
    client = Client([f"unix://{tmp_path}/s"])
    client.get("/a")

    with pytest.raises(Unreachable, match="broke"):
        client.post("/jobs:cancel", {})
    client.post("/jobs", {}, key="k")
    client.close()
    server.close()

    assert b"Idempotency-Key: k" in server.requests[1]


def test_an_answer_that_breaks_off_is_unreachable_not_a_traceback(tmp_path):
    broken = b'HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\n{"a"'
    server = OneShot(tmp_path / "s", [broken])
    client = Client([f"unix://{tmp_path}/s"])

    with pytest.raises(Unreachable):
        client.get("/a")
    client.close()
    server.close()


def test_something_that_does_not_speak_http_is_unreachable(tmp_path):
    server = OneShot(tmp_path / "s", [b"220 smtp ready\r\n"])
    client = Client([f"unix://{tmp_path}/s"])

    with pytest.raises(Unreachable):
        client.get("/a")
    server.close()


def test_a_stream_gives_bytes_and_a_refusal_its_line(fake, client):
    fake.routes["GET /jobs/1/logs"] = Answer(b"\xff\x00text")
    fake.routes["GET /jobs/2/logs"] = Answer({"detail": "there is no job 2"}, 404)

    assert b"".join(client.stream("/jobs/1/logs", stream="stdout")) == b"\xff\x00text"
    with pytest.raises(Refused, match="there is no job 2"):
        list(client.stream("/jobs/2/logs"))
