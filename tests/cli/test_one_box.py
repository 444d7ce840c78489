"""Suspending jobs, figures about jobs, and the choice of GPUs: what is sent and printed."""

import pytest

from rota import config
from rota.core.facts.errors import Rejected
from tests.cli.fake_server import Answer

GPU = {"node": "box", "index": 0, "uuid": "u0", "model": "A100", "memory_mb": 40960, "jobs": []}
ROW = {
    "user": "ada",
    "jobs": 7,
    "states": {"completed": 3, "failed": 1, "timeout": 1, "cancelled": 1, "running": 1},
    "mean_wait_s": 3.25,
    "mean_run_s": 3700.4,
    "success_rate": 0.6,
    "gpu_hours": 12.34,
}
EMPTY = {**ROW, "user": "bob", "jobs": 0, "states": {}, "mean_wait_s": None, "mean_run_s": None,
         "success_rate": None, "gpu_hours": 0.0}  # fmt: skip
LONG = {"id": 4, "ref": "2_1", "name": "train", "user": "ada", "state": "running",
        "started_at": None,
        "run_s": 7200.0}  # fmt: skip


def gpu(**fields):
    return {**GPU, "state": "free", "foreign": [], **fields}


@pytest.mark.parametrize(("verb", "past"), [("suspend", "suspended"), ("resume", "resumed")])
def test_jobs_are_suspended_and_resumed(fake, rota, verb, past):
    refusal = {"id": 13, "reason": "job 13 is queued"}
    fake.routes[f"POST /jobs:{verb}"] = {"changed": [12], "refused": [refusal]}

    ended = rota(verb, "12", "13")

    assert fake.asked[-1].body == {"ids": [12, 13]}
    assert (ended.code, ended.out) == (1, f"{past} 12\n")
    assert "job 13 is queued" in ended.err


def test_the_queue_says_that_a_running_job_is_suspended():
    from rota.cli.shared.job_fields import where_or_why

    job = {"state": "running", "nodes": ["box"], "reason": "suspended by ada"}

    assert where_or_why(job) == "box: suspended by ada"


def test_stats_show_a_row_per_user_and_one_for_all(fake, rota):
    fake.routes["GET /stats"] = {
        "since": None, "until": None, "items": [ROW, EMPTY],
        "total": {**ROW, "user": ""}, "longest": [LONG],
    }  # fmt: skip

    ended = rota("stats", "--user", "ada", "--period", "30d", "--longest", "3")

    lines = ended.out.splitlines()
    assert fake.asked[-1].query == {"user": "ada", "period_s": "2592000", "longest": "3"}
    assert lines[0] == "jobs submitted in the last 30d:"
    assert lines[2].split() == ["ada", "7", "3", "2", "1", "1", "60%", "3.2s", "1h1m40s", "12.3"]
    assert lines[3].split() == ["bob", "0", "0", "0", "0", "0", "-", "-", "-", "0.0"]
    assert lines[4].split()[0] == "(all)"
    assert lines[-1].split() == ["2_1", "train", "ada", "running", "2h"]


def test_a_single_user_needs_no_row_for_all(fake, rota):
    answer = {"since": None, "until": None, "items": [ROW], "total": ROW, "longest": []}
    fake.routes["GET /stats"] = answer

    assert len(rota("stats").out.splitlines()) == 3


@pytest.mark.parametrize("words", ["usage --period", "stats --period", "report"])
def test_a_period_that_is_too_long_is_named_as_it_was_written(fake, rota, words):
    refused = rota(*words.split(), "400d")

    assert refused.code == 2
    assert "400d" in refused.err
    assert "366d" in refused.err
    assert not fake.asked


@pytest.mark.parametrize("words", ["stats --period soon", "stats --longest 101", "stats extra"])
def test_stats_of_nonsense_are_refused_before_anybody_is_asked(fake, rota, words):
    assert rota(*words.split()).code == 2
    assert not fake.asked


@pytest.mark.parametrize(
    ("text", "sent"), [("0,2", [0, 2]), ("0-2,5", [0, 1, 2, 5]), ("all", "all"), ("3", [3])]
)
def test_the_devices_of_a_node_are_chosen_by_index(fake, rota, text, sent):
    devices = [gpu(closed=False), gpu(index=1, state="closed", closed=True),
               gpu(index=2, state="used", jobs=[7], closed=True)]  # fmt: skip
    fake.routes["PATCH /nodes/box"] = {"name": "box", "devices": devices}

    ended = rota("node", "devices", "box", text)

    assert fake.asked[-1].body == {"devices": sent}
    states = [line.split()[4] for line in ended.out.splitlines()[1:]]
    assert states == ["free", "closed", "used+closed"]


@pytest.mark.parametrize("text", ["none", "0-", "", "-1", "0,0", "0-99999", "0-3%2", "1.5"])
def test_what_is_no_list_of_devices_is_refused(fake, rota, text):
    ended = rota("node", "devices", "box", "--", text)

    assert ended.code == 2
    assert "expected 0,1 or 0-3,6 or all" in ended.err
    assert not fake.asked


def test_processes_outside_rota_are_ignored_and_shown_in_brackets(fake, rota):
    uses = [{"pid": 42, "user": "bob", "memory_mb": 1024, "ignored": True}]
    fake.routes["PATCH /nodes/box"] = {"name": "box", "devices": [gpu(foreign=uses)]}

    ignored = rota("gpus", "ignore", "box", "42", "43")
    counted = rota("gpus", "ignore", "box", "42", "--unignore")

    assert [asked.body for asked in fake.asked] == [{"ignore": [42, 43]}, {"unignore": [42]}]
    assert "(bob:42:1G)" in ignored.out
    assert counted.code == 0


def test_gpus_without_a_command_lists_them(fake, rota):
    fake.routes["GET /gpus"] = {"items": [gpu()]}

    ended = rota("gpus", "--free")

    assert fake.asked[-1].query == {"available": "true"}
    assert "A100" in ended.out


def test_settings_say_whether_devices_are_enforced():
    required = config.parse('[agent]\nenforce_devices = "required"\n', "rota.toml", {})

    assert required.agent.enforce_devices == "required"
    assert config.parse("", "", {}).agent.enforce_devices == "auto"
    with pytest.raises(Rejected, match=r"agent\.enforce_devices: 'yes' is not known"):
        config.parse('[agent]\nenforce_devices = "yes"\n', "rota.toml", {})


def test_settings_say_which_processes_do_not_count():
    text = '[agent]\nforeign_ignore = "Xorg, 4242"\nforeign_threshold = "500m"\n'

    settings = config.parse(text, "rota.toml", {})

    assert settings.agent.foreign_ignore == "Xorg, 4242"
    assert settings.agent.foreign_threshold_mib == 500
    assert config.parse("", "", {}).agent.foreign_threshold_mib == 0
    with pytest.raises(Rejected, match="lots"):
        config.parse('[agent]\nforeign_threshold = "lots"\n', "rota.toml", {})


def test_stats_are_asked_for_from_when_to_when_and_of_a_project(fake, rota):
    total = {"user": "", "jobs": 0, "states": {}, "mean_wait_s": None, "mean_run_s": None}
    total |= {"success_rate": None, "gpu_hours": 0.0}
    span = {"since": "2026-11-01T00:00:00Z", "until": "2026-11-02T00:00:00Z"}
    fake.routes["GET /stats"] = {**span, "total": total, "items": [], "longest": []}

    ended = rota(
        "stats", "-p", "vision", "--since", "2026-11-01T00:00Z", "--until", "2026-11-02T00:00Z"
    )

    asked = fake.asked[0].query
    assert (asked["project"], asked["since"], asked["until"]) == ("vision", *span.values())
    assert ended.out.startswith("jobs submitted from 2026-11-0")


def test_a_length_that_the_server_refuses_is_told_as_people_write_lengths(fake, rota):
    allowed = "0 to 3600 (grace_max_s of this site)"
    problem = {"detail": "grace_s: 345600 is not valid", "value": 345600, "allowed": allowed}
    fake.routes["POST /jobs"] = Answer({**problem, "field": "grace_s", "code": "invalid"}, 400)

    ended = rota("submit", "--grace", "4d", "--", "true")

    assert ended.err == "rota: grace: 4d is not valid; 0 to 1h (grace_max_s of this site)\n"


@pytest.mark.parametrize(
    "words", ["stats --period 400d", "usage --period 400d", "quota set --default --period 400d"]
)
def test_a_period_beyond_what_is_known_is_refused_in_its_own_words(fake, rota, words):
    ended = rota(*words.split())

    assert "'400d' is not valid; expected at least 1s and at most 366d" in ended.err
    assert not fake.asked


@pytest.mark.parametrize(("text", "least"), [("1d", 86_400), ("3d", 3 * 86_400), ("2099-01-01", 1)])
def test_a_token_is_valid_for_a_time_or_until_a_moment(fake, rota, text, least):
    fake.routes["POST /tokens"] = Answer({"id": "t1", "token": "rota_t1_secret"}, 201)

    rota("token", "create", "--expires", text)

    assert fake.asked[0].body["expires_s"] >= least
    assert "has passed" in rota("token", "create", "--expires", "yesterday").err
