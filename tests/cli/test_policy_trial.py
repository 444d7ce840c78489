"""``rota policy``: the rules as they are, and what others would have meant for the past."""

import json

from tests.cli.fake_server import Answer

CHANGES = [{"key": "order.primary", "before": "priority", "after": "sjf"}]


def figures(mean_wait_s, utilization):
    return {
        "mean_wait_s": mean_wait_s,
        "median_wait_s": 4.0,
        "p95_wait_s": 90000.0,
        "mean_bounded_slowdown": 2.5,
        "utilization": utilization,
        "preemptions": 0,
    }


def gain(name, before_s, after_s, earlier=0, later=0):
    return {
        "name": name,
        "jobs": 10,
        "wait_before_s": before_s,
        "wait_after_s": after_s,
        "earlier": earlier,
        "later": later,
    }


REPLAY = {
    "name": "sjf",
    "jobs": 30,
    "since": "2026-03-02T08:00:00Z",
    "until": "2026-03-09T07:59:00Z",
    "recorded_mean_wait_s": 61.0,
    "before": figures(60.0, 0.75),
    "after": figures(45.0, 0.7512),
    "unit": "GPUs",
    "users": [
        gain("ann", 7260.0, 60.0, earlier=8),
        gain("bo", 5.0, 5.4),
        gain("cy", 1.0, 31.0, later=3),
    ],
    "projects": [gain("vision", 60.0, 45.0)],
    "notes": ["3 left out: not finished yet"],
}


def test_who_gains_and_who_loses_is_a_table(fake, rota):
    fake.routes["POST /policy:test"] = {"name": "sjf", "changes": CHANGES}
    fake.routes["POST /policy:replay"] = REPLAY

    said = rota("policy", "test", "sjf", "--last", "2d", "--jobs", "100")

    assert fake.asked[-1].body == {
        "policy": "sjf",
        "rules": {},
        "last_s": 172800,
        "jobs": 100,
        "patience_s": 240,
    }
    rows = [" ".join(line.split()) for line in said.out.splitlines()]
    assert "mean wait 1m 45s" in rows
    assert "95% waited at most 1d1h 1d1h" in rows
    assert "utilisation of GPUs 75.0% 75.1%" in rows
    assert "ann 10 2h1m 1m -2h 8 0 gains" in rows
    assert "bo 10 5.0s 5.4s 0s 0 0 same" in rows
    assert "cy 10 1.0s 31s +30s 0 3 loses" in rows
    assert "really waited: 1m1s on average" in rows
    assert rows[-1] == "note: 3 left out: not finished yet"


def test_the_table_is_there_for_programs_too(fake, rota):
    fake.routes["POST /policy:test"] = {"name": "sjf", "changes": CHANGES}
    fake.routes["POST /policy:replay"] = REPLAY

    said = rota("policy", "test", "sjf", "--json")

    assert json.loads(said.out) == {"name": "sjf", "changes": CHANGES, "replay": REPLAY}


def test_who_may_not_replay_still_sees_the_rules_and_is_told(fake, rota):
    fake.routes["POST /policy:test"] = {"name": "sjf", "changes": CHANGES}
    fake.routes["POST /policy:replay"] = Answer({"detail": "only operators may"}, 403)

    said = rota("policy", "test", "sjf")

    assert said.code == 0
    assert '  order.primary: "priority" -> "sjf"' in said.out
    assert said.err == "rota: nothing was replayed: only operators may\n"


def test_rules_that_change_nothing_need_no_replay(fake, rota):
    fake.routes["POST /policy:test"] = {"name": "default", "changes": []}

    said = rota("policy", "test", "default")

    assert said.out == "nothing would change\n"
    assert [asked.path for asked in fake.asked] == ["/policy:test"]


def test_a_rule_that_no_named_policy_decides_is_marked_as_kept(fake, rota):
    kept = {"order.primary": "fifo", "place.strategy": "first-fit", "filters": ["site:old"]}
    fake.routes["PATCH /policy"] = {"name": "easy", "bound": "1 day", "rules": {}, "changed": kept}

    said = rota("policy", "set", "easy")

    assert said.out.splitlines() == [
        "policy: easy",
        "bound: 1 day",
        'order.primary = "fifo"',
        'place.strategy = "first-fit"  # stays under every named policy',
        'filters = ["site:old"]  # stays under every named policy',
        "(all others have their defaults; --all shows all rules)",
    ]


def test_rules_that_have_no_name_are_not_marked(fake, rota):
    changed = {"order.primary": "sjf", "place.strategy": "first-fit"}
    fake.routes["GET /policy"] = {
        "name": "custom",
        "bound": "1 day",
        "rules": {},
        "changed": changed,
    }

    said = rota("policy", "show")

    assert "kept" not in said.out


GUARD = {
    "name": "sjf",
    "since": "2026-03-09T08:00:00Z",
    "until": "2026-03-16T08:00:00Z",
    "bars": [{"project": "vision", "most_s": 90.0}, {"project": "", "most_s": 3.0}],
    "ended": "",
}
RULES = {"name": "sjf", "bound": "a week", "rules": {}, "changed": {}, "known": []}


def test_rules_that_are_applied_tell_what_their_guard_watches_for(fake, rota):
    fake.routes["POST /policy:apply"] = {"policy": {**RULES, "guard": GUARD}, "replay": REPLAY}

    said = rota("policy", "apply", "sjf", "--guard", "2d")

    assert fake.asked[-1].body["guard_s"] == 172800
    assert "mean wait" in said.out
    told = "guard of sjf: until 2026-03-16T08:00:00Z, undone if jobs wait on average\n"
    assert told + "  of project vision: more than 1m30s\n" in said.out
    assert "  of any other project: more than 1m\n" in said.out


def test_what_came_of_a_guard_is_shown_with_the_rules(fake, rota):
    fake.routes["GET /policy"] = {**RULES, "guard": {**GUARD, "ended": "undone: too long"}}

    assert "guard of sjf: undone: too long\n" in rota("policy", "show").out


def test_rules_that_cannot_be_applied_say_why_in_a_line(fake, rota):
    fake.routes["POST /policy:apply"] = Answer({"detail": "nothing would change"}, 409)

    said = rota("policy", "apply", "default")

    assert (said.code, said.out) == (2, "")
    assert said.err == "rota: nothing would change\n"
