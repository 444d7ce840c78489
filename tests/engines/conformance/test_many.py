"""Arrays, gangs, and quotas that the engine holds itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.engines.conformance.bench import MARK, PATIENCE_S
from tests.journeys.box import until

if TYPE_CHECKING:
    from tests.engines.conformance.bench import Bench

#: Each member says who it is; the first one opens a door at the meeting place, the others come.
MEETING = """
use IO::Socket::INET;
my ($rank, $size, $at) = ($ENV{RANK}, $ENV{WORLD_SIZE}, "$ENV{MASTER_ADDR}:$ENV{MASTER_PORT}");
if ($rank == 0) {
    my $door = IO::Socket::INET->new(
        Listen => 9, ReuseAddr => 1, LocalPort => $ENV{MASTER_PORT}) or die "no door: $!";
    for (2..$size) { my $guest = $door->accept; my $who = <$guest>; print $guest "hello $who" }
} else {
    my $line;
    for (1..200) { last if $line = IO::Socket::INET->new($at); select(undef, undef, undef, 0.1) }
    print $line "$rank\\n"; my $said = <$line>; die "no hello" unless $said eq "hello $rank\\n";
}
print "$rank/$size\\n";
"""


@pytest.mark.scenario(50)
def test_an_array_runs_whole_and_never_above_its_cap(bench: Bench):
    size, cap = bench.sizes.array, bench.sizes.cap
    line = f"echo + >>steps; {MARK}; echo $ROTA_ARRAY_INDEX >>ran; echo - >>steps"
    array = bench.submit(line, array=f"0-{size - 1}%{cap}")

    def done() -> bool:
        return bool(len(bench.marks()) >= size and not busy(bench))

    until(done, "all elements", 4 * PATIENCE_S)

    steps = [1 if step == "+" else -1 for step in bench.box.read("steps").split()]
    states = bench.box.api("GET", f"/jobs/{array}")[1]
    assert sorted(map(int, bench.box.read("ran").split())) == list(range(size))
    assert len(set(bench.marks())) == len(bench.marks()) == size
    assert max(sum(steps[: at + 1]) for at in range(len(steps))) <= cap
    assert states["state"] == "completed", states


def busy(bench: Bench) -> bool:
    return bool(bench.box.api("GET", "/jobs?state=active&limit=1")[1]["items"])


@pytest.mark.scenario(51)
def test_a_gang_starts_whole_and_its_members_find_each_other(bench: Bench):
    job = bench.submit(["perl", "-e", MEETING], tasks=3, nodes=3)

    shown = bench.until(job)

    assert shown["state"] == "completed", shown["cause"]
    for rank in range(3):
        until(lambda n=rank: bench.log_of(job, n) == f"{n}/3\n", f"the word of member {rank}")


@pytest.mark.scenario(52)
def test_over_a_quota_of_the_engine_jobs_wait_with_its_words_and_start_when_it_is_raised(
    bench: Bench,
):
    with bench.fault("full"):
        jobs = bench.submit_many([MARK] * 2, resources={"cpus": 2})
        for job in jobs:
            until(lambda n=job: is_over_quota(bench.box.why(n)), "the engine's reason")
        bench.cancel(jobs[1])
        cancelled = bench.until(jobs[1])
        meanwhile = bench.marks()

    assert (cancelled["state"], meanwhile) == ("cancelled", [])
    assert bench.until(jobs[0])["state"] == "completed"
    assert bench.marks() == [bench.uid(jobs[0])]


def is_over_quota(text: str) -> bool:
    return "AssocGrpCpuLimit" in text or "exceeded quota" in text
