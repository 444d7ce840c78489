"""slurmrestd's paths: the recorded documents, and what its clients do with them."""

import json
import pwd
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.api.running import Answer
from tests.slurm.cluster import Cluster, recorded_cluster
from tests.slurm.goldens import compare_json, read_golden, renamed
from tests.slurm.stage import MAIN, set_the_stage
from tests.slurm.test_golden_showing import FOLDER, listed_differences

#: What must be there so that it can go.
REMOVED = {
    "rest_db_delete_account": ("account", "team-r"),
    "rest_db_delete_qos": ("qos", "viarest"),
}
ENV = {"environment": {"PATH": "/bin"}}


class Site:
    """A cluster with its stage set, and its paths as a client calls them."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.ids = set_the_stage(cluster)
        made = cluster.server.local().post("/tokens", {"user": "alice", "access": "user"})
        self.alice = str(made.json["token"])

    def cancelled_while_running(self) -> int:
        """The id of a job that held a node until it was cancelled."""
        job = self.cluster.submit("-p", "main", "-t", "5", "--gres=gpu:1")
        ((agent, uid),) = self.cluster.start(job)
        self.cluster.text("scancel", str(job))
        agent.stopping(uid)
        agent.report_end(uid, code=143)
        self.cluster.until(lambda: job not in self.cluster.server.host.cluster.jobs)
        return job

    def call(self, method: str, path: str, body: str | None = None, token: str = "") -> Answer:
        """With a token as a client on the network, without one as root on the machine."""
        server = self.cluster.server
        caller = server.network() if token else server.local()
        sent = None if body is None else body.encode()
        headers = {"X-SLURM-USER-NAME": "alice", "X-SLURM-USER-TOKEN": token} if token else {}
        caller.connection.request(method, path, sent, headers)
        return Answer(caller.connection.getresponse())


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with recorded_cluster(tmp_path_factory.mktemp("box")) as cluster:
        yield Site(cluster)


def recorded_requests() -> list[str]:
    paths = sorted(FOLDER.glob("rest_*.txt")) if FOLDER.is_dir() else []
    return [path.stem for path in paths if "./rest " in path.read_text().partition("\n")[0]]


@pytest.mark.parametrize("name", recorded_requests())
def test_a_recorded_request_gets_a_document_of_the_recorded_shape_or_is_listed(
    name: str, site: Site, shared_folder: Path
) -> None:
    golden = read_golden(shared_folder / "slurm" / "golden" / f"{name}.txt")
    command = re.split(r" \| head", golden.command)[0]
    found = re.search(r"\./rest (\w+) '?([^ ']+)'?(?: '(.*)')?$", command)
    assert found is not None
    twin = site.cluster.submit(*MAIN, "-H", "-J", "twin") if "/job/82" in found[2] else 0
    if name == "rest_job_cancelled":
        twin = site.cancelled_while_running()
    if name in REMOVED:
        site.cluster.text("sacctmgr", "-i", "add", *REMOVED[name])
    path = renamed(found[2], {"82": str(twin), "capped": "main"}).replace("capped", "main")
    path = path.replace("account=team-a", "account=main")
    token = "nonsense" if "REST_TOKEN=nonsense" in golden.command else ""

    answer = site.call(found[1], path, found[3], token)

    assert _differs(golden.stdout, answer) is (name in listed_differences())


def _differs(recorded: str, answer: Answer) -> bool:
    body, _, status = recorded.rpartition("HTTP ")
    if not body:
        # Only the head of a long document was recorded; its first keys must be there.
        return list(json.loads(answer.body)) != ["meta", "errors", *_last_keys(recorded)]
    if answer.status != int(status.split()[0]):
        return True
    if not body.startswith("{"):
        return body.strip() != answer.body.decode().strip()
    return bool(compare_json(body[: body.rindex("}") + 1], answer.body.decode()))


def _last_keys(recorded: str) -> list[str]:
    return [key for key in re.findall(r'^  "(\w+)": [\[{]$', recorded, re.MULTILINE)][2:]


def test_a_caller_without_a_token_is_refused_in_one_line(site: Site) -> None:
    connection = site.cluster.server.network().connection

    connection.request("GET", "/slurm/v0.0.38/jobs")
    answer = Answer(connection.getresponse())

    assert (answer.status, answer.body) == (401, b"Authentication failure")


def test_a_job_submitted_with_a_token_belongs_to_its_user_and_can_be_cancelled(site: Site) -> None:
    job = {"name": "rest", "partition": "main", "tasks": 1, "time_limit": 5, "hold": True}
    job |= {"current_working_directory": "/tmp", "environment": {"PATH": "/bin"}}
    body = json.dumps({"script": "#!/bin/sh\ntrue\n", "job": job})

    made = site.call("POST", "/slurm/v0.0.38/job/submit", body, site.alice)
    number = made.json["job_id"]
    shown = site.call("GET", f"/slurm/v0.0.38/job/{number}", token=site.alice).json["jobs"][0]
    gone = site.call("DELETE", f"/slurm/v0.0.38/job/{number}", token=site.alice)
    after = site.call("GET", f"/slurmdb/v0.0.38/job/{number}", token=site.alice).json["jobs"][0]

    assert made.status == gone.status == 200
    assert (shown["user_name"], shown["name"], shown["time_limit"]) == ("alice", "rest", 5)
    assert (shown["job_state"], shown["state_reason"]) == ("PENDING", "JobHeldUser")
    assert after["state"]["current"] == "CANCELLED"


def test_a_submit_that_slurm_would_refuse_is_refused_in_its_words(site: Site) -> None:
    body = json.dumps({"script": "#!/bin/sh\ntrue\n", "job": {"partition": "nope", **ENV}})

    answer = site.call("POST", "/slurm/v0.0.38/job/submit", body, site.alice)

    assert answer.status == 500
    assert answer.json["errors"][0]["error"] == "Invalid partition name specified"


@pytest.mark.parametrize("body", ["", "[]", "{", '{"job": 5}', '{"script": 7, "job": {}}'])
def test_a_malformed_submit_is_refused_and_nothing_breaks(site: Site, body: str) -> None:
    answer = site.call("POST", "/slurm/v0.0.38/job/submit", body, site.alice)

    assert answer.status == 400
    assert answer.json["errors"]


def test_other_peoples_folders_stay_closed(site: Site) -> None:
    wide = site.ids["24"]

    jobs = site.call("GET", f"/slurm/v0.0.38/job/{wide}", token=site.alice).json["jobs"]

    assert jobs[0]["user_name"] == "bob"
    assert jobs[0]["current_working_directory"] == jobs[0]["standard_output"] == ""


def test_values_in_the_newer_form_and_a_begin_in_seconds_are_understood(site: Site) -> None:
    job = {"time_limit": {"set": True, "number": 9}, "begin_time": 4_000_000_000, "tasks": 1}
    job |= ENV
    body = json.dumps({"script": "#!/bin/sh\ntrue\n", "job": job})

    number = site.call("POST", "/slurm/v0.0.38/job/submit", body, site.alice).json["job_id"]
    shown = site.call("GET", f"/slurm/v0.0.38/job/{number}", token=site.alice).json["jobs"][0]

    assert (shown["time_limit"], shown["state_reason"]) == (9, "BeginTime")
    assert shown["start_time"] == 4_000_000_000


def test_a_directory_of_users_that_does_not_answer_holds_up_its_caller_alone(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, answered = threading.Event(), threading.Event()
    lookup = pwd.getpwnam

    def slow_directory(name: str) -> pwd.struct_passwd:
        if name == "sloth":
            asked.set()
            answered.wait(30)
        return lookup(name)

    monkeypatch.setattr(pwd, "getpwnam", slow_directory)
    with ThreadPoolExecutor(1) as waiting:
        slow = waiting.submit(site.cluster.run, "squeue", "-u", "sloth")
        assert asked.wait(30)
        other = site.call("GET", "/slurm/v0.0.38/ping")
        still_waits = not slow.done()
        answered.set()

    assert (other.status, still_waits) == (200, True)
    assert slow.result().stderr == "squeue: error: Invalid user: sloth\n\n"


def test_reservations_and_licences_are_listed_as_slurmrestd_lists_them(site: Site) -> None:
    site.cluster.server.local().patch("/policy", {"rules": {"licenses": ["matlab:3"]}})

    listed = site.call("GET", "/slurm/v0.0.38/reservations").json["reservations"]
    (one,) = site.call("GET", "/slurm/v0.0.38/reservation/maint").json["reservations"]
    unknown = site.call("GET", "/slurm/v0.0.38/reservation/nosuch")
    licences = site.call("GET", "/slurm/v0.0.38/licenses").json["licenses"]

    assert one in listed
    assert (one["node_list"], one["core_count"], one["users"]) == ("n1", 4, "root")
    assert one["end_time"] - one["start_time"] == 3600
    wrong = {"error": "Requested reservation is invalid", "errno": 2053}
    assert (unknown.status, unknown.json["errors"]) == (500, [wrong])
    counts = {"Total": 3, "Used": 0, "Free": 3, "Reserved": 0}
    assert licences == [{"LicenseName": "matlab", **counts, "Remote": False}]
