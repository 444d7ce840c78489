"""What would take a reason away beside the job: the command, its words, and what it changes."""

import pytest

from rota.core.changes import events as ev
from rota.core.facts.indices import parse_indices
from rota.core.facts.site.outer import Outer
from rota.core.facts.states import QueueState
from rota.core.facts.tenant import Group, Limits, Project, Queue, Quota, User
from rota.scheduling.answers import reasons as why
from rota.scheduling.answers.remedies import Remedy, remedies
from rota.scheduling.answers.whatif import Replaced, Resumed, WithoutRecord
from tests.unit.books import Books, make_spec


def only(reason: why.Reason, books: Books) -> Remedy:
    (found,) = remedies(reason, books.cluster)
    return found


def over(scope: str, dimension: str = "jobs", **fields: object) -> why.OverQuota:
    """One and a half of two are used, and one is wanted."""
    known = {"used": 1.5, "wanted": 1.0, "limit": 2.0}
    return why.OverQuota(scope=scope, dimension=dimension, **(known | fields))


def test_a_queue_is_opened_or_activated():
    books = Books()
    paused = Queue("side", state=QueueState.PAUSED)
    night = Queue("late shift", hours="22:00-06:00", outside=True)
    for queue in (paused, night):
        books.tell(ev.QueueSet(queue=queue))

    activated = only(why.QueueShut(queue="side", state="paused"), books)
    opened = only(why.QueueShut(queue="late shift", state="outside"), books)

    assert activated == (
        "activate queue side",
        "rota queue-admin set side --state active",
        Replaced("queues", "side", Queue("side")),
        0.3,
        True,
    )
    assert opened == (
        "open queue late shift",
        "rota queue-admin set 'late shift' --hours ''",
        Replaced("queues", "late shift", Queue("late shift", hours="22:00-06:00")),
        0.3,
        True,
    )


def test_a_drained_node_is_resumed_and_one_that_is_down_is_left_alone():
    books = Books()

    found = only(why.Away(nodes=1, node="box", state="drained"), books)

    assert found == ("resume node box", "rota node resume box", Resumed("box"), 0.3, True)
    assert not list(remedies(why.Away(nodes=1, node="box", state="down"), books.cluster))


def test_a_reservation_is_removed():
    claimed = why.Claimed(
        reservation=7, owner="bob", start_s=1, end_s=2, nodes=1, node="box", stays_s=0
    )

    found = only(claimed, Books())

    assert found == (
        "remove reservation 7",
        "rota reserve remove 7",
        WithoutRecord("reservations", 7),
        0.8,
        True,
    )


def test_the_cap_of_a_group_is_raised_by_its_own_user():
    books = Books()
    books.tell(ev.GroupSet(group=Group("g", "alice", 2)))

    found = only(over("group g"), books)

    assert found == (
        "raise the cap of group g to 2",
        "rota group set g --max-concurrent 2",
        Replaced("groups", "g", Group("g", "alice", 2)),
        0.1,
        False,
    )


def test_the_cap_of_an_array_is_raised_by_its_own_user():
    books = Books()
    array, (runs, cap) = books.cluster.ids.next, parse_indices("0-9%1")
    spec = make_spec(user="alice")
    books.tell(
        ev.ArraySubmitted(
            array=array, uid="a", spec=spec, runs=runs, count=10, cap=cap, eligible=True
        )
    )

    found = only(over(f"array {array}"), books)

    assert found[:2] == (
        f"raise the cap of array {array} to 2",
        f"rota update {array} --max-concurrent 2",
    )
    assert (found.change.table, found.change.key) == ("arrays", array)
    assert found.change.record.cap == 2
    assert (found.loss, found.operator) == (0.1, False)


@pytest.mark.parametrize(
    ("scope", "option", "field"),
    [
        ("queue side", "--max-running", "max_running"),
        ("alice in queue side", "--max-per-user", "max_per_user"),
        ("project text in queue side", "--max-per-project", "max_per_project"),
    ],
)
def test_the_cap_of_a_queue_is_raised(scope, option, field):
    books = Books()
    books.tell(ev.QueueSet(queue=Queue("side", priority=3)))

    found = only(over(scope), books)

    assert found == (
        f"raise the cap of {scope} to 2",
        f"rota queue-admin set side {option} 2",
        Replaced("queues", "side", Queue("side", priority=3, **{field: 2})),
        0.6,
        True,
    )


@pytest.mark.parametrize(
    ("dimension", "amounts", "option", "limits"),
    [
        ("jobs", (2, 1), "--jobs 3", Limits(jobs=3)),
        ("cpu_milli", (2500, 500), "--cpus 3", Limits(cpu_milli=3000)),
        ("memory_mib", (1024, 512), "--mem 1.5G", Limits(memory_mib=1536)),
        ("device_milli", (500, 1000), "--gpus 1.5", Limits(device_milli=1500)),
        ("device_hours", (2.5, 3), "--gpu-hours 7", Limits(device_hours=7)),
        ("device_hours", (2, 3), "--gpu-hours 6", Limits(device_hours=6)),
    ],
)
def test_a_hard_quota_of_a_user_is_raised_by_what_is_missing(dimension, amounts, option, limits):
    used, wanted = amounts
    soft = Limits(jobs=1)
    books = Books()
    books.user("alice", shares=3, soft=soft)

    found = only(over("user alice", dimension, used=used, wanted=wanted), books)

    assert found == (
        f"raise the quota of user alice to {option.partition(' ')[2]}",
        f"rota quota set --user alice {option}",
        Replaced("accounts.users", "alice", User("alice", 3, Quota(hard=limits, soft=soft))),
        0.6,
        True,
    )


def test_a_user_without_a_record_gets_one():
    found = only(over("user eve", used=1), Books())

    assert found.command == "rota quota set --user eve --jobs 2"
    assert found.change == Replaced(
        "accounts.users", "eve", User("eve", quota=Quota(hard=Limits(jobs=2)))
    )


def test_a_soft_quota_of_a_project_is_raised_as_a_soft_one():
    books = Books()
    hard = Limits(jobs=9)
    books.project("text", shares=2, hard=hard)

    found = only(over("project text", hard=False, used=1), books)

    quota = Quota(hard=hard, soft=Limits(jobs=2))
    assert found == (
        "raise the quota of project text to 2",
        "rota quota set --project text --jobs 2 --soft",
        Replaced("accounts.projects", "text", Project("text", "", 2, quota)),
        0.6,
        True,
    )


def test_a_limit_that_rota_and_its_provider_have_is_raised_in_both_places():
    books, hard = Books(), Limits(cpu_milli=4000)
    books.tell(ev.QuotaProviderSet(provider="slurm"))
    books.project("text", hard=hard)
    books.tell(ev.QuotasSeen(outers=(Outer("text", "slurm", hard),)))

    found = only(over("project text", "cpu_milli", used=4000, wanted=2000), books)

    assert found.command == "rota quota set --project text --cpus 6"
    own, outer = found.change.changes
    assert own.record.quota.hard == Limits(cpu_milli=6000)
    assert (outer.table, outer.record.limits) == ("accounts.outer", Limits(cpu_milli=6000))


def test_a_limit_of_rotas_own_that_leaves_room_is_no_reason_of_its_own():
    """Only below what is needed it has a reason of its own, which brings the command."""
    for own, found in ((5000, 0), (6000, 1)):
        books, hard = Books(), Limits(cpu_milli=4000)
        books.tell(ev.QuotaProviderSet(provider="slurm"))
        books.project("text", hard=Limits(cpu_milli=own))
        books.tell(ev.QuotasSeen(outers=(Outer("text", "slurm", hard),)))
        reason = over("project text", "cpu_milli", used=4000, wanted=2000, provider="slurm")

        assert len([*remedies(reason, books.cluster)]) == found


def test_a_limit_by_type_is_raised_for_that_type_alone():
    books = Books()
    types = {"batch": Limits(cpu_milli=7), "web": Limits(jobs=5)}
    books.project("text", types=types)

    found = only(over("project text for batch", used=1), books)

    assert found.command == "rota quota set --project text --jobs 2 --type batch"
    assert found.text == "raise the quota of project text for batch to 2"
    assert found.change.record.quota.types == types | {"batch": Limits(jobs=2, cpu_milli=7)}


def test_nothing_is_raised_for_what_nobody_has_on_record_or_cannot_be_changed():
    books = Books()

    for reason in (over("project lost"), why.Held(), why.NoNode()):
        assert not list(remedies(reason, books.cluster))
