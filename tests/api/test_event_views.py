"""Events leave Rota as types of the API's own: what is listed is told, and nothing else."""

from typing import get_args

import msgspec
import pytest

from rota.api.watch import event_views
from rota.api.watch.event_views import NEVER, SHOWN, EventDetail, view_of_event
from rota.core.changes import events as ev
from rota.core.facts.job import Outcome
from rota.core.facts.node import Allocation, NodeSpec
from rota.core.facts.states import Cause, JobState
from rota.core.facts.tenant import Access, Project, Queue, Token
from tests.api.pretended import PretendedAgent
from tests.api.running import Caller

SECRET = Token("id", "digest", "ann", Access.USER, 1.0)


def told(event: ev.AnyEvent, *, open_: bool = True) -> dict:
    record = ev.Recorded(1, 5.0, "ann", event)
    return msgspec.to_builtins(view_of_event(record, None, open_=open_).detail)


def test_every_kind_of_event_says_which_of_its_fields_are_told() -> None:
    kinds = set(get_args(ev.AnyEvent))

    assert set(SHOWN) == kinds - set(NEVER)
    for kind, names in SHOWN.items():
        assert set(names) <= set(kind.__struct_fields__), kind
        assert set(names) <= set(EventDetail.__struct_fields__), kind


def test_no_type_of_the_core_is_part_of_the_answer() -> None:
    _, schemas = msgspec.json.schema_components([EventDetail])
    own = {name for name in vars(event_views) if name.startswith("Event")}
    words = {"Blame", "Cause", "JobState", "QueueState"}

    assert set(schemas) <= own | words


@pytest.mark.parametrize(
    ("event", "detail"),
    [
        (ev.TokenMade(token=SECRET), {}),
        (ev.NodeKeySet(token=SECRET, spent="join"), {"spent": "join"}),
        (
            ev.NodeRegistered(
                spec=NodeSpec("n1", 1, 1, 1), incarnation="i", boot_id="b", home="/srv/x"
            ),
            {"node": "n1"},
        ),
        (ev.QueueSet(queue=Queue("q", turns_s=9.0)), {"queue": {"name": "q"}}),
        (ev.QueueRemoved(queue="q"), {"queue": "q"}),
        (ev.ProjectSet(project=Project("p")), {"project": {"name": "p"}}),
        (ev.ReservationRemoved(reservation=7), {"reservation": 7}),
        (ev.JobHeld(job=1), {}),
    ],
)
def test_what_is_told_of_an_event(event: ev.AnyEvent, detail: dict) -> None:
    assert told(event) == detail


def test_moments_are_told_as_moments_and_as_they_were_at_first() -> None:
    ended = ev.AttemptEnded(job=1, task=0, uid="u", ended_s=1794720300.5, cause=Cause.EXIT)

    detail = told(ended)

    assert (detail["ended_at"], detail["ended_s"]) == ("2026-11-15T05:25:00.500Z", 1794720300.5)
    assert "started_at" not in detail


def test_words_of_the_user_are_for_those_who_may_look_into_the_job() -> None:
    end = Outcome(JobState.FAILED, Cause.START_FAILED, "no /home/ann/secret", exit_code=2)
    settled = ev.JobSettled(job=1, outcome=end)

    assert told(settled)["outcome"]["detail"] == "no /home/ann/secret"
    assert told(settled, open_=False) == {
        "outcome": {"state": "failed", "cause": "start_failed", "exit_code": 2}
    }


def test_what_a_try_was_given_is_told_without_what_the_core_keeps_beside_it() -> None:
    held = Allocation("n1", 1000, 64, cpus=(1,), firm=True)
    placed = ev.AttemptPlaced(job=1, task=0, uid="u", allocation=held, incarnation="i")

    detail = told(placed)

    assert detail == {
        "task": 0,
        "uid": "u",
        "allocation": {"node": "n1", "cpu_milli": 1000, "memory_mib": 64, "cpus": (1,)},
    }


def test_events_of_a_job_are_as_the_document_says(caller: Caller, agent: PretendedAgent) -> None:
    job = caller.submit()
    agent.report_end(agent.launched(job))
    caller.until(job, "completed")

    items = caller.get(f"/jobs/{job}/events").json["items"]

    known = set(EventDetail.__struct_fields__)
    assert {"job-submitted", "attempt-placed", "job-settled"} <= {item["kind"] for item in items}
    assert all(set(item["detail"]) <= known for item in items)
