"""The client of slurmrestd against a service that answers by hand, and calls that never end."""

import asyncio
import os
import re
from typing import get_type_hints

import msgspec
import pytest

from rota.backends.api import EngineAway, EngineRefused, Full, Unsure
from rota.backends.slurm.commands import ByCommands, called
from rota.backends.slurm.driver import driver
from rota.backends.slurm.inner import SlurmRequest, engine_error
from rota.backends.slurm.nodes import as_nodes
from rota.backends.slurm.rest import described, submitted
from rota.backends.slurm.settings import SlurmSettings
from rota.slurmrest.verdicts import (
    SlurmAway,
    SlurmFull,
    SlurmRefused,
    SlurmUnsure,
    verdict,
    verdict_of_words,
)
from tests.engines.slurm.by_hand import errors, service, with_client


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (("v0.0.36", "v0.0.37", "v0.0.38"), "v0.0.38"),
        (("v0.0.38", "v0.0.40", "v0.0.41"), "v0.0.41"),
        (("v0.0.9", "v0.0.36"), "v0.0.36"),
        (("v0.0.41", "v0.0.42", "v0.0.43"), "v0.0.43"),
        # Of a service that is newer than all we know, what is nearest to it.
        (("v0.0.99", "v0.0.100"), "v0.0.99"),
        (("v0.0.43", "v0.0.99"), "v0.0.43"),
    ],
)
def test_the_newest_version_that_both_know_is_spoken(offered, chosen):
    async def use(client):
        return dict(client.versions)

    with service(*offered) as server:
        versions = asyncio.run(with_client(server, use))

    assert versions == {"slurm": chosen, "slurmdb": chosen}


def test_a_service_that_speaks_none_that_we_know_is_refused():
    with service("v0.0.35") as server, pytest.raises(SlurmRefused, match=r"v0\.0\.36 or newer"):
        asyncio.run(with_client(server, None))


def test_the_token_is_read_anew_and_the_user_is_named(tmp_path):
    token = tmp_path / "token"
    token.write_text("SLURM_JWT=first\n")

    async def use(client):
        token.write_text("second\n")
        await client.tell("DELETE", "slurm", "job/7", user="alice", signal="15")

    with service("v0.0.38") as server:
        server.answers["/slurm/v0.0.38/job/7?signal=15"] = (200, {"errors": []})
        asyncio.run(with_client(server, use, token_file=str(token)))
        headers = server.headers

    assert headers["X-SLURM-USER-TOKEN"] == "second"
    assert headers["X-SLURM-USER-NAME"] == "alice"


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (200, {"job_id": 7, "errors": []}, 7),
        (200, errors(2015, job_id=7), 7),
        (200, {"result": {"job_id": 8}, "errors": []}, 8),
        (500, errors(2000), SlurmRefused),
        (500, errors(2045), SlurmRefused),
        (500, errors(2050), SlurmFull),
        (500, errors(1800), SlurmAway),
        (500, errors(5005), SlurmUnsure),
        (500, errors(-1), SlurmUnsure),
        (400, errors(2127), SlurmRefused),
        (200, {"errors": []}, SlurmUnsure),
        (500, {"errors": [{"error_number": 2050, "error": "newer"}]}, SlurmFull),
        (401, None, SlurmAway),
        (401, errors(6001, "Invalid argument to auth plugin"), SlurmAway),
        (403, errors(0), SlurmAway),
        (500, errors(6003, "Expired token"), SlurmAway),
        (429, None, SlurmFull),
        (502, None, SlurmUnsure),
        (503, {"message": "of a proxy"}, SlurmUnsure),
        (500, errors(111, "Connection refused"), SlurmUnsure),
        (200, {"job_id": {"set": True, "infinite": False, "number": 9}}, 9),
        (200, {"job_id": "9"}, 9),
        (0, {"job_id": 7}, SlurmUnsure),
    ],
)
def test_the_answer_to_a_submit_is_what_slurm_meant(status, body, expected):
    async def use(client):
        try:
            return await client.submit({"script": ""})
        except Exception as error:
            return type(error)

    with service("v0.0.38") as server:
        server.answers["/slurm/v0.0.38/job/submit"] = (status, body)
        told = asyncio.run(with_client(server, use))

    assert told == expected


@pytest.mark.parametrize(
    ("status", "body"), [(500, errors(-1)), (200, errors(7000)), (502, None), (0, {"jobs": []})]
)
def test_a_question_that_is_not_answered_in_full_is_silence(status, body):
    async def use(client):
        return await client.ask("slurm", "jobs")

    with service("v0.0.38") as server:
        server.answers["/slurm/v0.0.38/jobs"] = (status, body)
        with pytest.raises(SlurmAway):
            asyncio.run(with_client(server, use))


def test_a_service_that_is_not_there_is_away():
    with service() as server:
        url = server.url
    server.url = url

    with pytest.raises(SlurmAway):
        asyncio.run(with_client(server, None))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("Invalid partition name specified", SlurmRefused),
        ("Job violates accounting/QOS policy (job submit limit, user's size)", SlurmFull),
        ("Unable to contact slurm controller (connect failure)", SlurmAway),
        ("Socket timed out on send/recv operation", SlurmUnsure),
        ("something that nobody has seen", SlurmRefused),
        ("fatal: Could not establish a configuration source", SlurmAway),
    ],
)
def test_the_words_of_a_command_are_judged_as_its_number_is(words, expected):
    error = verdict_of_words(words, order=True)

    assert type(error) is expected
    assert type(verdict(error.code, words, order=True)) is expected


def test_each_error_is_one_of_the_four():
    made = [engine_error(kind("x")) for kind in (SlurmRefused, SlurmFull, SlurmAway, SlurmUnsure)]

    assert [type(error) for error in made] == [EngineRefused, Full, EngineAway, Unsure]


@pytest.mark.parametrize(("order", "expected"), [(True, Unsure), (False, EngineAway)])
def test_a_command_that_does_not_end_is_killed(tmp_path, order, expected):
    note = tmp_path / "pid"
    words = ["/bin/sh", "-c", f"echo $$ >{note}; exec sleep 60"]

    with pytest.raises(expected, match="no answer within 1 s"):
        asyncio.run(called(words, limit_s=1.0, order=order))

    pid = int(note.read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_site_without_accounting_remembers_nothing(tmp_path, monkeypatch):
    said = "echo 'Slurm accounting storage is disabled' >&2; exit 1"
    (tmp_path / "sacct").write_text(f"#!/bin/sh\n{said}\n")
    (tmp_path / "sacct").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    assert asyncio.run(ByCommands(SlurmSettings(folder="/x")).past(0.0)) == []


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"folder": "x"}, "folder 'x' is not valid; expected an absolute path"),
        ({"folder": "/x", "rest_url": "host:1"}, "rest_url 'host:1' is not valid; expected http"),
        ({"folder": "/x", "node_feature": "n"}, "expected a feature with {node} in it"),
        ({"folder": "/x", "poll_s": 0}, "poll_s 0.0 is not valid; expected more than 0"),
        ({"folder": "/x", "placement": "mine"}, "Invalid enum value 'mine'"),
    ],
)
def test_a_bad_setting_is_refused_by_its_name(table, words):
    with pytest.raises(msgspec.ValidationError, match=re.escape(words)):
        msgspec.convert(table, SlurmSettings)


def test_the_driver_of_a_table_is_made_by_its_annotation():
    hints = get_type_hints(driver)
    made = driver(hints["settings"](folder="/x"))

    assert (made.kind, made.settle_s) == ("slurm", 10.0)


WISH = SlurmRequest(
    comment="rota:c1:a",
    script="",
    user="alice",
    name="x",
    minutes=5,
    nodes=2,
    memory_mib_per_node=100,
    gres="gpu:h200:2",
    on="n3",
)


def test_a_job_is_described_as_each_version_wants_it():
    older, newer = described(WISH, 38, "node-{node}"), described(WISH, 40)

    assert (older["nodes"], newer["nodes"]) == ([2, 2], "2-2")
    assert (older["gres"], newer["tres_per_node"]) == ("gpu:h200:2", "gres/gpu:h200:2")
    assert (older["no_requeue"], newer["requeue"]) == (True, False)
    assert older["constraints"] == "node-n3"
    assert ("constraints" in newer, newer["required_nodes"]) == (False, ["n3"])
    assert "required_nodes" not in older
    assert (submitted(WISH, 40)["script"], submitted(WISH, 41).keys()) == ("", {"job"})
    assert submitted(WISH, 41)["job"]["script"] == ""
    assert isinstance(older["environment"], dict)
    assert isinstance(newer["environment"], list)
    assert "partition" not in older | newer


@pytest.mark.parametrize(
    ("state", "flags", "usable"),
    [
        ("idle", [], True),
        ("mixed", ["COMPLETING"], True),
        ("idle", ["DRAIN"], False),
        ("down", [], False),
        (["IDLE", "DRAIN"], None, False),
        (["ALLOCATED", "PLANNED"], None, True),
        # Switched off to save power: Slurm switches it on for a job.
        (["IDLE", "CLOUD", "POWERED_DOWN"], [], True),
        ("idle", ["CLOUD", "POWERED_DOWN"], True),
        ("IDLE~", [], True),
        ("IDLE+CLOUD+POWERED_DOWN", [], True),
        ("IDLE%", [], False),
        ("IDLE+DRAIN", [], False),
        ("IDLE*", [], False),
        (["IDLE", "EXTERNAL"], [], False),
        ("idle", ["NOT_RESPONDING"], False),
    ],
)
def test_a_node_serves_unless_its_state_says_otherwise(state, flags, usable):
    raw = {"name": "n1", "cpus": 4, "real_memory": 100, "state": state, "reason": "x"}

    (node,) = as_nodes([raw | {"state_flags": flags}])

    assert (node.usable, bool(node.detail)) == (usable, not usable)


def test_what_a_site_keeps_for_its_daemons_is_not_offered():
    raw = {"name": "n1", "state": ["IDLE"], "cpus": 8, "effective_cpus": 6}
    memory = {"real_memory": {"set": True, "number": 1000}, "specialized_memory": 100}

    (node,) = as_nodes([raw | memory])

    assert (node.spec.cpu_milli, node.spec.memory_mib) == (6000, 900)


def test_a_node_of_a_reservation_serves_those_alone_that_go_into_one():
    raw = {"name": "n1", "cpus": 4, "real_memory": 100, "state": "reserved"}

    (other,), (ours,) = as_nodes([raw]), as_nodes([raw], reserved=True)

    assert (other.usable, other.detail, ours.usable) == (False, "reserved in Slurm", True)


@pytest.mark.parametrize(
    ("gres", "models"),
    [
        ("", []),
        ("gpu:2", ["", ""]),
        ("gpu:h200:2(S:0-1)", ["h200", "h200"]),
        ("gpu:a100:1(S:0),gpu:h200:1,mps:400", ["a100", "h200"]),
    ],
)
def test_gpus_are_counted_by_their_kind(gres, models):
    (node,) = as_nodes([{"name": "n1", "gres": gres, "state": "idle"}])

    assert [device.model for device in node.spec.devices] == models
    assert [device.index for device in node.spec.devices] == list(range(len(models)))
