"""What agents measure: what is news is put on record once, and a single sample never is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rota.controller.chores import measures
from rota.core.changes import gpu_events
from rota.rpc.measures import AttemptReading, Measured, OnDevice, Reading
from tests.api.pretended import PretendedAgent
from tests.api.running import Caller, Running
from tests.journeys.box import until


class Meter:
    """One job that shares a GPU of 1000 MiB, and what its agent says of it."""

    def __init__(self, server: Running, caller: Caller, agent: PretendedAgent, uid: str) -> None:
        self._server, self._caller, self._agent, self._uid = server, caller, agent, uid
        self._looks = 0

    def look(self, memory_mib: int, **figures: object) -> None:
        """Another look, heard and followed."""
        self._looks += 1
        on = (OnDevice(0, memory_mib),)
        reading = Reading(0, use_percent=float(self._looks), **figures)
        attempts = (AttemptReading(self._uid, gpus=on),)
        self._agent.tell(Measured(self._agent.session, (reading,), attempts))
        until(lambda: self.gpu["use_percent"] == self._looks, "the look to be heard")
        until(lambda: not self._server.context.measures._asking, "what followed to be on record")

    @property
    def gpu(self) -> dict:
        return dict(self._caller.get("/gpus").json["items"][0])

    def overuses(self) -> list[list[int]]:
        events = (record.event for record in self._server.store.all_events())
        kind = gpu_events.OveruseSeen
        return [[u.memory_mib for u in e.overuse] for e in events if isinstance(e, kind)]


@pytest.fixture
def meter(server: Running, caller: Caller, make_agent: Callable[..., PretendedAgent]) -> Meter:
    agent = make_agent(gpus=1)
    job = caller.submit(resources={"gpus": 1, "gpu_memory_mb": 200, "shared": True})
    uid = agent.launched(job)
    agent.report_start(uid)
    caller.until(job, "running")
    return Meter(server, caller, agent, uid)


def test_overuse_is_news_from_the_second_look_on_and_then_only_when_it_changes(meter: Meter):
    meter.look(2000)
    first = meter.overuses()
    for memory_mib in (2000, 2010, 2100, 1990, 3000, 2990):
        meter.look(memory_mib)

    assert first == []
    assert meter.overuses() == [[2000], [3000]]
    assert [use["memory_used_mib"] for use in meter.gpu["overuse"]] == [3000]


def test_what_a_driver_needs_for_itself_is_no_overuse(meter: Meter):
    for _ in range(4):
        meter.look(200 + 512)

    assert meter.overuses() == []


def test_what_is_on_record_stays_there_when_a_controller_has_just_begun_to_listen(
    server: Running, meter: Meter
):
    meter.look(2000)
    meter.look(2000)
    server.context.attach(server.host, server.context.settings)

    meter.look(2000)

    assert meter.overuses() == [[2000]]


def test_memory_that_was_given_back_is_noted(meter: Meter, monkeypatch: pytest.MonkeyPatch):
    meter.look(2000)
    meter.look(2000)

    monkeypatch.setattr(measures, "LESS_S", 0.0)
    meter.look(300)

    assert meter.overuses() == [[2000], []]
    assert meter.gpu["overuse"] == []


def test_errors_in_memory_count_when_they_become_more(meter: Meter):
    for errors in (5, 5, 6, 6, 8):
        meter.look(100, ecc_errors=errors)

    assert [failure["what"] for failure in meter.gpu["failures"]] == [
        "1 error in its memory that could not be corrected",
        "2 errors in its memory that could not be corrected",
    ]


def test_figures_that_cannot_be_end_the_connection(server: Running, agent: PretendedAgent):
    agent.tell(Measured(agent.session, (Reading(0, use_percent=-5.0),)))

    until(lambda: "box" not in server.host.sessions.by_node, "the agent to be cut off")


def test_looks_of_another_session_are_not_heard(
    server: Running, caller: Caller, make_agent: Callable[..., PretendedAgent]
):
    agent = make_agent(gpus=1)
    agent.tell(Measured(agent.session + 1, (Reading(0, use_percent=50.0),)))
    agent.tell(Measured(agent.session, (Reading(0, use_percent=51.0),)))

    until(lambda: caller.get("/gpus").json["items"][0]["measured_at"], "the look that counts")

    assert caller.get("/gpus").json["items"][0]["use_percent"] == 51


def test_of_a_gang_there_is_a_sum_of_all_and_the_curve_of_each_task(
    server: Running, caller: Caller, make_agent: Callable[..., PretendedAgent]
):
    agent = make_agent(gpus=3, cpus=4)
    roles = [
        {"name": "one", "count": 1, "resources": {"cpus": 1, "gpus": 1, "memory_mb": 100}},
        {"name": "two", "count": 1, "resources": {"cpus": 1, "gpus": 2, "memory_mb": 200}},
    ]
    job = caller.submit(roles=roles)
    caller.until(job, "scheduled")
    attempts = server.host.cluster.jobs[job].live_attempts
    looks = []
    for attempt, mib, percent in zip(attempts, (60, 150), (90.0, 30.0), strict=True):
        on = tuple(OnDevice(index, 1000, percent) for index in attempt.allocation.devices)
        looks.append(AttemptReading(attempt.uid, mib, 1.0, on))
    agent.tell(Measured(agent.session, (), tuple(looks)))

    def curves(words: str = "") -> dict:
        return dict(caller.get(f"/jobs/{job}/curves{words}").json)

    until(lambda: curves()["sum"], "a look at both")
    alone, together = curves("?task=1")["attempts"], curves()["sum"]

    assert [(one["task"], one["memory_mib"]) for one in alone] == [(1, [150.0])]
    assert len(curves()["attempts"]) == 2
    asked = ("tasks", "asked_cpus", "asked_memory_mib", "gpus")
    assert [together[name] for name in asked] == [2, 2.0, 300, 3]
    assert together["memory_mib"][-1] == 210.0
    assert together["gpu_memory_mib"][-1] == 3000.0
    # The mean over three GPUs, two of which are at 30 %.
    assert together["gpu_use_percent"][-1] == 50.0


def test_curves_of_what_does_not_exist_are_refused(caller: Caller):
    node, job = caller.get("/nodes/nowhere/curves"), caller.get("/jobs/99/curves")

    assert (node.status, job.status) == (404, 404)
