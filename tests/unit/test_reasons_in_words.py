"""Reasons in words: every kind of reason has its short form for lists and its own whole line."""

import pytest

from rota.scheduling.answers import reasons as why
from rota.scheduling.answers.prose import line, lines_of, priority_line, short, span
from rota.scheduling.answers.reasons import Ahead, Decision, Expected, Reason, Tree

NOW_S = 1_000_000.0


def scarce(resource: str = "cpus", **fields: object) -> why.Scarce:
    known = {"nodes": 1, "node": "a", "needed": 4.0, "free": 2.0, "total": 8.0, "unit": "CPUs"}
    return why.Scarce(resource=resource, **(known | fields))


def claimed(**fields: object) -> why.Claimed:
    known = {
        "reservation": 7,
        "owner": "bob",
        "start_s": NOW_S + 60,
        "end_s": NOW_S + 120,
        "nodes": 1,
        "node": "a",
        "stays_s": 90.0,
    }
    return why.Claimed(**(known | fields))


def over_quota(again_s: float = 0.0) -> why.OverQuota:
    return why.OverQuota(
        scope="user al",
        dimension="jobs",
        used=1,
        wanted=1,
        limit=1,
        again_s=again_s,
        text="user al runs 1 of at most 1",
    )


#: A reason, its short form, and its line where that says more.
WORDS: list[tuple[Reason, str, str]] = [
    (why.Held(), "held", "it is held"),
    (
        why.NotBefore(at_s=NOW_S + 90),
        "begin time in 1m30s",
        "it waits for its begin time, in 1m30s",
    ),
    (
        why.NotBefore(at_s=NOW_S, retry=True),
        "next try now",
        "it waits for its next try, now",
    ),
    (
        why.Parent(job=3, kind="after-ok", state="running"),
        "waits for job 3 (running)",
        "it depends on job 3 (after-ok), which is running",
    ),
    (
        why.Parent(job=3, kind="after-ok", state="failed", never=True),
        "job 3 failed: can never start",
        "it depends on job 3 (after-ok), which is failed",
    ),
    (why.QueueShut(queue="side", state="paused"), "queue side is paused", ""),
    (
        why.OverShare(user="al", project="", ratio=2.5, limit=2.0),
        "al is beyond the limit on shares",
        "al has had 2.5 times its share, at most 2 times is allowed while others wait",
    ),
    (
        why.OverShare(user="al", project="text", ratio=2.5, limit=2.0),
        "al in text is beyond the limit on shares",
        "al in text has had 2.5 times its share, at most 2 times is allowed while others wait",
    ),
    (over_quota(), "user al runs 1 of at most 1", ""),
    (
        over_quota(again_s=NOW_S + 60),
        "user al runs 1 of at most 1",
        "user al runs 1 of at most 1; some comes free in 1m",
    ),
    (
        why.NoNode(),
        "no node has registered",
        "no node has registered yet: start 'rota agent --join URL' on each machine",
    ),
    (why.Away(nodes=1, node="a", state="down"), "node a is down", ""),
    (
        why.Away(nodes=3, node="a", state="drained", note="fans"),
        "node a is drained (fans), and 2 more",
        "",
    ),
    (why.Away(nodes=2, node="a", state="down"), "node a is down, and 1 more", ""),
    (
        why.Unfit(filter="devices", nodes=1, node="a", problem="has no gpu"),
        "node a has no gpu",
        "",
    ),
    (
        why.Unfit(filter="devices", nodes=2, node="a", problem="has no gpu"),
        "no node fits: has no gpu",
        "2 nodes (such as a) have no gpu",
    ),
    (
        why.Unfit(filter="taints", nodes=1, node="a", problem="taint x"),
        "node a: taint x",
        "",
    ),
    (
        why.Unfit(filter="taints", nodes=4, node="a", problem="keeps to x"),
        "no node fits: keeps to x",
        "4 nodes (such as a) keep to x",
    ),
    (
        scarce(),
        "not enough free cpus",
        "node a: needs 4 CPUs, 2 of 8 free",
    ),
    (
        scarce(nodes=5, needed=1.0, free=0.5),
        "not enough free cpus",
        "5 nodes: not enough free cpus; nearest is node a: needs 1 CPU, 0.5 of 8 free",
    ),
    (
        scarce("memory", unit="MiB", needed=2048, free=1024, total=4096),
        "not enough free memory",
        "node a: needs 2G of memory, 1G of 4G free",
    ),
    (
        scarce("gpus", unit="A100 gpu", needed=2, free=1, total=4),
        "not enough free gpus",
        "node a: needs 2 A100 GPUs, 1 of 4 free for it",
    ),
    (
        scarce("gpus", unit="gpu", needed=2, free=1, total=4, foreign=3),
        "not enough free gpus",
        "node a: needs 2 GPUs, 1 of 4 free for it; 3 in use by processes outside Rota",
    ),
    (
        scarce("whole node", needed=0, free=3, total=0, unit=""),
        "no node is idle",
        "node a: wants it to itself, 3 tasks run there",
    ),
    (
        scarce("shared node", nodes=2, needed=0, free=1, total=0, unit=""),
        "another job has the node to itself",
        "2 nodes: another job has the node to itself; nearest is "
        "node a: another job has it to itself",
    ),
    (
        why.Metered(nodes=1, node="main.hpc", problem="2 wait inside hpc already"),
        "node main.hpc: 2 wait inside hpc already",
        "node main.hpc: 2 wait inside hpc already",
    ),
    (
        why.BadCompany(nodes=2, node="a", problem="web is there"),
        "neighbours: web is there",
        "2 nodes (such as a): web is there",
    ),
    (
        claimed(),
        "reservation 7 of bob begins in 1m",
        "node a: reservation 7 of bob begins in 1m, and the job may stay 1m30s",
    ),
    (
        claimed(owner="", start_s=NOW_S, stays_s=0.0, note="new disks", nodes=2),
        "reservation 7 for maintenance ends in 2m",
        "2 nodes (such as a): reservation 7 for maintenance ends in 2m (new disks), "
        "and the job has no time limit",
    ),
    (
        why.WouldDelay(job=4, start_s=NOW_S + 30, nodes=1, node="a", stays_s=60.0),
        "would delay job 4, which starts in 30s",
        "node a has room, but job 4 is promised it in 30s, and this one is taken to stay 1m",
    ),
    (
        why.WouldDelay(job=4, start_s=NOW_S + 30, nodes=2, node="a", stays_s=60.0),
        "would delay job 4, which starts in 30s",
        "2 nodes (such as a) have room, but job 4 is promised it in 30s, "
        "and this one is taken to stay 1m",
    ),
    (why.Parts(tasks=3), "no room for all of its 3 tasks", ""),
    (
        why.Parts(tasks=3, fit=0, nodes=1),
        "no room for all of its 3 tasks",
        "there is room for 0 of its 3 tasks",
    ),
    (
        why.Parts(tasks=3, fit=2, nodes=2),
        "no room for all of its 3 tasks",
        "there is room for 2 of its 3 tasks on 2 nodes",
    ),
    (
        why.Parts(tasks=2, fit=2, nodes=1),
        "no room for all of its 2 tasks",
        "there is room for all of its 2 tasks, but on 1 node only",
    ),
    (why.Turn(), "waits for its turn", ""),
    (
        why.Turn(behind=9),
        "waits for its turn",
        "there is room, but nothing passes job 9, which waits first",
    ),
    (
        why.Turn(behind=9, band="high", room=False),
        "waits for its turn",
        "no job of the high band passes job 9, which waits first",
    ),
    (why.Soon(node="a"), "node a has room: it starts with the next pass", ""),
    (
        why.Leaving(jobs=(5,), nodes=("a",)),
        "waits for job 5 to leave a",
        "its room on a is being left by job 5",
    ),
    (
        why.Leaving(jobs=(5, 6), nodes=("a", "b")),
        "waits for jobs 5, 6 to leave a, b",
        "its room on a, b is being left by jobs 5, 6",
    ),
    (why.Active(verb="running", nodes=("a", "b")), "running on a, b", "it is running on a, b"),
    (
        why.Active(verb="running", nodes=("a",), cause="suspended"),
        "running on a: suspended",
        "it is running on a, suspended",
    ),
    (
        why.Active(verb="stopping", nodes=("a",), cause="cancelled", grace_s=30),
        "stopping on a: cancelled",
        "it has 30 s to end by itself",
    ),
    (why.Ended(state="failed"), "it is failed", ""),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "words", "whole"), WORDS)
def test_a_reason_has_a_short_form_and_a_whole_line(reason: Reason, words: str, whole: str):
    assert short(reason, NOW_S) == words
    assert line(reason, NOW_S) == (whole or words)


@pytest.mark.parametrize(
    ("length_s", "words"),
    [
        (0.0, "1s"),
        (0.2, "1s"),
        (1.2, "2s"),
        (6 * 3600, "6h"),
        (6 * 3600 - 1, "5h59m59s"),
        (6 * 3600 + 1, "6h1m"),
        (7 * 3600 + 60, "7h1m"),
    ],
)
def test_a_span_is_never_nothing_and_tells_no_seconds_of_long_ones(length_s: float, words: str):
    assert span(length_s) == words


def tree_of(*reasons: Reason, **fields: object) -> Tree:
    return Tree(decision=Decision.QUEUED, reason=reasons[0], unsatisfied=reasons, **fields)


def test_of_many_reasons_the_first_are_told_and_the_rest_is_counted():
    parents = [why.Parent(job=number, kind="after", state="running") for number in range(8)]

    six, seven = (lines_of(tree_of(*parents[:count]), NOW_S) for count in (6, 7))
    two_of_eight = lines_of(tree_of(*parents), NOW_S, lines_max=2)

    assert six == [line(parent, NOW_S) for parent in parents[:6]]
    assert seven == [*six, "and 1 further reason"]
    assert two_of_eight == [*six[:2], "and 6 further reasons"]


def test_the_story_ends_with_the_expected_start_the_jobs_ahead_and_the_priority():
    expected = Expected(NOW_S + 60, ("a", "b", "c", "d", "e"))
    terms = {"base": 500.0, "age": 50.0, "size": 0.0}

    told = lines_of(
        tree_of(why.Held(), expected=expected, ahead=Ahead(4, (1, 2, 3)), priority=terms), NOW_S
    )

    assert told == [
        "it is held",
        "it is expected to start in 1m on a, b, c, d, if everything goes to plan",
        "4 waiting jobs are ahead of it: 1, 2, 3, ...",
        "its priority of 50 counts as 55: +5 for its wait",
    ]


def test_a_priority_of_one_term_is_told_by_itself_only():
    one = tree_of(why.Held(), ahead=Ahead(1, (8,)), priority={"base": 500.0, "age": 0.0})
    first = tree_of(why.Held(), ahead=Ahead(0), priority={"base": 500.0, "age": 1.0})

    assert lines_of(one, NOW_S) == ["it is held", "1 waiting job is ahead of it: 8"]
    assert lines_of(first, NOW_S) == ["it is held"]
    assert priority_line({"base": 0.0}) == "its priority is 0"


def test_what_a_priority_is_worth_is_told_in_the_numbers_that_people_give():
    high = priority_line({"base": 750.0, "boost": 125.0, "age": 0.0})
    low = priority_line({"base": 200.0, "boost": -100.0, "limit bonus": 5.0, "share": 12.5})

    assert high == "its priority of 75 counts as 87.5: +12.5 for its band"
    assert low == (
        "its priority of 20 counts as 11.75: -10 for its band, +0.5 for its time limit, "
        "+1.25 for the share of its account"
    )


def test_the_jobs_ahead_are_all_named_where_they_are_few():
    told = lines_of(tree_of(why.Held(), ahead=Ahead(2, (1, 2))), NOW_S)

    assert told == ["it is held", "2 waiting jobs are ahead of it: 1, 2"]
