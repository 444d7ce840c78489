"""Commands about reservations, rules, accounts, quotas, marks and use: what they send and print."""

import json
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from rota.cli.cluster import timeline
from rota.moments import parse_moment, show, zone_named
from tests.cli.fake_server import Answer

NOW_S = datetime(2026, 11, 15, 12, 0, tzinfo=UTC).timestamp()
BERLIN = ZoneInfo("Europe/Berlin")

LIMITS = dict.fromkeys(("jobs", "queued", "cpus", "memory_mb", "gpus", "gpu_hours"))
QUOTA = {"hard": LIMITS, "soft": LIMITS, "types": {}, "borrow": True, "period_s": 2592000}
USED = {"jobs": 1, "cpus": 2.0, "memory_mb": 512, "gpus": 0.5}


def words(line):
    return line.split()


def reservation(**fields):
    return {
        "id": 7,
        "kind": "gpus",
        "owner": "ada",
        "project": "",
        "maintenance": False,
        "state": "planned",
        "start_at": "2026-11-15T18:00:00Z",
        "end_at": "2026-11-15T22:00:00Z",
        "node": "",
        "devices": [],
        "nodes": [],
        "gpus": 2,
        "gpu_type": "A100",
        "zone": "",
        "note": "demo",
        **fields,
    }


def account(**fields):
    return {"name": "ada", "shares": 1, "quota": QUOTA, "used": USED, **fields}


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("now", "2026-11-15T12:00:00Z"),
        ("now+90m", "2026-11-15T13:30:00Z"),
        ("18:00", "2026-11-15T17:00:00Z"),
        ("9:00", "2026-11-16T08:00:00Z"),
        ("today 9:00", "2026-11-15T08:00:00Z"),
        ("tomorrow", "2026-11-15T23:00:00Z"),
        ("tomorrow 09:30", "2026-11-16T08:30:00Z"),
        ("mon 7:30", "2026-11-16T06:30:00Z"),
        ("sunday 12:00", "2026-11-22T11:00:00Z"),
        ("2027-07-01T12:00", "2027-07-01T10:00:00Z"),
        ("2027-07-01 12:00", "2027-07-01T10:00:00Z"),
        ("2027-07-01T12:00:00Z", "2027-07-01T12:00:00Z"),
    ],
)
def test_a_moment_is_read_on_the_clock_of_its_zone(text, meant):
    moment = datetime.fromtimestamp(parse_moment(text, NOW_S, BERLIN), UTC)

    assert moment.isoformat().replace("+00:00", "Z") == meant


@pytest.mark.parametrize(
    "text", ["", "soon", "25:00", "monkey 7:00", "tomorrow noon", "2027-13-01"]
)
def test_a_moment_that_nobody_understands_is_refused(text):
    with pytest.raises(ValueError, match="expected a moment"):
        parse_moment(text, NOW_S, BERLIN)


def test_a_day_is_not_always_24_hours_long():
    before = datetime(2026, 10, 24, 18, 0, tzinfo=BERLIN).timestamp()

    assert parse_moment("tomorrow 18:00", before, BERLIN) - before == 25 * 3600
    assert show(before, BERLIN) == "2026-10-24 18:00"
    with pytest.raises(ValueError, match="not a known time zone"):
        zone_named("../etc/passwd")


def test_a_reservation_is_asked_for_in_utc_and_its_id_printed(fake, rota):
    fake.routes["POST /reservations"] = Answer(reservation(), 201)

    ended = rota(
        *("reserve", "add", "--gpus", "2", "--gpu-type", "A100", "--user", "ada", "-q"),
        *("--start", "2026-11-15T18:00", "--duration", "4h", "--zone", "Europe/Berlin"),
    )

    assert ended == (0, "7\n", "")
    assert fake.asked[0].body == {
        "gpus": 2,
        "gpu_type": "A100",
        "user": "ada",
        "zone": "Europe/Berlin",
        "start_at": "2026-11-15T17:00:00Z",
        "duration_s": 14400,
    }


def test_devices_and_maintenance_are_asked_for(fake, rota):
    fake.routes["POST /reservations"] = Answer(reservation(), 201)

    rota(*words("reserve add --gpu 0-1,3 --node box --project p --start now --duration 1h"))
    rota(
        *("reserve", "add", "--nodes", "n[1-2]", "--maintenance", "--note", "new memory"),
        *("--start", "2096-01-01T06:00Z", "--until", "2096-01-01T08:00Z"),
    )

    first, second = (asked.body for asked in fake.asked)
    assert (first["devices"], first["node"], first["project"]) == ([0, 1, 3], "box", "p")
    assert (second["nodes"], second["maintenance"]) == (["n1", "n2"], True)
    assert second["end_at"] == "2096-01-01T08:00:00Z"


@pytest.mark.parametrize(
    ("start", "until", "hours"),
    [
        ("tomorrow 9:00", "tomorrow 17:00", 8),
        ("tomorrow 9:00", "17:00", 8),
        ("now+2d", "now+3d", 24),
        ("mon 9:00", "mon 17:00", 8),
    ],
)
def test_the_end_of_a_reservation_is_the_moment_that_was_meant(fake, rota, start, until, hours):
    fake.routes["POST /reservations"] = Answer(reservation(), 201)

    whose = ("--gpus", "1", "--user", "ada", "--zone", "UTC")
    rota("reserve", "add", *whose, "--start", start, "--until", until)

    asked = fake.asked[0].body
    begin, end = (datetime.fromisoformat(asked[name]) for name in ("start_at", "end_at"))
    assert end - begin == timedelta(hours=hours)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--start", "whenever", "--duration", "1h"), "expected a moment"),
        (("--zone", "Mars", "--duration", "1h"), "not a known time zone"),
        (("--gpu", "x", "--duration", "1h"), "expected indices such as 0,1"),
        ((), "give --duration or --until"),
    ],
)
def test_a_mistake_in_a_reservation_is_told_before_anything_is_sent(fake, rota, options, words):
    ended = rota("reserve", "add", "--gpus", "1", "--user", "ada", *options)

    assert ended.code == 2
    assert words in ended.err
    assert not fake.asked


def test_reservations_are_listed_with_a_line_of_time():
    entries = [
        reservation(),
        reservation(
            id=12,
            maintenance=True,
            owner="",
            gpus=0,
            nodes=["a", "b"],
            start_at="2026-11-16T08:00:00Z",
            end_at="2026-11-16T12:00:00Z",
        ),
        reservation(id=3, end_at="2026-11-15T11:00:00Z", start_at="2026-11-15T10:00:00Z"),
    ]

    table = timeline.table(entries, None, UTC)
    bars = timeline.bars(entries, NOW_S, 54, UTC)

    assert table[1].split() == words(
        "7 ada 2xA100 2026-11-15 18:00 2026-11-15 22:00 4h planned demo"
    )
    assert "maintenance" in table[2]
    assert "nodes a,b" in table[2]
    assert bars == [
        "    2026-11-15 12:00                2026-11-16 12:00",
        " 7  ............########............................",
        "12  ........................................########",
        "    ^ now",
    ]
    assert timeline.bars(entries[2:], NOW_S, 54, UTC) == []


def test_reservations_are_removed_by_id(fake, rota):
    fake.routes["DELETE /reservations/7"] = Answer(b"", 204)

    assert rota("reserve", "remove", "7").out == "removed 7\n"


def test_rules_are_set_by_key_name_and_file(fake, rota, tmp_path):
    answer = {"name": "custom", "bound": "none", "rules": {}, "known": []}
    fake.routes["PATCH /policy"] = answer | {"changed": {"order.primary": "wfp3"}}
    fake.routes["POST /policy:test"] = {
        "name": "custom",
        "changes": [{"key": "order.primary", "before": "priority", "after": "wfp3"}],
    }
    file = tmp_path / "rota.toml"
    file.write_text(
        "[scheduling]\npolicy = 'easy'\nknown_projects = true\n"
        "[scheduling.order]\nprimary = 'wfp3'\n"
    )

    changed = rota("policy", "set", "preemptive", "order.primary=wfp3", "preempt.grace_s=2m")
    tried = rota("policy", "test", "--changes", str(file))

    assert fake.asked[0].body == {
        "policy": "preemptive",
        "rules": {"order.primary": "wfp3", "preempt.grace_s": "2m"},
    }
    assert 'order.primary = "wfp3"' in changed.out
    assert fake.asked[1].body == {
        "policy": "easy",
        "rules": {"known_projects": True, "order.primary": "wfp3"},
    }
    assert '  order.primary: "priority" -> "wfp3"' in tried.out


def test_every_rule_is_shown_when_asked_for(fake, rota):
    fake.routes["GET /policy"] = {
        "name": "default",
        "bound": "a week",
        "rules": {"order": {"primary": "priority"}, "known_projects": False},
        "changed": {},
        "known": [],
    }

    assert "every rule has its default" in rota("policy", "show").out
    everything = rota("policy", "show", "--all").out
    assert everything == (
        'policy: default\nbound: a week\norder.primary = "priority"\nknown_projects = false\n'
    )
    assert json.loads(rota("policy", "show", "--json").out)["name"] == "default"


def test_quotas_are_set_for_one_account_at_a_time(fake, rota):
    fake.routes["PATCH /projects/vision"] = account(name="vision", enforce_quota=True)
    fake.routes["PATCH /users/%2A"] = account(name="*")

    rota(*words("quota set --project vision --gpus 16 --gpu-hours none --period 30d --no-borrow"))
    rota(*words("quota set --project vision --soft --cpus 2.5 --off"))
    rota(*words("quota set --project vision --type inference --jobs 2"))
    rota(*words("quota set --default --mem 500G --queued 9"))

    bodies = [asked.body for asked in fake.asked]
    assert bodies == [
        {"quota": {"hard": {"gpus": 16, "gpu_hours": None}, "borrow": False, "period_s": 2592000}},
        {"quota": {"soft": {"cpus": 2.5}}, "enforce_quota": False},
        {"quota": {"types": {"inference": {"jobs": 2}}}},
        {"quota": {"hard": {"queued": 9, "memory_mb": 512000}}},
    ]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("quota set --gpus 1", "exactly one of --user, --project and --default"),
        ("quota set --user a --project b --gpus 1", "exactly one of"),
        ("quota set --user a", "nothing to set"),
        ("quota set --user a --gpus lots", "expected a number, or none"),
        ("quota set --user a --off", "go with --project"),
        ("project set p", "nothing to change"),
        ("queue-admin set q", "nothing to change"),
        ("policy set fifo easy", "two policies are named"),
        ("node label box rack", "expected KEY=VALUE or KEY-"),
    ],
)
def test_a_command_without_sense_is_one_line(fake, rota, line, words):
    ended = rota(*line.split())

    assert ended.code == 2
    assert words in ended.err
    assert not fake.asked


def test_quotas_are_shown_with_what_is_held(fake, rota):
    limited = {**QUOTA, "hard": {**LIMITS, "gpus": 8.0, "memory_mb": 2048, "memory_mib": 2048}}
    fake.routes["GET /users"] = {"items": [account(), account(name="bob", quota=limited)]}
    fake.routes["GET /projects"] = {"items": []}

    shown = rota("quota", "show").out

    assert shown.splitlines() == [
        "user:  bob",
        "hard:  2G memory, 8 gpus",
        "holds: 1 job, 2 cpus, 512M memory, 0.5 gpus",
        "",
    ]


def test_projects_are_shown_as_a_tree(fake, rota):
    fake.routes["GET /projects"] = {
        "items": [
            account(name="research", parent=""),
            account(name="vision", parent="research", shares=3),
        ]
    }

    lines = rota("project", "list").out.splitlines()

    assert [line.split()[0] for line in lines] == ["NAME", "research", "vision"]
    assert lines[2].startswith("  vision")
    assert rota("project", "list", "-q").out == "research\nvision\n"


def test_a_project_is_not_made_twice(fake, rota):
    fake.routes["GET /projects"] = {"items": [account(name="p", parent="")]}
    fake.routes["PUT /projects/q"] = account(name="q", parent="p")

    again = rota("project", "add", "p")
    rota("project", "add", "q", "--parent", "p", "--shares", "2")

    assert again.code == 2
    assert "already" in again.err
    assert fake.asked[-1].body == {"parent": "p", "shares": 2}


def test_nodes_are_labelled_and_tainted(fake, rota):
    fake.routes["PATCH /nodes/box"] = {"labels": {"rack": "a"}, "taints": ["team=vision:avoid"]}

    labels = rota("node", "label", "box", "rack=a", "old-")
    taints = rota("node", "taint", "box", "team=vision:avoid", "slow-")

    assert fake.asked[0].body == {"labels": {"rack": "a", "old": None}}
    assert fake.asked[1].body == {"taints": ["team=vision:avoid"], "untaint": ["slow"]}
    assert labels.out == "box: labels rack=a\n"
    assert taints.out == "box: taints team=vision:avoid\n"


def test_queues_are_made_and_changed(fake, rota):
    queue = {
        **{"name": "night", "state": "active", "priority": 10, "project": ""},
        **{"max_running": 0, "max_per_user": 2, "max_per_project": 0},
        **{"preempts": False, "preemptible": True, "pending_jobs": 0, "running_jobs": 0},
        "open": True,
    }
    fake.routes["GET /queues"] = {"items": []}
    fake.routes["PUT /queues/night"] = queue
    fake.routes["PATCH /queues/night"] = queue

    made = rota(*words("queue-admin add night --priority 10 --max-per-user 2 --no-preempts"))
    rota(*words("queue-admin set night --state paused"))

    assert fake.asked[1].body == {"priority": 10, "max_per_user": 2, "preempts": False}
    assert fake.asked[2].body == {"state": "paused"}
    assert made.out.splitlines()[1].split() == words("night active 10 0 0 2 per user gives")


def test_use_is_shown_with_shares(fake, rota):
    hours = {"cpu_hours": 1.5, "memory_gb_hours": 0.0, "gpu_hours": 12.0}
    fake.routes["GET /usage"] = {
        "since": None,
        "until": None,
        "items": [
            {
                **{"user": "ada", "project": "p", "attempts": 1, "now": USED},
                **{"period": hours, "recent": hours},
            }
        ],
        "shares": [
            {
                **{"project": "p", "user": "ada", "shares": 2},
                **{"target": 0.5, "used": 0.25, "ratio": 0.5},
            }
        ],
    }

    shown = rota("usage", "--period", "30d", "-u", "ada").out.splitlines()

    assert fake.asked[0].query == {"user": "ada", "period_s": "2592000"}
    assert shown[2].split() == ["ada", "p", "1", "2", "0.5", "1.5", "12.0", "1.5", "12.0"]
    assert shown[-1].split() == ["p", "ada", "2", "50.0%", "25.0%", "0.50"]


def test_a_checkpoint_is_reported_for_the_job_one_is_in(fake, rota, monkeypatch):
    fake.routes["POST /jobs/12/checkpoint"] = {"id": 12, "saved_at": "2026-11-15T12:00:00Z"}
    monkeypatch.setenv("ROTA_JOB_ID", "12")

    inside = rota("checkpoint")
    monkeypatch.delenv("ROTA_JOB_ID")
    outside = rota("checkpoint")

    assert inside.out.startswith("12: saved as of 2026-11-15")
    assert outside.code == 2


def test_a_checkpoint_is_measured_where_its_files_are(fake, rota, monkeypatch, tmp_path):
    fake.routes["POST /jobs/12/checkpoint"] = {"id": 12, "saved_at": "2026-11-15T12:00:00Z"}
    (tmp_path / "step-3").mkdir()
    (tmp_path / "step-3" / "model").write_text("12345")
    (tmp_path / "other").write_text("123")
    monkeypatch.setenv("ROTA_JOB_ID", "12")
    monkeypatch.setenv("ROTA_CHECKPOINT_DIR", str(tmp_path))

    rota("checkpoint", "--step", "3", "--path", "step-3")
    rota("checkpoint")
    rota("checkpoint", "--ask", "--size", "2k")

    bodies = [asked.body for asked in fake.asked]
    assert bodies == [
        {"step": 3, "path": "step-3", "size": 5},
        {"size": 8},
        {"size": 2048, "planned": True},
    ]
    assert "--ask needs --size" in rota("checkpoint", "--ask").err


def test_saved_work_is_listed_and_what_could_not_be_removed_is_said(fake, rota):
    entry = {"id": 12, "user": "ada", "state": "failed", "node": "box", "folder": "/ckpt/12-ab"}
    entry |= {"files": 3, "size": 5 << 30, "changed_at": "2026-11-15T12:00:00Z"}
    fake.routes["GET /checkpoints"] = {"items": [entry]}
    fake.routes["DELETE /jobs/12/checkpoint"] = {"id": 12, "problems": ["box: no such bucket"]}

    listed = rota("checkpoint", "list").out.splitlines()
    ids = rota("checkpoint", "list", "-q").out
    removed = rota("checkpoint", "rm", "12")

    assert listed[1].split()[:6] == ["12", "ada", "failed", "box", "3", "5.0G"]
    assert ids == "12\n"
    assert (removed.code, removed.out) == (1, "12: not removed\n")
    assert removed.err == "rota: box: no such bucket\n"


def test_use_is_forgotten_for_somebody_who_is_named(fake, rota):
    fake.routes["POST /usage:reset"] = {"items": [{"user": "ada", "project": "vision"}]}

    done = rota("usage", "--reset", "-u", "ada")

    assert fake.asked[-1].body == {"user": "ada", "project": "", "all": False}
    assert done.out == "forgot what ada in vision used\n"
    assert "--reset needs -u USER" in rota("usage", "--reset").err
    assert "--all goes with --reset only" in rota("usage", "--all").err
