"""Nobody acts as another user, as another's job or as a node."""

from __future__ import annotations

import json
import re
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.people import Person, open_folder, processes_of
from tests.attacks.test_reading import SHAKE, routes
from tests.journeys.box import Box, UnixConnection, until
from tests.journeys.site import Site

CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u202e]")


def test_every_change_of_anothers_job_is_refused_and_changes_nothing(
    town: Box, alice: Person, mallory: Person
):
    """Every route that changes something, with the ids of the victim's jobs."""
    runs, held = alice.job(["sleep", "300"]), alice.job(["true"], hold=True)
    alice.reach(runs, "running")
    before = [alice.api("GET", f"/jobs/{job}")[1] for job in (runs, held)]
    bodies: list[Any] = [
        {}, {"priority": 1}, {"action": "hold"}, {"action": "release"}, {"action": "suspend"},
        {"action": "requeue"}, {"signal": "KILL"}, {"action": "signal", "signal": "KILL"},
        {"name": "x", "url": "http://x", "port": 1}, {"path": "x", "step": 1},
        {"ids": [runs, held]}, {"all": True}, {"user": alice.user}, {"state": "running"},
        {"access": "admin"}, {"access": "user", "user": alice.user}, {"quota": {}},
        {"shares": 100}, {"value": "x"},
    ]  # fmt: skip
    done = {}

    for path, methods in routes(town).items():
        for method in set(methods) & {"post", "put", "patch", "delete"}:
            if path.endswith(("/jobs", "/jobs:batch", "/allocations", "/plan", "policy:test",
                              "policy:replay", "scheduler/trigger", "refresh-status",
                              "/check")):  # fmt: skip
                continue
            for job in (runs, held) if "{job_id}" in path else (0,):
                filled = path.replace("{job_id}", str(job)).replace("{name}", alice.user)
                filled = re.sub(r"\{[a-z_]+\}", "1", filled)
                for body in bodies:
                    status, answer = mallory.asks(method.upper(), filled, json.dumps(body).encode())
                    if status < 300 and not _is_nothing(answer):
                        done[f"{method} {filled} {body}"] = (status, answer[:200])

    tokens = {"post /api/v1/tokens {}", "post /api/v1/tokens {'access': 'user'}"}
    # A link opens the web page for the one who made it, whatever else was said.
    own = {way for way in done if "/secrets/" in way or "/web/links" in way or way in tokens}
    assert {way: told for way, told in done.items() if way not in own} == {}
    after = [alice.api("GET", f"/jobs/{job}")[1] for job in (runs, held)]
    for one, other in zip(before, after, strict=True):
        for field in ("state", "priority", "name", "user", "labels"):
            assert one[field] == other[field]
    assert {user["name"] for user in town.api("GET", "/users")[1]["items"]} <= {
        "*", "root", alice.user, mallory.user,
    }  # fmt: skip


def _is_nothing(answer: bytes) -> bool:
    """Nobody's jobs were meant, or nothing of one's own."""
    told = json.loads(answer or b"{}")
    return isinstance(told, dict) and not told.get("changed", told.get("items", [1]))


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Forwarded-User": "root"}, {"X-Remote-User": "root"}, {"Remote-User": "root"},
        {"X-SLURM-USER-NAME": "root"}, {"X-Forwarded-For": "uid:0"}, {"Forwarded": "for=uid:0"},
        {"X-Real-IP": "uid:0"}, {"Host": "uid:0"},
    ],
    ids=lambda headers: next(iter(headers)),
)  # fmt: skip
def test_no_header_makes_a_user_another(mallory: Person, headers: dict[str, str]):
    status, told = mallory.asks("GET", "/api/v1/status", **headers)

    assert status == 200
    assert json.loads(told)["user"] == mallory.user
    assert json.loads(told)["access"] == "user"


@pytest.mark.parametrize("field", ["user", "uid", "gid", "owner", "as_user", "run_as", "local"])
def test_no_field_of_a_request_names_another_user(mallory: Person, field: str):
    for value in ("root", 0):
        body = {"command": ["id"], "workdir": "/", field: value}
        status, answer = mallory.api("POST", "/jobs", body)

        assert (status, answer["field"]) == (400, field)


def test_a_job_of_the_slurm_commands_runs_as_its_caller_whatever_they_say(mallory: Person):
    words = [["sbatch", "--uid=root", "--wrap=id"], ["sbatch", "--uid=0", "--wrap=id"],
             ["sbatch", "--gid=0", "--wrap=id"]]  # fmt: skip

    for line in words:
        done = mallory.rota("slurm", *line, check=False)
        numbers = re.findall(r"\d+", done.stdout)
        for number in numbers:
            ended = mallory.ended(number)
            assert ended["user"] == mallory.user
            assert "uid=0" not in mallory.output(number)


def test_the_key_of_anothers_submit_gives_neither_their_job_nor_an_answer_about_it(
    alice: Person, mallory: Person
):
    hers = alice.job_again(["echo", "hers"], "the-key")

    his = mallory.job_again(["echo", "his"], "the-key")

    assert his != hers
    assert mallory.ended(his)["user"] == mallory.user
    assert alice.ended(hers)["user"] == alice.user


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[31mb", "a\x9bb", "a\u202eb", "a\x00b", "a\u2028b"])
def test_what_is_shown_in_lists_has_no_characters_that_move_the_cursor(mallory: Person, name: str):
    fields = ("name", "project", "queue", "group", "output", "error", "image", "topology")
    answers = [
        mallory.api("POST", "/jobs", {"command": ["true"], "workdir": "/", field: name})
        for field in fields
    ]
    label = mallory.api(
        "POST", "/jobs", {"command": ["true"], "workdir": "/", "labels": {"x": name}}
    )

    assert {status for status, _ in [*answers, label]} == {400}
    assert not any(CONTROLS.search(answer["detail"]) for _, answer in [*answers, label])


def test_what_an_admin_sees_of_a_job_never_speaks_to_the_terminal(town: Box, mallory: Person):
    """A folder, a command and variables may have any name; tables show it harmlessly."""
    evil = "\x1b[2J\x1b]0;pwned\x07\nroot 1 forged\x9b"
    job = mallory.ran([f"no{evil}"], workdir=f"/no{evil}", variables={f"N{evil}": evil})["id"]

    shown = [
        town.rota(*words).stdout
        for words in (["queue", "--all"], ["show", str(job)], ["why", str(job)], ["status"],
                      ["audit"], ["nodes"])
    ]  # fmt: skip

    assert not [text for text in shown if CONTROLS.search(text)]
    assert not [text for text in shown if re.search("^root 1 forged", text, re.M)]


def test_nothing_that_a_stranger_sends_forges_a_line_of_a_log(town: Box, mallory: Person):
    host, _, port = mallory.url.partition("://")[2].partition(":")
    for word in (b"rota_\x9b31mEVIL\x85forged_x", b"rota_\xe2\x80\xa8_x", b"rota_a\tb_x"):
        with socket.create_connection((host, int(port)), timeout=20) as dialled:
            head = SHAKE.replace("jobs/{}", "agent").removesuffix("\r\n")
            dialled.sendall(head.encode() + b"Authorization: Bearer " + word + b"\r\n\r\n")
            assert b" 403 " in dialled.recv(4096)

    text = (town.state / "controller.log").read_bytes().decode()

    assert "EVIL" in text
    assert not CONTROLS.search(text.replace("\n", ""))
    assert all(re.match(r"\d{4}-|  ", line) for line in text.split("\n")[:-1])


def test_no_plain_user_speaks_as_an_agent(town: Box, mallory: Person):
    local = UnixConnection(mallory.state / "rota.sock", 20, mallory.user)
    local.connect()
    local.sock.sendall(SHAKE.replace("jobs/{}", "agent").encode())
    by_socket = local.sock.recv(4096)
    local.close()
    made = mallory.api("POST", "/tokens", {"access": "user"})[1]
    host, _, port = mallory.url.partition("://")[2].partition(":")
    with socket.create_connection((host, int(port)), timeout=20) as dialled:
        head = SHAKE.replace("jobs/{}", "agent").removesuffix("\r\n")
        dialled.sendall(f"{head}Authorization: Bearer {made['token']}\r\n\r\n".encode())
        by_token = dialled.recv(4096)

    assert b" 403 " in by_socket.splitlines()[0]
    assert b" 403 " in by_token.splitlines()[0]
    assert mallory.api("POST", "/tokens", {"access": "agent"})[0] == 403
    assert mallory.api("POST", "/tokens", {"access": "user", "user": "root"})[0] == 403
    assert [node["name"] for node in town.api("GET", "/nodes")[1]["items"]] == ["box"]


def test_who_lost_a_role_does_not_keep_it_in_tokens_of_their_own(town: Box, mallory: Person):
    person = f"/users/{mallory.user}"
    assert town.api("PATCH", person, {"role": "operator"})[0] == 200
    own = mallory.api("POST", "/tokens", {"access": "operator"})[1]
    given = town.api("POST", "/tokens", {"user": mallory.user, "access": "operator"})[1]

    assert town.api("PATCH", person, {"role": "viewer"})[0] == 200

    try:
        shown = [mallory.over_network("GET", "/status", one["token"])[1] for one in (own, given)]
        assert [one["access"] for one in shown] == ["viewer", "operator"]
    finally:
        town.api("DELETE", person)


def test_nobody_else_starts_or_stops_the_parts_of_the_service(town: Box, mallory: Person):
    parts = {part: town.living(part) for part in ("supervisor", "controller", "agent", "keeper")}

    started = mallory.rota("up", "--detach", check=False)
    for words in (["down"], ["down", "--stop-jobs"]):
        mallory.rota(*words, check=False)

    assert started.returncode == 2
    assert {part: town.living(part) for part in parts} == parts


#: Ways to write an address of this machine; the port follows.
INSIDE = ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "127.1", "0177.0.0.1", "[::1]",
          "[::ffff:127.0.0.1]", "0.0.0.0", "169.254.169.254", "[fe80::1]", "10.0.0.1"]  # fmt: skip


def test_no_notice_of_a_job_knocks_at_an_address_inside(town: Box, mallory: Person):
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
        taken = []
        for host in INSIDE:
            body = {"command": ["true"], "workdir": "/", "notify": [f"http://{host}:{port}/x"]}
            status, answer = mallory.api("POST", "/jobs", body)
            assert status in (201, 400), answer
            if status == 201:
                taken.append(answer["id"])
        for job in taken:
            mallory.ended(job)
            line = f"that job {job} completed after"
            until(lambda line=line: line in (town.state / "controller.log").read_text(), line)
        door.settimeout(0.2)

        with pytest.raises(TimeoutError):
            door.accept()


@pytest.mark.parametrize(
    "path",
    [
        "/jobs/1%2F..%2F..%2Fnodes", "/bundles/..%2f..%2frota.db", "/jobs/1/artifacts/../../../x",
        "/bundles/" + "../" * 9 + "etc/passwd", "/jobs/1/result?part=../../etc/passwd",
        "/jobs/1/logs?stream=../../journal", "/secrets/..%2f..%2fx", "/jobs/..%2f..%2fx/logs",
        "//etc/passwd", "/../../../../etc/passwd", "/jobs/1/logs?attempt=../1",
    ],
)  # fmt: skip
def test_no_path_leads_out_of_the_interface(mallory: Person, path: str):
    status, answer = mallory.asks("GET", f"/api/v1{path}")

    assert status in (400, 403, 404), answer
    assert b"root:" not in answer


@pytest.fixture(scope="module")
def site(users: tuple[str, str]) -> Any:
    """A controller and a node that only the network leads to, both of root."""
    with open_folder() as folder:
        made = Site(folder / "site")
        made.join("far")
        until(lambda: made.is_up("far"), "the node")
        yield made
        made.close()


def test_the_token_of_a_job_ends_with_it_and_is_good_for_nothing_of_others(
    site: Site, users: tuple[str, str], folder: Path
):
    mallory = Person(site.head, users[0], folder / "m")
    alice = Person(site.head, users[1], folder / "a")
    hers = alice.job(["sleep", "300"])
    his = mallory.job("echo $ROTA_TOKEN; read go < gate")
    subprocess.run(["mkfifo", str(mallory.work / "gate")], check=True)
    (mallory.work / "gate").chmod(0o666)
    alice.reach(hers, "running")

    def tried(token: str) -> list[int]:
        ways = [
            ("DELETE", f"/jobs/{hers}"),
            ("GET", f"/jobs/{hers}/logs"),
            ("GET", "/audit"),
            ("POST", "/tokens"),
            ("PUT", "/secrets/X"),
            ("GET", f"/jobs/{hers}/request"),
        ]
        return [
            int(_curl(site, mallory, method, path, token)) for method, path in ways
        ]  # fmt: skip

    token = str(until(lambda: mallory.output(his).strip(), "the job's token"))
    while_it_runs = tried(token)
    mallory.api("DELETE", f"/jobs/{his}")
    mallory.ended(his)
    afterwards = tried(token)
    alice.api("DELETE", f"/jobs/{hers}")

    assert token.startswith("rotajob_")
    assert set(while_it_runs) <= {400, 403}
    assert set(afterwards) == {401}


def _curl(site: Site, person: Person, method: str, path: str, token: str) -> str:
    """A call over TLS, from the attacker's own program."""
    script = """
import json, ssl, sys, urllib.request, urllib.error
method, url, token = sys.argv[1:]
context = ssl._create_unverified_context()
request = urllib.request.Request(url, method=method, data=b"{}" if method != "GET" else None)
request.add_header("Authorization", "Bearer " + token)
request.add_header("Content-Type", "application/json")
try:
    print(urllib.request.urlopen(request, context=context, timeout=20).status)
except urllib.error.HTTPError as error:
    print(error.code)
"""
    return person.python(script, method, f"{site.url}/api/v1{path}", token).strip()


def test_the_files_of_a_node_elsewhere_are_closed_too(
    site: Site, users: tuple[str, str], folder: Path
):
    mallory = Person(site.head, users[0], folder / "m")
    state = site.root / "far"
    assert (state / "agent" / "node.key").exists()
    script = """
import os, sys
for path in sys.argv[1:]:
    try:
        print(path, os.listdir(path) if os.path.isdir(path) else open(path).read()[:20])
    except OSError:
        pass
"""
    theirs = [str(path) for path in state.rglob("*") if path.lstat().st_uid != mallory.uid]

    assert mallory.python(script, *theirs) == ""


@pytest.mark.parametrize("lie", ["ROTA_ATTEMPT_UID={}", "-i"], ids=["another", "none"])
def test_no_process_outlives_its_job_as_a_process_of_another(
    mallory: Person, alice: Person, lie: str
):
    """Without a control group what it says of itself is all there is, but for its user."""
    hers = alice.job(["sleep", "300"])
    attempt = alice.reach(hers, "running")["attempts"][0]["uid"]
    away = f"setsid env {lie.format(attempt)} sh -c 'sleep 300 & sleep 300' > /dev/null 2>&1 &"

    mallory.ended(mallory.job(f"{away} sleep 0.5"))

    until(lambda: not processes_of(mallory.uid), "what it left behind to go with it")
    assert alice.api("GET", f"/jobs/{hers}")[1]["state"] == "running"
