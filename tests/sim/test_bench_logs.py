"""What the benchmark of the simulator measures with: made-up logs, and commands under watch."""

import sys

import pytest

from bench.child import run_child
from bench.rota import Broken
from bench.sim_logs import deepest, made_up, made_up_trace, write_swf
from rota.sim.readers import read_trace
from rota.sim.trace import TraceJob

pytestmark = pytest.mark.slow


def test_a_made_up_log_is_the_same_for_the_same_seed_and_another_for_another():
    first = [*made_up(200, 64, 0.9, seed=3)]

    assert first == [*made_up(200, 64, 0.9, seed=3)]
    assert first != [*made_up(200, 64, 0.9, seed=4)]


def test_a_made_up_log_asks_for_about_as_much_as_its_load_says():
    jobs = made_up_trace("log", 20_000, 1_000, 0.8).jobs

    span_s = jobs[-1].submit_s
    asked = sum(job.procs * job.run_s for job in jobs) / (span_s * 1_000)
    assert asked == pytest.approx(0.8, rel=0.05)


def test_a_made_up_log_comes_back_from_its_file_as_it_was(tmp_path):
    trace = made_up_trace("log", 300, 128, 1.0)

    write_swf(tmp_path / "log.swf", trace.jobs, trace.procs)

    assert read_trace(tmp_path / "log.swf") == trace


def test_the_deepest_queue_counts_those_who_wait_at_once_and_nobody_who_starts_as_he_comes():
    jobs = [TraceJob(number, submit_s, 10, 1) for number, submit_s in enumerate((0, 1, 2, 5))]

    assert deepest(jobs, [0, 4, 4, 6]) == 2
    assert deepest(jobs, [0, 1, 2, 5]) == 0


def test_a_child_is_charged_for_its_own_memory_and_not_for_the_memory_of_who_started_it():
    ballast = bytearray(300 << 20)

    child = run_child([sys.executable, "-c", "print(len(bytearray(50 << 20)))"], limit_s=60)

    assert child.said.strip() == str(50 << 20)
    assert 50 < child.peak_mib < len(ballast) >> 20
    assert child.cpu_s > 0


def test_a_child_that_fails_gives_no_figures_but_says_why():
    with pytest.raises(Broken, match="exit code 3: no such log"):
        run_child([sys.executable, "-c", "print('no such log'); raise SystemExit(3)"], limit_s=60)
