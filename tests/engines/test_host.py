"""The host of an engine: its nodes, its journal, and what happens when either side is killed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.engines.folder_engine import run
from tests.journeys.box import until

if TYPE_CHECKING:
    from tests.engines.conftest import EngineSite


def test_jobs_run_in_the_engine_and_their_ends_are_told(site: EngineSite):
    box = site.box

    good, bad = box.ran(["echo", "hi"]), box.ran(["sh", "-c", "exit 3"])

    assert (good["state"], good["exit_code"], bad["exit_code"]) == ("completed", 0, 3)
    assert good["nodes"][0] in ("f1.lab", "f2.lab")
    assert box.output(good["id"]) == "hi\n"
    assert good["attempts"][0]["external_id"] == "1"


def test_what_a_job_printed_is_searched_while_it_runs_and_after(site: EngineSite):
    job = site.box.job(["sh", "-c", "printf 'one\\ntwo\\nthree\\n'; sleep 2"])
    until(lambda: "three" in site.box.output(job), "its output")

    during = site.box.api("GET", f"/jobs/{job}/logs?search=t[wh]&regex=1")
    site.box.ended(job)
    after = site.box.api("GET", f"/jobs/{job}/logs?search=two&numbers=1")

    assert during == (200, "two\nthree\n")
    assert after == (200, "2:two\n")


def test_a_job_is_cancelled_in_the_engine(site: EngineSite):
    job = site.box.job(["sleep", "600"])
    site.box.reach(job, "running")

    site.box.rota("cancel", str(job))

    assert site.box.ended(job)["state"] == "cancelled"
    until(lambda: (site.inside()[0] / "end.json").exists(), "the end inside the engine")


def test_why_names_the_engines_own_reason_while_a_job_waits_inside(site: EngineSite):
    site.fault("hold")
    job = site.box.job(["true"])

    until(lambda: "held by the folder engine" in site.box.why(job), "the engine's reason")
    assert "waiting inside lab" in site.box.why(job)

    site.fault("")
    run(site.inside()[0])
    assert site.box.ended(job)["state"] == "completed"


def test_a_job_that_waits_inside_is_taken_out_when_it_is_cancelled(site: EngineSite):
    site.fault("hold")
    job = site.box.job(["true"])
    until(lambda: "held by" in site.box.why(job), "the job to wait inside")

    site.box.rota("cancel", str(job))

    assert site.box.ended(job)["state"] == "cancelled"


def test_what_the_engine_refuses_ends_the_job_in_its_own_words(site: EngineSite):
    site.fault("refuse")

    job = site.box.ran(["true"])

    assert job["state"] == "failed"
    assert "such jobs are not taken here" in str(job)


@pytest.mark.parametrize("site", [1.0], indirect=True)
def test_one_that_waited_for_too_long_comes_back_also_when_the_engine_does_not_listen_at_first(
    site: EngineSite,
):
    site.fault("hold")
    job = site.box.job(["true"])
    until(site.inside, "the job inside")

    site.fault("deaf")

    assert site.box.ended(job)["state"] == "completed"
    assert "it waited inside lab" in site.box.ended(job)["attempts"][0]["cause"]


@pytest.mark.parametrize("site", [1.0], indirect=True)
def test_what_a_driver_holds_back_to_spare_its_engine_is_not_given_back(site: EngineSite):
    site.fault("paced")
    job = site.box.job(["true"])
    until(lambda: "it has enough to start" in site.box.why(job), "its reason")

    time.sleep(2.5)  # What an engine is too full for would be given back by now.
    site.fault("")

    assert site.box.ended(job)["state"] == "completed"
    assert len(site.box.ended(job)["attempts"]) == 1


@pytest.mark.parametrize("site", [3.0], indirect=True)
@pytest.mark.parametrize(
    ("fault", "words"),
    [("shut", "the door of the folder engine is shut"), ("unsure", "the folder engine fell over")],
)
def test_an_engine_that_answers_and_takes_no_job_says_so_and_the_job_comes_back(
    site: EngineSite, fault: str, words: str
):
    site.fault(fault)
    job = site.box.job(["true"])

    until(lambda: words in site.box.why(job), "the engine's words")
    until(lambda: len(site.box.api("GET", f"/jobs/{job}")[1]["attempts"]) > 1, "another try")
    first = site.box.api("GET", f"/jobs/{job}")[1]["attempts"][0]
    site.fault("")

    assert words in first["cause"]
    assert site.box.ended(job)["state"] == "completed"
    assert len(site.inside()) == 1


@pytest.mark.parametrize("site", [0.0], indirect=True)
def test_where_nothing_is_given_back_what_the_engine_is_too_full_for_waits(site: EngineSite):
    site.fault("full")
    job = site.box.job(["true"])
    until(lambda: "QueueIsFull" in site.box.why(job), "the engine's words")

    site.fault("")

    assert len(site.box.ended(job)["attempts"]) == 1


def test_a_submit_whose_answer_is_lost_is_found_and_not_repeated(site: EngineSite):
    site.fault("lost-answer")

    job = site.box.ran(["echo", "once"])

    assert job["state"] == "completed"
    assert len(site.inside()) == 1


def test_while_the_engine_is_away_its_jobs_are_held_and_go_on_when_it_is_back(site: EngineSite):
    running = site.box.job(["sleep", "2"])
    site.box.reach(running, "running")
    site.fault("away")
    late = site.box.job(["echo", "late"])

    site.box.reach(late, "scheduled")
    site.fault("")

    assert site.box.ended(running)["state"] == "completed"
    assert site.box.ended(late)["state"] == "completed"
    assert len(site.inside()) == 2


def test_a_host_that_is_killed_loses_and_doubles_nothing(site: EngineSite):
    jobs = [site.box.job(["sh", "-c", f"echo {n}; sleep 0.5"]) for n in range(20)]
    site.box.reach(jobs[0], "running", "completed")

    site.kill()
    site.begin()

    assert {site.box.ended(job)["state"] for job in jobs} == {"completed"}
    assert len(site.inside()) == 20


def test_a_journal_that_is_lost_is_made_again_from_the_engines_own_keys(site: EngineSite):
    job = site.box.job(["sh", "-c", "sleep 3; echo whole"])
    site.box.reach(job, "running")

    site.kill()
    for path in (site.box.state / "engines" / "lab").glob("journal.db*"):
        path.unlink()
    site.begin()

    assert site.box.ended(job)["state"] == "completed"
    assert len(site.inside()) == 1


def test_a_controller_that_is_killed_finds_its_jobs_in_the_engine(site: EngineSite):
    jobs = [site.box.job(["sleep", "1"]) for _ in range(6)]
    site.box.reach(jobs[0], "running")

    site.box.kill("controller")

    assert {site.box.ended(job)["state"] for job in jobs} == {"completed"}
    assert len(site.inside()) == 6


def test_a_job_that_vanished_from_the_engine_is_tried_again_under_a_new_name(site: EngineSite):
    job = site.box.job(["sleep", "600"], retries=1)
    site.box.reach(job, "running")
    first = site.inside()[0]

    (first / "order.json").write_text('{"key": "gone"}')
    until(lambda: len(site.inside()) == 2, "another attempt")

    shown = site.box.api("GET", f"/jobs/{job}")[1]
    assert shown["attempts"][0]["cause_code"] == "node_lost"


def test_an_accounting_that_is_down_holds_up_no_other_job(site: EngineSite):
    vanished = site.box.job(["sleep", "600"], retries=1)
    site.box.reach(vanished, "running")
    site.fault("forgetful")
    (site.inside()[0] / "order.json").write_text('{"key": "gone"}')
    said = "the accounting of the folder engine is down"
    until(lambda: said in site.log(), "the engine to ask in vain")

    others = [site.box.job(["true"]) for _ in range(2)]

    assert {site.box.ended(job)["state"] for job in others} == {"completed"}
    assert cluster_state(site) == "up"
    assert len(site.box.api("GET", f"/jobs/{vanished}")[1]["attempts"]) == 1
    site.fault("")
    until(lambda: len(site.box.api("GET", f"/jobs/{vanished}")[1]["attempts"]) == 2, "a retry")


def test_what_the_engine_does_not_let_go_at_first_is_dropped_later(site: EngineSite):
    site.fault("clinging")
    job = site.box.ran(["echo", "kept"])
    kept = site.box.state / "engines" / "lab" / "logs"
    until(lambda: [path.read_text() for path in kept.glob("*.stdout")] == ["kept\n"], "the copy")

    site.fault("")

    until((site.inside()[0] / "forgotten").exists, "the engine to be told")
    assert site.box.output(job["id"]) == "kept\n"


def test_what_ran_on_a_machine_that_left_while_nobody_looked_is_told(site: EngineSite):
    job = site.box.job(["sh", "-c", "sleep 4; echo told"], node_list=["f2.lab"])
    site.box.reach(job, "running")
    site.kill()

    config = site.folder / "rota.toml"
    config.write_text(config.read_text() + "nodes = 1\n")
    site.begin()

    assert site.box.ended(job)["state"] == "completed"
    assert site.box.output(job) == "told\n"
    _, page = site.box.api("GET", "/nodes")
    notes = {node["name"]: node["note"] or "" for node in page["items"]}
    assert "does not list it any more" in notes["f2.lab"]


def test_a_driver_that_breaks_on_a_job_says_so_and_runs_the_others(site: EngineSite):
    site.fault("broken")
    bad = site.box.ran(["true"])
    site.fault("")

    good = site.box.ran(["true"])

    assert (bad["state"], good["state"]) == ("failed", "completed")
    assert "cannot be handed in to engine lab" in str(bad)
    assert "a bug of this driver" in str(bad)


@pytest.mark.parametrize(
    ("fault", "words"),
    [("garbled", "a list as nobody has seen before"), ("scrambled", "KeyError('machines')")],
)
def test_an_answer_on_which_a_driver_breaks_is_silence_and_ends_no_host(
    site: EngineSite, fault: str, words: str
):
    running = site.box.job(["sh", "-c", "sleep 1; echo told"])
    site.box.reach(running, "running")

    site.fault(fault)
    until(lambda: words in site.log(), "the host to say so")
    site.fault("")

    assert site.box.ended(running)["state"] == "completed"
    assert site.box.ran(["true"])["state"] == "completed"


def test_jobs_of_others_in_the_engine_are_left_alone(site: EngineSite):
    stranger = site.folder / "jobs" / "999"
    stranger.mkdir()
    order = '{"key": "rota:other:abc", "node": "f1", "submitted_s": 1}'
    (stranger / "order.json").write_text(order)

    site.box.ran(["true"])

    assert (stranger / "order.json").read_text() == order
    assert not (stranger / "end.json").exists()


def test_while_the_engine_is_silent_its_cluster_is_away_and_why_says_so(site: EngineSite):
    running = site.box.job(["sleep", "600"])
    site.box.reach(running, "running")
    assert cluster_state(site) == "up"
    site.fault("away")
    until(lambda: cluster_state(site) == "away", "the cluster to be away")

    waiting = site.box.job(["echo", "late"])

    assert "cluster lab is away since" in site.box.why(running)
    assert "engine lab does not answer: the folder engine is away" in site.box.why(waiting)
    site.fault("")
    assert site.box.ended(waiting)["state"] == "completed"
    assert cluster_state(site) == "up"
    assert site.box.reach(running, "running")


def cluster_state(site: EngineSite) -> str:
    return str(site.box.api("GET", "/clusters/lab")[1]["state"])


def test_an_engine_that_lets_nobody_in_refuses_programs_and_ports_in_one_line(site: EngineSite):
    job = site.box.job(["sleep", "600"])
    site.box.reach(job, "running")

    entering = site.box.refusal("exec", str(job), "--", "true")
    reaching = site.box.refusal("forward", str(job), "0:80")
    record = site.box.api("GET", f"/jobs/{job}/events")
    site.box.rota("cancel", str(job))

    assert site.box.ended(job)["state"] == "cancelled"
    assert entering == f"rota: job {job}: engine lab lets nobody into running jobs"
    assert reaching == entering
    assert record[0] == 200
    assert "job-entered" not in str(record[1])
