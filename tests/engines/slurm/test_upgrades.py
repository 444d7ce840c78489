"""A Slurm that is of another version than it was, or that answers as only newer ones do."""

import asyncio
import json
import time
from contextlib import closing, suppress

import pytest

from rota.backends.api import EngineAway
from rota.backends.slurm.commands import ByCommands
from rota.backends.slurm.rest import ByRest
from rota.backends.slurm.settings import SlurmSettings
from rota.slurmrest.client import SlurmRest
from rota.slurmrest.verdicts import SlurmAway
from tests.engines.slurm.by_hand import errors, service, with_client


@pytest.mark.parametrize(
    ("status", "body"), [(204, None), (200, {"jobs": [], **errors(9003, "Nothing found")})]
)
def test_a_question_with_an_empty_answer_is_answered(status, body):
    async def use(client):
        return await client.ask("slurmdb", "jobs")

    with service("v0.0.41") as server:
        server.answers["/slurmdb/v0.0.41/jobs"] = (status, body)

        assert asyncio.run(with_client(server, use)) == {}


def test_after_an_upgrade_the_version_that_is_offered_then_is_spoken():
    async def use(client):
        before = await client.submit({"script": ""})
        server.answers = {
            "/openapi/v3": (200, {"paths": {"/slurm/v0.0.42/jobs/": {}}}),
            "/slurm/v0.0.42/job/submit": (200, {"job_id": 8}),
        }
        with pytest.raises(SlurmAway, match="404 to /slurm/"):
            await client.submit({"script": ""})
        return before, await client.submit({"script": ""}), client.number

    with service("v0.0.40") as server:
        server.answers["/slurm/v0.0.40/job/submit"] = (200, {"job_id": 7})

        assert asyncio.run(with_client(server, use)) == (7, 8, 42)


def test_a_path_that_is_not_there_is_no_fault_of_a_job():
    async def use(client):
        await client.submit({"script": ""})

    with (
        service("v0.0.40") as server,
        pytest.raises(SlurmAway, match=r"404 to /slurm/v0\.0\.40/job"),
    ):
        asyncio.run(with_client(server, use))


def test_of_ten_thousand_jobs_of_others_only_what_is_needed_is_read(tmp_path):
    """A newer version tells some hundred things of each; here are as many that nobody wants."""
    more = {f"field_{n}": {"set": True, "infinite": False, "number": n} for n in range(100)}
    other = {"comment": "theirs", "job_state": ["PENDING"], "user_name": "bob", **more}
    ours = {"job_id": 5, "comment": "rota:c1:a", "job_state": ["RUNNING"], "nodes": "n1"}
    jobs = [{**other, "job_id": n} for n in range(10_000)]

    async def use(way):
        await way.open()
        began_s = time.thread_time()
        listed = await way.jobs()
        await way.close()
        return listed, time.thread_time() - began_s

    with service("v0.0.41") as server:
        server.answers["/slurm/v0.0.41/ping"] = (200, {})
        server.answers["/slurm/v0.0.41/jobs"] = (200, {"jobs": [*jobs, ours], "errors": []})
        settings = SlurmSettings(folder=str(tmp_path), rest_url=server.url)
        listed, took_s = asyncio.run(use(ByRest(settings)))

    assert [(one.id, one.nodes) for one in listed if one.comment == "rota:c1:a"] == [("5", "n1")]
    assert len(listed) == 10_001
    assert took_s < 2.0


@pytest.mark.parametrize("jobs", [None, {}, "none"])
def test_an_answer_without_the_list_that_was_asked_for_is_silence(tmp_path, jobs):
    async def use(way):
        try:
            await way.open()
            return await way.jobs()
        finally:
            await way.close()

    with service("v0.0.41") as server:
        server.answers["/slurm/v0.0.41/ping"] = (200, {})
        server.answers["/slurm/v0.0.41/jobs"] = (200, {"jobs": jobs, "errors": []})
        way = ByRest(SlurmSettings(folder=str(tmp_path), rest_url=server.url))
        with pytest.raises(EngineAway, match="without jobs"):
            asyncio.run(use(way))


def test_an_answer_that_drips_is_silence_in_the_end():
    async def dripping(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        with closing(writer), suppress(ConnectionError):
            while True:
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.05)

    async def ask():
        async with await asyncio.start_server(dripping, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            client = SlurmRest(f"http://127.0.0.1:{port}", limit_s=0.5)
            try:
                await client.open()
            finally:
                await client.close()

    with pytest.raises(SlurmAway, match="no answer in time"):
        asyncio.run(ask())


def test_nodes_are_asked_for_where_the_version_tells_of_each(tmp_path, monkeypatch):
    """From 23.02 on ``sinfo --json`` tells of groups of nodes, and ``scontrol`` of each one."""
    groups = {"sinfo": [{"nodes": {"allocated": 0, "nodes": ["n1"]}}], "errors": []}
    each = {"nodes": [{"name": "n1", "cpus": 4, "state": ["IDLE"]}], "errors": []}
    for name, told in (("sinfo", groups), ("scontrol", each)):
        (tmp_path / name).write_text(f"#!/bin/sh\necho '{json.dumps(told)}'\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    way = ByCommands(SlurmSettings(folder="/x"))

    assert asyncio.run(way.nodes()) == each["nodes"]

    (tmp_path / "scontrol").write_text("#!/bin/sh\necho '{}'\n")
    with pytest.raises(EngineAway, match="lists the nodes one by one"):
        asyncio.run(way.nodes())
