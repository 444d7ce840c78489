"""What an installation recorded, as a workload: read beside its writer, played by other rules."""

import msgspec
import pytest

from rota.controller.commands import commands as cmd
from rota.controller.past import Past, read_arrays, read_jobs, site_of
from rota.core.facts.errors import Rejected
from rota.core.facts.policy import DEFAULT
from rota.core.facts.states import JobState
from rota.core.facts.tenant import Queue
from rota.core.words.presets import preset, with_preset
from rota.sim.cluster.run import play
from rota.sim.history import history_of, read_history
from rota.sim.machine import machine_for
from rota.sim.settings import SimEstimates, SimSettings
from rota.sim.simulate import simulate
from rota.sim.trace import BadTrace
from rota.sim.trial import compare
from rota.store.open import open_store
from rota.store.readonly import open_readonly
from rota.testing.scene import ADMIN, BOB
from tests.sim.clocked import Clocked


def past_of(scene):
    jobs, cut = read_jobs(scene.store)
    return Past(site_of(scene.cluster), jobs, read_arrays(scene.store, jobs), cut=cut)


def lines(history):
    return {job.name: job for job in history.jobs}


def starts(run, history):
    names = {job.id: job.name for job in history.jobs}
    return {names[job.id]: start_s for job, start_s in zip(run.jobs, run.start_s, strict=True)}


def test_a_job_is_told_with_its_times_its_wishes_and_whose_it_was():
    scene = Clocked(cpus=4, gpus=2)
    scene.ask(cmd.SetQueue(actor=ADMIN, queue=Queue(name="night", priority=70)))
    scene.submit("train", gpus=2, cpus=1, project="vision", priority=60, time_limit_s=600)
    scene.pass_time(5)
    scene.submit("late", gpus=1, queue="night", actor=BOB)
    scene.run_for("train", 100)
    scene.run_for("late", 7)

    history = history_of(past_of(scene))

    train, late = history.jobs
    assert (train.submit_s, train.user, train.group, train.priority) == (0, "alice", "vision", 60)
    assert (train.procs, train.request.device_count, train.estimate_s) == (2, 2, 600)
    assert train.run_s == pytest.approx(105, abs=0.1)
    assert (late.user, late.queue) == ("bob", "night")
    assert late.submit_s == pytest.approx(5, abs=0.1)
    assert (history.unit, [node.name for node in history.nodes]) == ("GPUs", ["box"])
    assert history.waited_s[late.id] == pytest.approx(100, abs=0.1)


def test_the_present_rules_lead_to_what_was_recorded():
    scene = Clocked(cpus=4)
    scene.set_policy("fcfs")
    for name, cpus in (("a", 3), ("b", 4), ("c", 1), ("d", 2)):
        scene.submit(name, cpus=cpus)
    for name, seconds in (("a", 50), ("b", 20), ("c", 5), ("d", 5)):
        scene.run_for(name, seconds)

    history = history_of(past_of(scene))
    run = play(
        history.jobs,
        history.nodes,
        scene.cluster.policy,
        begin_s=history.begin_s,
        particulars=history.particulars,
    )

    waits = {
        job.id: start_s - job.submit_s for job, start_s in zip(run.jobs, run.start_s, strict=True)
    }
    assert waits == pytest.approx(history.waited_s, abs=0.1)


def test_children_begin_times_and_who_left_waiting_are_played_as_they_were():
    scene = Clocked(cpus=1)
    scene.submit("parent")
    scene.submit("child", after={"parent": "after-ok"})
    scene.submit("later", begin_s=scene.now_s + 300)
    scene.submit("quitter", priority=1)
    scene.pass_time(30)
    scene.cancel("quitter")
    scene.run_for("parent", 30)
    scene.run_for("child", 10)
    scene.pass_time(230)
    scene.run_for("later", 5)

    history = history_of(past_of(scene))
    faster = play(
        [msgspec.structs.replace(job, run_s=job.run_s / 10) for job in history.jobs],
        history.nodes,
        DEFAULT,
        begin_s=history.begin_s,
        particulars=history.particulars,
    )

    began = starts(faster, history)
    assert began["child"] == pytest.approx(6, abs=0.1)
    assert began["later"] == pytest.approx(300, abs=0.1)
    quitter = lines(history)["quitter"]
    assert history.particulars[quitter.id].cancel_s == pytest.approx(30, abs=0.1)
    assert quitter.id not in history.waited_s


def test_an_array_keeps_its_cap_and_whoever_waits_for_it_waits_for_its_elements():
    scene = Clocked(cpus=4)
    array = scene.submit("sweep", array="0-3%2")
    scene.submit("after", after={"sweep": "after-any"})
    for element in range(array + 1, array + 5):
        scene.pass_time(10)
        scene.finish(element)
    scene.run_for("after", 1)

    history = history_of(past_of(scene))
    run = play(
        history.jobs,
        history.nodes,
        preset("fifo"),
        begin_s=history.begin_s,
        particulars=history.particulars,
        site=history.site,
    )

    assert [job.id for job in history.jobs] == [*range(array + 1, array + 6)]
    assert sorted(run.start_s)[:2] == [0, 0]
    assert min(run.start_s[2:4]) > 5
    assert run.start_s[4] == pytest.approx(max(run.end_s[:4]))


def test_a_job_that_failed_and_tried_again_is_as_long_as_both_tries_and_its_end_counts():
    scene = Clocked(cpus=1)
    scene.submit("flaky", retries=1, backoff_s=1)
    scene.run_for("flaky", 10, code=1)
    scene.pass_time(2)
    scene.run_for("flaky", 20, code=1)
    scene.submit("moved")
    scene.pass_time(15)
    scene.requeue("moved")
    scene.finish("moved", None, signal=15)
    scene.run_for("moved", 40)

    history = history_of(past_of(scene))

    told = lines(history)
    assert told["flaky"].run_s == pytest.approx(30, abs=0.2)
    assert history.particulars[told["flaky"].id].ends is JobState.FAILED
    assert told["moved"].run_s == pytest.approx(40, abs=0.2)
    assert any(note.startswith("2 ran more than once") for note in history.notes)


def test_what_cannot_be_played_is_left_out_and_told():
    scene = Clocked(cpus=1)
    scene.submit("fails")
    scene.submit("orphan", after={"fails": "after-ok"})
    scene.run_for("fails", 5, code=1)
    scene.submit("running")
    scene.submit("waiting")

    history = history_of(past_of(scene))

    assert history.left_out == {"never started, because a parent failed": 1, "not finished yet": 2}
    assert "2 left out: not finished yet" in history.notes


def test_the_simulator_plays_a_history_with_all_that_is_known_about_it():
    scene = Clocked(cpus=2)
    scene.submit("parent", time_limit_s=500)
    scene.submit("child", after={"parent": "after-ok"})
    scene.submit("other", time_limit_s=500)
    scene.pass_time(40)
    scene.finish("parent")
    scene.run_for("child", 10)
    scene.finish("other")
    history = history_of(past_of(scene))
    machine = machine_for(history)

    said = simulate(history, machine, "fifo", SimSettings())
    exact = simulate(history, machine, "fifo", SimSettings(estimates=SimEstimates.EXACT))

    assert starts(said, history)["child"] == pytest.approx(40, abs=0.1)
    assert starts(exact, history)["child"] == pytest.approx(40, abs=0.1)
    assert [said.estimate_s[0], exact.estimate_s[0]] == [500, 41]


def two_people() -> Clocked:
    """One with long jobs, one with short ones behind them, in the order of submission."""
    scene = Clocked(cpus=1)
    scene.set_policy("fcfs")
    for name in ("first", "second"):
        scene.submit(name, time_limit_s=1000, project="long")
    for name in ("third", "fourth"):
        scene.submit(name, time_limit_s=20, project="short", actor=BOB)
    for name, seconds in (("first", 900), ("second", 900), ("third", 10), ("fourth", 10)):
        scene.run_for(name, seconds)
    return scene


def test_a_comparison_says_who_gains_and_who_loses():
    past = past_of(two_people())

    found = compare(past, with_preset(past.site.policy, "sjf"))

    bob, alice = found.users
    assert (bob.name, bob.jobs, bob.earlier, bob.later) == ("bob", 2, 2, 0)
    assert bob.wait_before_s == pytest.approx(1805, abs=1)
    assert bob.wait_after_s == pytest.approx(905, abs=1)
    assert (alice.name, alice.later) == ("alice", 1)
    assert [gain.name for gain in found.projects] == ["short", "long"]
    assert found.recorded_mean_wait_s == pytest.approx(found.before.mean_wait_s, abs=1)
    assert found.after.mean_wait_s < found.before.mean_wait_s


def test_the_newest_jobs_are_taken_when_there_are_too_many():
    scene = two_people()

    jobs, cut = read_jobs(scene.store, limit=3)
    recent, _ = read_jobs(scene.store, since_s=scene.now_s)

    assert ([job.spec.name for job in jobs], cut) == (["second", "third", "fourth"], True)
    assert recent == []
    assert (
        "only the newest 3 jobs were taken"
        in history_of(Past(site_of(scene.cluster), jobs, cut=cut)).notes
    )


def test_a_history_is_read_while_the_database_is_being_written(tmp_path):
    writer = open_store(str(tmp_path / "rota.db"))
    scene = Clocked(writer, cpus=1)
    scene.submit("first")
    scene.run_for("first", 10)

    before = read_history(tmp_path)
    scene.submit("second")
    scene.run_for("second", 10)
    after = read_history(tmp_path / "rota.db")
    writer.close()
    closed = read_history(f"sqlite:////{tmp_path}/rota.db")

    assert [len(history.jobs) for history in (before, after, closed)] == [1, 2, 2]
    assert before.name == str(tmp_path / "rota.db")


def test_a_history_is_read_beside_the_controller_that_leads_on_postgresql(postgres_url):
    writer = open_store(postgres_url)
    scene = Clocked(writer, cpus=1)
    scene.submit("first")
    scene.run_for("first", 10)

    history = read_history(postgres_url)
    writer.close()

    assert [job.name for job in history.jobs] == ["first"]


def test_a_place_without_a_history_is_refused_in_one_line(tmp_path):
    (tmp_path / "text").write_text("no database " * 100)
    open_store(str(tmp_path / "empty.db")).close()

    with pytest.raises(Rejected, match=r"history: no rota\.db in"):
        read_history(tmp_path)
    with pytest.raises(Rejected, match="no such file or folder"):
        read_history(tmp_path / "nowhere")
    with pytest.raises(Rejected, match="history: 'mysql://x/y' is not valid"):
        open_readonly("mysql://x/y")
    with pytest.raises(Rejected, match="is not a Rota database"):
        open_readonly(str(tmp_path / "text"))
    with pytest.raises(BadTrace, match="no finished job on record"):
        read_history(tmp_path / "empty.db")
