"""Who may do what: tokens, roles, and what people see of each other's jobs."""

import os
import pwd
import subprocess
import sys
import threading
import time

import pytest

from rota.api.app import ROUTES
from rota.api.auth import RIGHTS, Identities
from rota.api.watch.status import ROOT_ROUTES
from rota.core.facts.tenant import Access
from tests.api.running import Running

HIDDEN = ("command", "workdir", "labels", "output", "error", "parameters")


def test_over_the_network_nothing_but_health_and_documentation_is_open(server: Running) -> None:
    stranger = server.network()

    for path in ("/healthz", "/readyz", "/openapi.json", "/docs"):
        assert stranger.get(path).status == 200
    for path in ("/jobs", "/status", "/metrics", "/nodes", "/nowhere"):
        answer = stranger.get(path)
        assert answer.status == 401
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
        assert answer.json["code"] == "unauthenticated"


@pytest.mark.parametrize("shown", ["Bearer x", "Bearer rota_00000000_abc", "Basic eDp5", "Bearer "])
def test_a_bad_token_is_refused_even_on_the_local_socket(server: Running, shown: str) -> None:
    assert server.network().get("/jobs", Authorization=shown).status == 401
    assert server.local().get("/jobs", Authorization=shown).status == 401


def test_a_token_ends_when_it_is_revoked_or_expires(server: Running) -> None:
    admin = server.local()
    kept = admin.post("/tokens", {"user": "ada"}).json
    short = admin.post("/tokens", {"user": "ada", "expires_s": 0.001}).json
    late = server.network(short["token"])
    while late.get("/jobs").status == 200:
        pass

    assert late.get("/jobs").status == 401
    ada = server.network(kept["token"])
    assert ada.get("/jobs").status == 200
    assert admin.delete(f"/tokens/{kept['id']}").status == 204
    assert ada.get("/jobs").status == 401


def test_secrets_are_never_listed(server: Running) -> None:
    admin = server.local()
    made = admin.post("/tokens", {"user": "ada", "note": "laptop"}).json

    listed = admin.get("/tokens")

    assert made["token"] not in listed.body.decode()
    assert listed.json["items"][0]["note"] == "laptop"
    assert server.as_user("bob").get("/tokens").json["items"][0]["user"] == "bob"


def test_nobody_makes_a_token_with_more_rights_than_they_have(server: Running) -> None:
    ada = server.as_user("ada")

    assert ada.post("/tokens", {"access": "admin"}).status == 403
    assert ada.post("/tokens", {"user": "bob"}).status == 403
    assert ada.post("/tokens", {"access": "viewer"}).status == 201


def test_a_viewer_looks_and_touches_nothing(server: Running) -> None:
    server.as_user("ada").submit()
    viewer = server.as_user("eve", "viewer")

    assert viewer.get("/jobs/1").status == 200
    for method, path, body in (
        ("POST", "/jobs", {"command": "true"}),
        ("POST", "/jobs:batch", {"jobs": [{"command": "true"}]}),
        ("POST", "/jobs:cancel", {"ids": [1]}),
        ("DELETE", "/jobs/1", None),
        ("PATCH", "/jobs/1", {"priority": 1}),
        ("PUT", "/queues/q", {}),
        ("POST", "/nodes/box:drain", {}),
        ("POST", "/tokens", {}),
        ("POST", "/jobs/scheduler/trigger", None),
    ):
        answer = viewer.call(method, path, body)
        assert answer.status == 403, (method, path, answer.body)
        assert answer.json["code"] == "forbidden"


def test_a_user_changes_only_their_own_jobs(server: Running) -> None:
    ada, bob = server.as_user("ada"), server.as_user("bob")
    ada.submit()

    assert bob.delete("/jobs/1").status == 403
    assert bob.patch("/jobs/1", {"priority": 1}).status == 403
    assert bob.post("/jobs:cancel", {"user": "ada"}).status == 403
    assert bob.post("/jobs:cancel", {"ids": [1]}).json["refused"][0]["id"] == 1
    assert server.as_user("olga", "operator").delete("/jobs/1").status == 202


def test_the_top_of_the_scale_is_for_operators(server: Running) -> None:
    body = {"command": "true", "priority": 76}

    assert server.as_user("ada").post("/jobs", body).status == 403
    assert server.as_user("olga", "operator").post("/jobs", body).status == 201


def test_queues_and_nodes_are_for_operators(server: Running) -> None:
    assert server.as_user("ada").put("/queues/q", {}).status == 403
    assert server.as_user("olga", "operator").put("/queues/q", {}).status == 200


def test_others_see_no_command_folder_labels_or_paths(server: Running) -> None:
    ada = server.as_user("ada")
    body = {"labels": {"a": "b"}, "workdir": "/secret", "output": "o", "error": "e"}
    ada.submit(["hush"], name="a", **body)
    ada.submit(["{x}"], name="b", parameters={"names": ["x"], "rows": [["hush"]]}, **body)

    for stranger in (server.as_user("bob"), server.as_user("eve", "viewer")):
        for path in ("/jobs/1", "/jobs/2", "/jobs/2_0"):
            assert all(stranger.get(path).json[field] is None for field in HIDDEN)
        for path in ("/jobs", "/jobs?arrays=collapse", "/jobs/1/events", "/jobs/2/events"):
            text = stranger.get(path).body.decode()
            assert "hush" not in text
            assert "secret" not in text
        assert stranger.get("/jobs/1/logs").status == 403
        assert stranger.get("/jobs/1/request").status == 403
    for friend in (ada, server.as_user("olga", "operator"), server.local()):
        assert friend.get("/jobs/1").json["command"] == ["hush"]


def test_every_route_names_a_right_that_exists() -> None:
    rights = {route.opt.get("right") for route in [*ROUTES, *ROOT_ROUTES]}

    assert rights <= set(RIGHTS)


def test_root_and_the_owner_of_the_process_are_admins_and_others_are_users() -> None:
    identities = Identities(own_uid=4711)

    accesses = [identities.local(f"uid:{uid}").access for uid in (0, 4711, 4712)]

    assert accesses == [Access.ADMIN, Access.ADMIN, Access.USER]


ASK = """
import http.client, json, os, socket, sys
os.setgid(65534); os.setuid(int(sys.argv[2]))
connection = http.client.HTTPConnection("rota")
connection.sock = socket.socket(socket.AF_UNIX)
connection.sock.connect(sys.argv[1])
connection.request("GET", "/api/v1/status")
status = json.loads(connection.getresponse().read())
connection.request("POST", "/api/v1/jobs", json.dumps({"command": "true"}))
job = json.loads(connection.getresponse().read())
connection.request("PUT", "/api/v1/queues/q", "{}")
print(json.dumps([status["user"], status["access"], job["id"], connection.getresponse().status]))
"""


@pytest.mark.root
def test_the_kernel_says_who_is_on_the_local_socket(server: Running) -> None:
    command = [sys.executable, "-c", ASK, server.socket_path]

    done = subprocess.run([*command, "54321"], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == '["54321", "user", 1, 403]'
    assert server.local().job(1)["user"] == "54321"
    assert os.geteuid() == 0


@pytest.mark.root
def test_a_directory_of_users_that_does_not_answer_holds_up_nobody_else(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, answered = threading.Event(), threading.Event()

    def slow_directory(uid: int) -> pwd.struct_passwd:
        if uid == 54322:
            asked.set()
            answered.wait(30)
        return lookup(uid)

    lookup = pwd.getpwuid
    monkeypatch.setattr(pwd, "getpwuid", slow_directory)
    command = [sys.executable, "-c", ASK, server.socket_path, "54322"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as slow:
        assert asked.wait(30)

        begun_s = time.monotonic()
        other = server.local().get("/status")
        took_s = time.monotonic() - begun_s
        still_waits = slow.poll() is None
        answered.set()
        said, _ = slow.communicate(timeout=30)

    assert (other.status, still_waits) == (200, True)
    assert took_s < 5
    assert said.strip() == '["54322", "user", 1, 403]'
