"""Whether Rota itself is well: it says so, says why not, and is well again by itself."""

import re
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from rota.controller import outage
from rota.store.memory import DiskFault
from tests.api.running import WAIT_S, Answer, Caller, Running


def until_readiness_is(status: int, caller: Caller) -> Answer:
    deadline_s = time.monotonic() + WAIT_S
    while (answer := caller.get("/readyz")).status != status:
        assert time.monotonic() < deadline_s, answer.body
    return answer


def test_a_disk_that_takes_nothing_makes_it_unready_until_something_is_written(
    server: Running, caller: Caller
) -> None:
    well = caller.get("/readyz")
    server.disk.fault = DiskFault.FULL
    refused = caller.post("/jobs", {"command": "true"})
    ill = caller.get("/readyz")
    alive = caller.get("/healthz")
    server.disk.fault = None
    caller.submit()

    assert (well.status, well.json) == (200, {"status": "ready"})
    assert (refused.status, ill.status, alive.status) == (503, 503, 200)
    assert ill.json["status"] == "troubled"
    assert ill.json["reason"] == "the last change could not be written; controller.log says why"
    assert caller.get("/readyz").status == 200


def test_a_commit_that_hangs_is_noticed_and_so_is_its_end(
    server: Running, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outage, "STUCK_S", 0.02)
    server.store.may_commit.clear()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(server.local().post, "/jobs", {"command": "true"})
        reason = until_readiness_is(503, caller).json["reason"]
        server.store.may_commit.set()

        assert waiting.result().status == 201
    assert re.fullmatch(r"a tick has not ended for \d+s", reason)
    until_readiness_is(200, caller)
