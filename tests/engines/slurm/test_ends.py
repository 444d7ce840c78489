"""How attempts begin and end in a real Slurm, as its driver tells it."""

from rota.backends.api import EnginePhase
from rota.core.facts.states import Blame, Cause


def test_an_end_is_told_as_it_was(bench):
    ends = {"exit 0": (0, 0), "exit 3": (3, 0), "exit 137": (137, 0), "exit 253": (253, 0)}
    deaths = {"kill -9 $$": (None, 9), "kill -TERM $$": (None, 15), "kill -SEGV $$": (None, 11)}
    deaths |= {"kill -53 $$": (None, 53)}  # Slurm's own number for a script that did not start.
    expected = {bench.shell(text): end for text, end in (ends | deaths).items()}

    told = {job.uid: job for job in bench.ended(expected)}

    assert {uid: (job.code, job.signal) for uid, job in told.items()} == expected
    assert {(job.cause, job.fault) for job in told.values()} == {(None, None)}
    assert all(0 < job.submitted_s <= job.started_s <= job.ended_s for job in told.values())


def test_a_start_that_failed_says_why_and_for_whose_sake(bench, tmp_path):
    tmp_path.chmod(0o755)
    wishes = {
        "working folder /nowhere: no such directory": {"workdir": "/nowhere"},
        f"output file {tmp_path}/a/b: cannot be written": {"stdout": f"{tmp_path}/a/b"},
        "ulimit nofile=99999999999: above the hard limit": {"ulimits": {"nofile": 99999999999}},
    }
    expected = {bench.submit("/bin/true", **wish): why for why, wish in wishes.items()}
    expected[bench.submit("nosuchcommand")] = "command not found: nosuchcommand"

    told = bench.ended(expected)

    assert {job.uid: job.detail for job in told} == expected
    assert {(job.cause, job.fault, job.code) for job in told} == {
        (Cause.START_FAILED, Blame.JOB, None)
    }


def test_one_that_is_stopped_while_it_waits_never_runs(bench):
    bench.until_running(bench.submit("/bin/sleep", "60", node="n1", cpu_milli=4000))
    uid = bench.submit("/bin/true", node="n1", cpu_milli=4000)
    waiting = bench.until(uid, lambda job: job.reason in ("Resources", "Priority"))

    bench.do(bench.driver.stop(waiting, 30.0))

    job = bench.until_ended(uid)
    assert waiting.phase is EnginePhase.WAITING
    assert (job.cause, job.started_s, job.code) == (Cause.CANCELLED, 0.0, None)


def test_one_that_obeys_is_stopped_by_term_alone(bench):
    uid = bench.shell("trap 'exit 7' TERM; echo up; while :; do sleep 0.1; done")
    running = bench.until_running(uid)
    bench.until_log(running, b"up")

    bench.do(bench.driver.stop(running, 30.0))

    assert bench.until_ended(uid).code == 7


def test_one_that_does_not_obey_is_killed_after_its_grace(bench):
    uid = bench.shell("trap 'echo no' TERM; echo up; while :; do sleep 0.1; done")
    running = bench.until_running(uid)
    bench.until_log(running, b"up")

    bench.do(bench.driver.stop(running, 0.5))

    job = bench.until_ended(uid)
    assert job.cause is Cause.CANCELLED
    assert b"no" in bench.log(job)


def test_a_signal_reaches_the_program_once(bench):
    uid = bench.shell("trap 'echo one' USR1; echo up; for i in {1..100}; do sleep 0.05; done")
    running = bench.until_running(uid)
    bench.until_log(running, b"up")

    bench.do(bench.driver.signal(running, 10))

    bench.until_log(running, b"one")
    job = bench.until_ended(uid)
    assert (job.code, bench.log(job)) == (0, b"up\none\n")
