"""A real Slurm that dies, forgets and gives numbers away: what a driver then says."""

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from rota.backends.api import EngineAway, EngineJob, EnginePhase, Unsure
from rota.core.facts.states import Cause
from tests.engines.slurm.site import WAIT_S, Bench, Site, order_for

TRIES = 5
WAYS = ("rest", "commands")


@dataclass
class Lost:
    """An attempt that Slurm acknowledged and lost, and the one that got its number."""

    gone: EngineJob
    heir: str
    silent: dict[str, list[Exception]]


@pytest.fixture(scope="module")
def benches(slurm: Site) -> Iterator[dict[str, Bench]]:
    # What does not answer is waited for: not for long.
    waits = {"limit_s": 4.0}
    with (
        slurm.bench("rest", lookback_days=0, **waits) as rest,
        slurm.bench("commands", **waits) as commands,
    ):
        yield {"rest": rest, "commands": commands}


@pytest.fixture(scope="module")
def lost(slurm: Site, benches: dict[str, Bench]) -> Lost:
    """Kill slurmctld right after it has said yes; what it had not saved is gone.

    It must not have been started: its process would outlive it, and close its node to its heir.
    """
    slurm.run("scontrol", "update", "PartitionName=short", "State=DOWN")
    rest = benches["rest"]
    silent: dict[str, list[Exception]] = {}
    for _ in range(TRIES):
        order = order_for(("/bin/sleep", "60"), queue="short")
        number = rest.do(rest.driver.submit(order))
        rest.submitted.append(order.uid)
        pid = int((slurm.state / "run/slurmctld.pid").read_text().split()[0])
        os.kill(pid, signal.SIGKILL)
        if not silent:
            silent = {way: asked_in_vain(benches[way]) for way in WAYS}
        slurm.start()
        if not rest.do(rest.driver.find([order.uid])):
            gone = EngineJob(uid=order.uid, id=number, phase=EnginePhase.RUNNING)
            return Lost(gone, until_number(rest, number), silent)
    raise AssertionError(f"slurmctld saved all of {TRIES} jobs in time")


def asked_in_vain(bench: Bench) -> list[Exception]:
    """What is raised. A submit may arrive all the same, when Slurm is back."""
    raised = []
    order = order_for(("/bin/sleep", "60"))
    bench.submitted.append(order.uid)
    for call in (bench.driver.jobs(), bench.driver.submit(order)):
        with pytest.raises((EngineAway, Unsure)) as error:
            bench.do(call)
        raised.append(error.value)
    return raised


def until_number(bench: Bench, number: str) -> str:
    """Submit until an attempt has this number; its uid."""
    for _ in range(TRIES):
        for job in bench.listed().values():
            if job.id == number:
                return job.uid
        bench.submit("/bin/sleep", "60")
    raise AssertionError(f"number {number} was not given away")


@pytest.mark.parametrize("way", WAYS)
def test_a_slurm_that_is_gone_is_away(lost, way):
    listing, submit = lost.silent[way]

    assert isinstance(listing, EngineAway)
    assert isinstance(submit, EngineAway | Unsure)
    assert "\n" not in f"{listing}{submit}"


@pytest.mark.parametrize("way", WAYS)
def test_one_that_slurm_acknowledged_and_lost_is_found_nowhere(lost, benches, way):
    bench = benches[way]

    assert bench.do(bench.driver.find([lost.gone.uid])) == []


@pytest.mark.parametrize("way", WAYS)
def test_a_number_that_another_job_has_now_is_not_touched(lost, benches, way):
    bench = benches[way]
    bench.until_running(lost.heir)

    bench.do(bench.driver.signal(lost.gone, signal.SIGKILL))
    bench.do(bench.driver.stop(lost.gone, 0.0))

    assert bench.listed()[lost.heir].phase is EnginePhase.RUNNING


@pytest.fixture(scope="module")
def purged(slurm: Site, benches: dict[str, Bench]) -> dict[str, str]:
    """Attempts that ended, and that slurmctld has forgotten."""
    bench = benches["rest"]
    texts = {"code": "exit 3", "signal": "kill -9 $$", "cancelled": "sleep 60", "start": ""}
    uids = {name: bench.shell(text, user="alice") for name, text in texts.items() if text}
    uids["start"] = bench.submit("/bin/true", workdir="/nowhere", user="alice")
    slurm.run("scancel", bench.until_running(uids["cancelled"]).id)
    bench.ended(uids.values())
    # It looks for what to forget every so often.
    deadline_s = time.monotonic() + WAIT_S
    while set(uids.values()) & bench.listed().keys():
        assert time.monotonic() < deadline_s, "slurmctld does not forget"
        time.sleep(1)
    return uids


@pytest.mark.parametrize("way", WAYS)
def test_what_slurmctld_has_forgotten_is_found_in_the_accounting(slurm, purged, way):
    with slurm.bench(way) as bench:
        found = {job.uid: job for job in bench.do(bench.driver.find(purged.values()))}

        ends = {name: found[uid] for name, uid in purged.items()}

    assert {job.phase for job in found.values()} == {EnginePhase.ENDED}
    assert (ends["code"].code, ends["code"].signal) == (3, 0)
    assert (ends["signal"].code, ends["signal"].signal) == (None, 9)
    assert ends["cancelled"].cause is Cause.CANCELLED
    assert ends["cancelled"].detail in ("cancelled in Slurm by root", "cancelled in Slurm by uid 0")
    assert ends["start"].detail == "working folder /nowhere: no such directory"
    assert {job.user for job in found.values()} == {"alice"}


def test_what_no_part_of_slurm_remembers_is_told_by_its_own_word(benches, purged):
    bench = benches["rest"]

    found = bench.do(bench.driver.find([purged["code"]]))

    assert [(job.id, job.phase, job.code) for job in found] == [("", EnginePhase.ENDED, 3)]
