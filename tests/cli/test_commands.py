"""Commands against a scripted server: what they send, what they print, how they exit."""

import json
import socket
import threading

import pytest

from rota.cli.shared import exits
from tests.cli.fake_server import Answer
from tests.cli.test_render import a_job

FINISHED = a_job(state="completed", exit_code=0, ended_at="2026-11-15T11:59:00Z")


def test_submit_prints_the_id_and_sends_command_folder_and_environment(fake, rota, monkeypatch):
    monkeypatch.setenv("ROTA_TOKEN", "secret")
    monkeypatch.setenv("FLAVOUR", "lime")
    fake.routes["POST /jobs"] = Answer({"id": 12, "uid": "u", "state": "queued"}, 201)

    ended = rota("submit", "--cpus", "2", "--name", "n", "--", "python", "-c", "print('a  b')")

    assert ended == (0, "12\n", "")
    body = fake.asked[0].body
    assert body["command"] == ["python", "-c", "print('a  b')"]
    assert body["resources"] == {"cpus": 2}
    assert body["env"]["FLAVOUR"] == "lime"
    assert "secret" not in json.dumps(body)
    assert body["workdir"].startswith("/")
    assert len(fake.asked[0].headers["Idempotency-Key"]) == 24


def test_options_behind_the_command_belong_to_the_command(fake, rota):
    fake.routes["POST /jobs"] = {"id": 1}

    rota("submit", "--", "printf", "--cpus", "2", "--", "-h")

    assert fake.asked[0].body["command"] == ["printf", "--cpus", "2", "--", "-h"]
    assert "resources" not in fake.asked[0].body


def test_a_script_is_sent_as_it_is_with_its_options_and_the_command_line_wins(fake, rota, tmp_path):
    script = tmp_path / "train.sh"
    text = "#!/bin/bash\n#ROTA --cpus 4 --time 2h\necho ü"
    script.write_text(text)
    fake.routes["POST /jobs"] = {"id": 1}

    rota("submit", "--cpus", "8", str(script), "--cpus", "x")

    body = fake.asked[0].body
    assert body["script"] == text
    assert body["script_args"] == ["--cpus", "x"]
    assert body["resources"]["cpus"] == 8
    assert body["time_limit_s"] == 7200
    assert body["name"] == "train.sh"


def test_a_script_comes_from_standard_input(fake, rota):
    fake.routes["POST /jobs"] = {"id": 1}

    ended = rota("submit", "-", "a", stdin=b"#ROTA --hold\nexit 3\n")

    assert ended.code == 0
    assert fake.asked[0].body["script"] == "#ROTA --hold\nexit 3\n"
    assert fake.asked[0].body["script_args"] == ["a"]
    assert fake.asked[0].body["hold"] is True


def test_a_dry_run_prints_exactly_what_would_be_sent_and_sends_nothing(fake, rota):
    fake.routes["POST /jobs"] = {"id": 1}
    words = ("--gpus", "1", "--param", "lr=1,2", "--", "echo", "{lr}")

    dry = rota("submit", "--dry-run", *words)
    rota("submit", *words)

    assert json.loads(dry.out) == fake.asked[0].body
    assert len(fake.asked) == 1


def test_my_last_job_counts_an_array_once(fake, rota):
    fake.routes["GET /jobs"] = {
        "items": [a_job(id=9, array_id=5), a_job(id=8, array_id=5), a_job(id=3)],
        "cursor": None,
    }
    fake.routes["POST /jobs"] = {"id": 20}

    rota("submit", "--after-ok", "@", "--after-any", "@~1,2_7", "--", "true")

    assert fake.asked[-1].body["depends_on"] == [
        {"kind": "after-ok", "job": 5},
        {"kind": "after-any", "job": 3},
        {"kind": "after-any", "job": "2_7"},
    ]
    assert fake.asked[0].query["order"] == "-id"


def test_there_is_no_last_job_before_the_first(fake, rota):
    fake.routes["GET /jobs"] = {"items": [], "cursor": None}

    ended = rota("submit", "--after-ok", "@", "--", "true")

    assert ended.code == exits.USAGE
    assert ended.err == "rota: @: you have submitted no jobs so far\n"


def test_a_refusal_of_the_server_is_one_line_and_code_2(fake, rota):
    detail = "resources.gpus: 99 is not valid;\nno node can ever give that"
    fake.routes["POST /jobs"] = Answer({"detail": detail, "code": "invalid"}, 400)

    ended = rota("submit", "--gpus", "99", "--", "true")

    assert ended.code == exits.USAGE
    assert ended.err == ("rota: resources.gpus: 99 is not valid; no node can ever give that\n")


def test_a_full_inbox_is_waited_out_under_the_same_key(fake, rota):
    busy = Answer({"detail": "busy"}, 429, {"Retry-After": "0.01"})
    fake.routes["POST /jobs"] = [busy, busy, Answer({"id": 7}, 201)]

    ended = rota("submit", "--", "true")

    assert ended.out == "7\n"
    assert len({asked.headers["Idempotency-Key"] for asked in fake.asked}) == 1
    assert len(fake.asked) == 3


def test_a_server_that_asks_for_more_patience_than_there_is_gets_no_further_request(fake, rota):
    busy = Answer({"detail": "this takes too long"}, 429, {"Retry-After": "50"})
    fake.routes["POST /plan"] = busy

    ended = rota("plan", "--", "true")

    assert ended == (exits.USAGE, "", "rota: this takes too long\n")
    assert len(fake.asked) == 1


def test_nothing_running_is_told_with_the_places_that_were_looked_at(rota, monkeypatch, tmp_path):
    monkeypatch.setenv("ROTA_STATE_DIR", str(tmp_path))
    monkeypatch.delenv("ROTA_URL", raising=False)

    ended = rota("queue")

    assert ended.code == exits.UNREACHABLE
    assert ended.err == (
        "rota: rota is not running here: start it with 'rota up --detach' "
        f"(looked at {tmp_path}/rota.sock)\n"
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["sbmit"], "there is no command 'sbmit'; did you mean 'submit'?"),
        (["kill", "1"], "there is no command 'kill'; did you mean 'cancel'?"),
        (["ps"], "there is no command 'ps'; did you mean 'queue'?"),
        (["sbatch", "x.sh"], "there is no command 'sbatch'; did you mean 'submit'?"),
        (["help", "sbmit"], "there is no command 'sbmit'; did you mean 'submit'?"),
        (["frobnicate"], "there is no command 'frobnicate'; see 'rota --help'"),
        (["submit", "--gpu", "1", "--", "x"], "no such option '--gpu'"),
        (["submit", "--cpus", "x", "--", "y"], "'x' is not valid; expected a number of CPUs"),
        (["submit", "--mem", "4096", "--", "y"], "'4096' would be bytes; write 4096m or 4096g"),
        (["submit", "--time", "10:30", "--", "y"], "write 10h30m or 10m30s"),
        (["submit", "--time", "-5", "--", "y"], "is not valid"),
        (["submit", "--priority", "101", "--", "y"], "expected 0 to 100"),
        (["submit", "--umask", "999", "--", "y"], "expected octal digits"),
        (["submit", "--ulimit", "nofiles=3", "--", "y"], "did you mean nofile?"),
        (["submit", "--env", "=x", "--", "y"], "expected KEY=VALUE"),
        (["submit", "--label", "x", "--", "y"], "expected KEY=VALUE"),
        (["submit", "--after-ok", "x y", "--", "y"], "expected a job id"),
        (["submit", "--begin", "soon", "--", "y"], "expected a moment"),
        (["submit", "--stdin", "/does/not/exist", "--", "y"], "--stdin: /does/not/exist: No such"),
        (["submit", "--param-file", "/does/not/exist", "--", "y"], "--param-file: /does/not/exist"),
        (["submit", "--array", "9-1", "--dry-run", "--", "y"], "a range must rise"),
        (["submit", "--array", "", "--", "y"], "--array: '' is not valid"),
        (["submit", "--workdir", "", "--", "y"], "--workdir: '' is not valid"),
        (["submit", "--begin", "1970-01-01", "--", "y"], "expected a moment after 1970"),
        (["why", "1", "--at", "now+1h"], "'now+1h' is in the future; expected a moment that has"),
        (["attach", ""], "expected a job id"),
        (["forward", "", "80"], "expected a job id"),
        (["node", "show", ""], "name: '' is not valid"),
        (["queue-admin", "set", "a/b", "--priority", "1"], "name: 'a/b' is not valid"),
        (["token", "revoke", ""], "name: '' is not valid"),
        (["group", "set", "", "--max-concurrent", "1"], "name: '' is not valid"),
        (["slurm", "install", ""], "'' is not valid; expected a folder"),
        (["submit"], "nothing to run"),
        (["submit", "absent.sh"], "there is no script 'absent.sh' here"),
        (["run", "--array", "0-3", "--", "y"], "'rota run' follows one job"),
        (["show"], "missing argument 'JOB…'"),
        (["show", "1.5"], "expected a job id"),
        (["wait"], "missing argument"),
        (["wait", "--timeout", "soon", "1"], "'soon' is not valid"),
        (["cancel"], "which jobs? give ids, --all, or what they are"),
        (["cancel", "--all", "3"], "not both"),
        (["update", "3"], "nothing to change"),
        (["update"], "which job?"),
        (["exec", "3", "python", "x.py"], "expected one job"),
        (["cancel", "state:runing"], "did you mean running?"),
        (["logs", "3-4", "--path"], "take one job"),
        (["submit", "--after-ok", "3_[1-", "--", "y"], "expected a job id"),
        (["why", "label:a=1+label:b=2"], "each condition once"),
        (["queue", "-s", "runing"], "did you mean running?"),
        (["queue", "--sort", "tme"], "did you mean time?"),
        (["queue", "--fields", "id,,x"], "expected words with commas"),
        (["queue", "--first", "1", "--last", "1"], "exclude each other"),
        (["release", "--at", "18:00", "--all"], "--at needs job ids"),
        (["node", "explode", "x"], "no such command 'explode'"),
        (["agent", "--join", "head:8082"], "--join: 'head:8082' is not valid; expected https://"),
        (["completion", "tcsh"], "is not one of"),
        (["up", "--listen", "nowhere"], "expected HOST:PORT"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_line_and_code_2(fake, rota, arguments, words):
    ended = rota(*arguments)

    assert ended.code == exits.USAGE
    assert ended.err.startswith("rota: ")
    assert ended.err.count("\n") == 1
    assert words.lower() in ended.err.lower()
    assert ended.out == ""
    assert fake.asked == []


@pytest.mark.parametrize("content", [b"\x7fELF\x02\x01\0\0" * 50, b"\xff\xfe\x00junk", b"\n \n"])
def test_a_file_of_junk_is_refused_in_one_line(fake, rota, tmp_path, content):
    path = tmp_path / "junk"
    path.write_bytes(content)

    ended = rota("submit", str(path))

    assert ended.code == exits.USAGE
    assert ended.err.count("\n") == 1
    assert fake.asked == []


def test_an_environment_of_ten_megabytes_is_refused_in_one_line(fake, rota, monkeypatch):
    for number in range(100):
        monkeypatch.setenv(f"BULK{number}", "x" * 100_000)

    ended = rota("submit", "--", "true")

    assert ended.code == exits.USAGE
    assert "the environment has 9 MiB; at most 2" in ended.err
    assert fake.asked == []


def test_words_that_are_not_utf8_are_refused_in_one_line(fake, rota):
    ended = rota("submit", "--", "echo", "\udcff")

    assert ended.code == exits.USAGE
    assert "is not valid UTF-8" in ended.err
    assert fake.asked == []


def test_the_queue_asks_for_active_jobs_and_follows_the_pages(fake, rota):
    pages = [
        Answer({"items": [a_job(id=1)], "cursor": "c1"}),
        Answer({"items": [a_job(id=2)], "cursor": None}),
    ]
    fake.routes["GET /jobs"] = pages

    ended = rota("queue", "-q")

    assert ended.out == "1\n2\n"
    assert fake.asked[0].query["state"] == "active"
    assert fake.asked[1].query["cursor"] == "c1"


def test_the_last_jobs_are_cut_by_the_server_and_shown_in_order(fake, rota):
    fake.routes["GET /jobs"] = {"items": [a_job(id=9), a_job(id=8), a_job(id=7)], "cursor": None}

    ended = rota("queue", "-a", "--last", "2", "--json")

    assert [job["id"] for job in json.loads(ended.out)] == [8, 9]
    assert fake.asked[0].query["limit"] == "3"
    assert fake.asked[0].query["order"] == "-id"


def test_jobs_since_a_time_stop_at_the_first_older_one(fake, rota):
    old = a_job(id=6, submitted_at="2026-11-14T23:00:00Z")
    fake.routes["GET /jobs"] = {"items": [a_job(id=8), a_job(id=7), old], "cursor": "more"}

    ended = rota("queue", "-q", "--since", "2026-11-15T00:00:00Z")

    assert ended.out == "7\n8\n"
    assert len(fake.asked) == 1


def test_named_jobs_that_do_not_exist_are_named(fake, rota):
    fake.routes["GET /jobs"] = {"items": [a_job(id=1)], "cursor": None}

    ended = rota("queue", "1", "77")

    assert ended.code == exits.USAGE
    assert ended.err == "rota: there is no job 77\n"


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("csv", "id,state\n12,running\n"),
        ("json", '[\n  {\n    "id": 12,\n    "state": "running"\n  }\n]\n'),
        ("yaml", '- id: 12\n  state: "running"\n'),
        ("table", "ID  STATE\n12  running\n"),
    ],
)
def test_the_queue_speaks_several_formats_with_chosen_fields(fake, rota, form, expected):
    fake.routes["GET /jobs"] = {"items": [a_job()], "cursor": None}

    assert rota("queue", "--format", form, "--fields", "id,state").out == expected


def test_a_long_table_says_that_there_is_more(fake, rota):
    jobs = [a_job(id=n) for n in range(1, 202)]
    fake.routes["GET /jobs"] = {"items": jobs, "cursor": "more"}

    ended = rota("queue")

    assert len(ended.out.splitlines()) == 201
    assert "only the first 200 are shown" in ended.err


@pytest.mark.parametrize(
    ("done", "pending", "code"),
    [
        ([{"id": 1, "state": "completed", "exit_code": 0}], [], exits.OK),
        ([{"id": 1, "state": "failed", "exit_code": 3}], [], exits.NEGATIVE),
        ([{"id": 1, "state": "failed", "exit_code": 3}], [2], exits.NEGATIVE),
        ([], [1], exits.TIMEOUT),
    ],
)
def test_wait_tells_by_its_exit_code(fake, rota, done, pending, code):
    fake.routes["GET /jobs/wait"] = {"done": done, "pending": pending}

    assert rota("wait", "1", "--timeout", "0").code == code


def test_wait_goes_on_polling_until_all_have_ended(fake, rota):
    completed = {"id": 1, "state": "completed", "exit_code": 0}
    fake.routes["GET /jobs/wait"] = [
        Answer({"done": [], "pending": [1]}),
        Answer({"detail": "starting"}, 503),
        Answer({"done": [completed], "pending": []}),
    ]

    ended = rota("wait", "1")

    assert ended.code == exits.OK
    assert ended.out == "1 completed\n"


def a_running_server(fake, job, out=b"", err=b""):
    def logs(asked):
        return Answer(out if asked.query["stream"] == "stdout" else err)

    fake.routes |= {
        "POST /jobs": {"id": 12},
        "GET /jobs/12": job,
        "GET /jobs/12/logs": logs,
        "GET /jobs/wait": {"done": [{"id": 12, "state": job["state"]}], "pending": []},
    }


def test_run_streams_both_outputs_and_ends_with_the_jobs_code(fake, rota):
    a_running_server(fake, a_job(state="failed", exit_code=3), b"out\xff\n", b"err\n")

    ended = rota("run", "--", "true")

    assert ended.code == 3
    assert "out" in ended.out
    assert ended.err == "err\n"


@pytest.mark.parametrize(
    ("job", "code", "words"),
    [
        (FINISHED, 0, ""),
        (a_job(state="failed", signal=9, cause="out_of_memory"), 137, "failed: out_of_memory"),
        (a_job(state="timeout", signal=15, cause="time_limit: 2h"), 143, "job 12: timeout: 2h\n"),
        (a_job(state="timeout", cause="time_limit"), 124, "timeout"),
        (a_job(state="cancelled", cause="cancelled: by ada"), 1, "job 12: cancelled: by ada\n"),
        (a_job(state="unschedulable", cause="scheduling_timeout"), 1, "scheduling_timeout"),
    ],
)
def test_run_says_why_where_the_code_alone_does_not(fake, rota, job, code, words):
    a_running_server(fake, job)

    ended = rota("run", "--", "true")

    assert ended.code == code
    assert words in ended.err


def test_run_passes_standard_input(fake, rota):
    a_running_server(fake, FINISHED)

    rota("run", "--", "sort", stdin=b"b\na\n")

    assert fake.asked[0].body["stdin"] == "b\na\n"


def test_standard_input_that_is_too_large_is_refused(fake, rota):
    ended = rota("run", "--", "sort", stdin=b"x" * ((8 << 20) + 1))

    assert ended.code == exits.USAGE
    assert "larger than 8 MiB" in ended.err
    assert fake.asked == []


def test_logs_prints_bytes_as_they_are(fake, rota):
    fake.routes["GET /jobs/5_3/logs"] = Answer("línea\n".encode())

    ended = rota("logs", "5_3", "--stderr", "--tail", "10")

    assert ended.out == "línea\n"
    assert fake.asked[0].query == {"stream": "stderr", "tail": "10"}


def test_cancel_sends_each_id_once_and_tells_what_was_refused(fake, rota):
    fake.routes["POST /jobs:cancel"] = {
        "changed": [12],
        "refused": [{"id": 13, "reason": "job 13 is completed already"}],
    }

    ended = rota("cancel", "12", "13", "12", "5_3")

    assert ended.code == exits.NEGATIVE
    assert ended.out == "cancelled 12\n"
    assert ended.err == "rota: job 13 is completed already\n"
    assert fake.asked[0].body == {"ids": [12, 13, "5_3"]}


def test_thousands_of_ids_go_out_in_bundles(fake, rota):
    fake.routes["POST /jobs:cancel"] = lambda asked: {"changed": asked.body["ids"], "refused": []}

    ended = rota("cancel", "-q", *map(str, range(1, 12_001)))

    assert [len(asked.body["ids"]) for asked in fake.asked] == [10_000, 2000]
    assert len(ended.out.splitlines()) == 12_000


def test_requeue_can_hold(fake, rota):
    fake.routes["POST /jobs:requeue"] = {"changed": [3], "refused": []}

    rota("requeue", "--hold", "3")

    assert fake.asked[0].body == {"ids": [3], "hold": True}


def test_of_many_refusals_the_first_are_told_and_the_rest_are_counted(fake, rota):
    refused = [{"id": number, "reason": f"there is no job {number}"} for number in range(1, 31)]
    fake.routes["POST /jobs:cancel"] = {"changed": [], "refused": refused}

    ended = rota("cancel", *map(str, range(1, 31)))

    assert ended.code == 1
    lines = ended.err.splitlines()
    assert lines[0] == "rota: there is no job 1"
    assert lines[-1] == "rota: and 10 more were refused (--json lists all)"
    assert len(lines) == 21


def test_update_sends_only_what_changes(fake, rota):
    fake.routes["PATCH /jobs/3"] = a_job(id=3)

    ended = rota("update", "3", "--priority", "high", "--mem", "2g", "--", "echo", "hi")

    assert ended.out == "updated 3\n"
    assert fake.asked[0].body == {
        "priority": 75,
        "resources": {"memory_mb": 2048},
        "command": ["echo", "hi"],
    }


def test_redo_takes_the_stored_request_with_new_options_on_top(fake, rota):
    fake.routes["GET /jobs/3/request"] = {
        "command": ["train"],
        "env": {"A": "1"},
        "workdir": "/w",
        "resources": {"cpus": 4, "gpus": 1},
        "depends_on": [{"kind": "after-ok", "job": 2}],
    }
    fake.routes["POST /jobs"] = {"id": 9}

    ended = rota("redo", "3", "--cpus", "8")

    assert ended.out == "9\n"
    assert fake.asked[-1].body == {
        "command": ["train"],
        "env": {"A": "1"},
        "workdir": "/w",
        "resources": {"cpus": 8, "gpus": 1},
    }


def test_redo_with_dependents_ties_the_new_jobs_together(fake, rota):
    child = a_job(id=4, depends_on=[{"kind": "after-ok", "job": 3}])
    stranger = a_job(id=5)
    fake.routes |= {
        "GET /jobs": {"items": [stranger, child, a_job(id=3)], "cursor": None},
        "GET /jobs/3/request": {"command": ["a"]},
        "GET /jobs/4/request": {"command": ["b"]},
        "POST /jobs": [Answer({"id": 10}), Answer({"id": 11})],
    }

    ended = rota("redo", "3", "--with-dependents")

    assert ended.out == "10\n11\n"
    assert fake.asked[-1].body == {
        "command": ["b"],
        "depends_on": [{"kind": "after-ok", "job": 10, "element": False}],
    }


def test_a_token_is_printed_alone_so_that_it_can_be_captured(fake, rota):
    fake.routes["POST /tokens"] = {"id": "t1", "token": "rota_t1_secret"}

    ended = rota("token", "create", "--user", "ada", "--expires", "30d")

    assert ended.out == "rota_t1_secret\n"
    assert fake.asked[0].body == {"user": "ada", "expires_s": 2_592_000}


def test_a_join_token_says_how_to_use_it_and_for_how_many(fake, rota):
    fake.routes["POST /tokens"] = {
        "id": "t1",
        "token": "rota_t1_secret",
        "fingerprint": "F",
        "url": "https://0.0.0.0:8082",
        "expires_at": "2031-05-06T07:08:09Z",
    }

    ended = rota("token", "create", "--join", "--uses", "3", "--approve", "--expires", "1h")

    assert ended.out == "rota_t1_secret.F\n"
    assert fake.asked[0].body == {
        "access": "agent",
        "uses": 3,
        "approve": True,
        "expires_s": 3600,
    }
    assert "token t1: good for 3 nodes, until 2031-05-06" in ended.err
    assert "--token-file FILE" in ended.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--join", "--access", "admin"], "leave out --user, --access and --project"),
        (["--uses", "3"], "--uses and --approve go with --join"),
        (["--approve"], "--uses and --approve go with --join"),
    ],
)
def test_options_of_tokens_that_do_not_go_together_are_refused(fake, rota, options, said):
    ended = rota("token", "create", *options)

    assert ended.code == 2
    assert said in ended.err
    assert fake.asked == []


def test_before_tokens_are_revoked_it_is_said_what_that_cuts_off(fake, rota):
    fake.routes["GET /tokens"] = {
        "items": [
            {"id": "t1", "access": "agent", "uses_left": 2, "nodes": ["n1", "n2"]},
            {"id": "t2", "access": "user", "user": "ann"},
        ]
    }
    fake.routes["DELETE /tokens/t1"] = fake.routes["DELETE /tokens/t2"] = Answer(b"", 204)

    asked = rota("token", "revoke", "t1", "t2")
    done = rota("token", "revoke", "t1", "t2", "--yes")

    lines = (
        "token t1: 2 more nodes could join with it, and no more can; n1, n2 joined with it and "
        "keep their own keys",
        "token t2: programs that use it as ann are cut off",
    )
    for ended in (asked, done):
        assert all(line in ended.err for line in lines)
    assert (asked.code, asked.out) == (2, "")
    assert "revoke these 2? there is nobody to ask here: add --yes" in asked.err
    assert done.out == "revoked t1\nrevoked t2\n"


def test_nodes_that_wait_for_approval_are_listed_as_pending(fake, rota):
    fake.routes["GET /nodes"] = {
        "items": [],
        "pending": [{"name": "n1", "home": "rack1:/var/lib/rota/agent", "key": "ab12"}],
    }

    ended = rota("nodes")

    line = ended.out.splitlines()[1]
    assert line.split()[:2] == ["n1", "pending"]
    assert "rota node approve n1" in line


def test_a_group_can_be_given_another_cap(fake, rota):
    fake.routes["PUT /groups/my%20group"] = {
        "name": "my group",
        "owner": "ada",
        "max_concurrent": 4,
        "running_jobs": 2,
    }

    ended = rota("group", "set", "my group", "--max-concurrent", "4")

    assert ended.out == "my group: at most 4 at once, 2 running\n"


def test_status_joins_the_servers_word_with_this_machines_files(fake, rota, tmp_path):
    (tmp_path / "controller.json").write_text('{"pid": 7, "url": "http://x", "database": "db"}')
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "agent.json").write_text('{"pid": 8, "node": "box"}')
    told = {"pid": 9, "url": "http://y", "version": "1", "uptime_s": 5}
    agent = {"pid": None, "node": None}
    fake.routes["GET /status"] = {"controller": told, "agent": agent, "jobs": {}}
    fake.routes["GET /status/database"] = {"name": "x", "state": "ok", "problem": ""}

    answer = json.loads(rota("status", "--json").out)

    assert answer["controller"] == told
    assert answer["agent"] == agent
    assert answer["database"] == "db"


def test_the_doctor_says_what_fails_and_exits_with_1(rota, monkeypatch, tmp_path):
    monkeypatch.setenv("ROTA_STATE_DIR", str(tmp_path / "none"))
    monkeypatch.delenv("ROTA_URL", raising=False)

    ended = rota("doctor")

    assert ended.code == exits.NEGATIVE
    said = [line for line in ended.out.splitlines() if line.startswith("fail  controller")]
    assert len(said) == 1
    assert said[0].count("start it with 'rota up --detach'") == 1
    assert any(line.startswith("ok    python") for line in ended.out.splitlines())


def test_an_address_with_tls_for_a_port_without_it_is_told_as_that(rota, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        answering = threading.Thread(target=_refuse_in_http, args=(server,))
        answering.start()
        url = f"https://127.0.0.1:{server.getsockname()[1]}"
        monkeypatch.setenv("ROTA_URL", url)

        ended = rota("queue")
        answering.join()

    assert ended.code == exits.UNREACHABLE
    assert ended.err == (
        f"rota: nothing answers at {url}: it does not speak TLS; is it http://127.0.0.1?\n"
    )


def _refuse_in_http(server):
    connection, _ = server.accept()
    with connection:
        connection.recv(4096)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_printed_for_each_shell(rota, shell):
    assert "_ROTA_COMPLETE" in rota("completion", shell).out


def test_every_command_has_a_help_page(rota):
    from rota.cli.main import COMMANDS

    for name in (name for section in COMMANDS.values() for name in section):
        ended = rota(name, "--help")

        assert ended.code == 0
        assert "Usage: rota " + name in ended.out


@pytest.mark.parametrize("verb", ["submit", "run"])
@pytest.mark.parametrize(
    ("option", "text", "why"),
    [
        ("--output", "file/out.txt", "/file is not a folder"),
        ("--error", "file/deep/%x-%j.txt", "/file is not a folder"),
        ("--output", "folder", "it is a folder"),
    ],
)
def test_a_file_that_cannot_be_written_is_refused_before_it_is_a_job(
    fake, rota, tmp_path, monkeypatch, verb, option, text, why
):
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)

    ended = rota(verb, option, text, "--", "true")

    assert f"{option}: '{text}' cannot be written: " in ended.err
    assert ended.err.endswith(f"{why}\n")
    assert (ended.code, fake.asked) == (exits.USAGE, [])
