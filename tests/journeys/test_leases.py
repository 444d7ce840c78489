"""Leases with real agents: no task is alive twice, and no job holds another one up."""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from tests.journeys.box import until
from tests.journeys.site import Site

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LEASE_S = 4
#: Hears no TERM, and says several times a second that it is alive: node, time, pid.
DEAF = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
end_s = time.monotonic() + 60
while time.monotonic() < end_s:
    with open(sys.argv[1], "a") as file:
        file.write(f"{os.environ['ROTA_NODELIST']} {time.monotonic():.3f} {os.getpid()}\\n")
    time.sleep(0.1)
"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """Two nodes that are given up soon after they fell silent."""
    made = Site(tmp_path, LEASE_S)
    for name in ("one", "two"):
        made.join(name)
    until(lambda: made.is_up("one") and made.is_up("two"), "both nodes")
    yield made
    made.close()


def deaf_job(site: Site, file: str, **fields: object) -> int:
    return site.head.job([sys.executable, "-c", DEAF, file], **fields)


def test_a_grace_that_is_shortened_while_a_deaf_job_runs_does_not_make_it_live_twice(site: Site):
    job = deaf_job(site, "deaf", grace_s=10, retries=1, backoff_s=0)
    until(lambda: site.witness("deaf"), "the job to begin")
    first = site.witness("deaf")[0][0]

    said = site.head.rota("update", str(job), "--grace", "1").stdout
    site.agents[first].send_signal(signal.SIGSTOP)
    until(lambda: site.witness("deaf")[-1][0] != first, "the job to begin elsewhere")

    lines = site.witness("deaf")
    last_of_first_s = max(float(at) for node, at, _ in lines if node == first)
    begins_elsewhere_s = min(float(at) for node, at, _ in lines if node != first)
    assert last_of_first_s < begins_elsewhere_s
    assert said == (
        f"updated {job}; the attempt that runs keeps the grace it was launched with, "
        "later ones have the new\n"
    )


def test_the_grace_of_one_job_on_a_dead_node_holds_up_no_other_one(site: Site):
    slow = deaf_job(site, "slow", grace_s=20)
    until(lambda: site.witness("slow"), "the slow job to begin")
    dead = site.witness("slow")[0][0]
    quick = deaf_job(site, "quick", grace_s=1, node_list=[dead])
    until(lambda: site.witness("quick"), "the quick job to begin")

    _kill_all_of(site, dead)
    ended = site.head.ended(quick)
    meanwhile = site.head.api("GET", f"/jobs/{slow}")[1]["state"]
    down = site.head.rota("down", "--stop-jobs", "--timeout", "60", check=False)

    assert (ended["state"], ended["cause_code"]) == ("node_failed", "node_lost")
    assert meanwhile == "running"
    assert down.returncode == 0, down.stderr


def _kill_all_of(site: Site, node: str) -> None:
    """The machine is gone for good: agent, keeper and jobs."""
    keeper = json.loads((site.root / node / "agent" / "keeper.json").read_text())
    site.agents[node].kill()
    site.agents[node].wait()
    os.kill(keeper["pid"], signal.SIGKILL)
    for name in ("slow", "quick"):
        os.kill(int(site.witness(name)[-1][2]), signal.SIGKILL)
