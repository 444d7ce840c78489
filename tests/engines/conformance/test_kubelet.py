"""A smaller set on a real kubelet: real containers of a small image, one node."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.engines.conformance import (
    test_ends,
    test_restarts,
    test_start,
    test_stop,
    test_visits,
)
from tests.engines.conformance.bench_kubernetes import KubeletBench
from tests.engines.conftest import running
from tests.engines.kubernetes.cluster import Kube

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.engines.conformance.bench import Bench

#: There is one such node on a machine: whoever comes second waits.
LOCK = Path("/tmp/rota-test-kubelet.lock")
CHOSEN = (
    test_start.test_exit_0_completes_a_job,
    test_start.test_exit_3_fails_it_with_its_code,
    test_start.test_a_command_that_does_not_exist_fails_the_job_by_its_name,
    test_start.test_a_folder_that_does_not_exist_fails_the_job_by_its_name,
    test_start.test_standard_input_is_what_was_given_and_otherwise_empty,
    test_start.test_a_megabyte_of_output_is_there_whole,
    test_stop.test_one_that_runs_hears_term_and_ends_by_itself,
    test_stop.test_a_time_limit_ends_a_job_and_says_so,
    test_ends.test_one_that_is_cancelled_in_the_engine_is_over_with_the_engines_words,
    test_visits.test_a_program_goes_into_a_job_and_its_port_is_reached,
    test_visits.test_what_runs_for_a_visitor_ends_when_the_visitor_leaves,
    test_restarts.test_a_journal_that_is_lost_is_made_again_from_what_the_engine_has,
)


@pytest.fixture
def kubelet(shared_folder: Path, short_folder: Path) -> Iterator[Bench]:
    folder = short_folder / "kubelet"
    folder.mkdir()
    up = shared_folder / "engines" / "kube-up"
    kube = Kube(up, folder, "--nodes", "0", "--kubelet")
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with running(kube):
            bench = KubeletBench(folder, kube)
            try:
                bench.open()
                yield bench
            finally:
                bench.close()


@pytest.mark.timeout(600)
def test_a_real_kubelet_does_the_same(kubelet: Bench):
    for scenario in CHOSEN:
        kubelet.at(kubelet.root / "work" / scenario.__name__[5:60])

        scenario(kubelet)

        kubelet.tidy()
