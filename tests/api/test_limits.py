"""What one user may ask of a site, and how more is refused."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.api.gate import Gate
from rota.controller.agents.bundles import BundleShelf
from rota.core.facts.errors import Busy
from rota.core.facts.tenant import Access, Actor
from rota.settings.limits import Limits
from tests.api.running import Running, running

TIGHT = Limits(queued=100, environment="1m", input="1m", requests_per_s=5, requests_burst=20)


@pytest.fixture
def tight(socket_folder: Path) -> Iterator[Running]:
    with running(socket_folder, limits=TIGHT) as server:
        yield server


def test_elements_of_arrays_count_as_jobs_that_wait(tight: Running) -> None:
    ann = tight.as_user("ann")
    ann.submit(array="1-60", hold=True)

    refused = ann.post("/jobs", {"command": "true", "array": "1-41"})

    assert refused.status == 409
    assert refused.json["field"] == "queued"
    allowed = "user ann may have 100 jobs waiting (limits.queued) and has 60"
    assert refused.json["detail"] == f"queued: 41 more is not allowed; {allowed}"
    assert ann.post("/jobs", {"command": "true", "array": "1-40"}).status == 201
    assert tight.as_user("bob").post("/jobs", {"command": "true"}).status == 201


def test_a_batch_counts_as_a_whole_whatever_projects_it_is_for(tight: Running) -> None:
    ann = tight.as_user("ann")
    jobs = [{"command": "true", "project": f"p{n % 3}", "hold": True} for n in range(101)]

    refused = ann.post("/jobs:batch", {"jobs": jobs})

    assert (refused.status, refused.json["field"]) == (409, "queued")


def test_a_quota_of_the_users_own_goes_before_the_limit_of_the_site(tight: Running) -> None:
    admin = tight.local()
    admin.patch("/users/ann", {"quota": {"hard": {"queued": 300}}})

    assert tight.as_user("ann").post("/jobs", {"command": "true", "array": "1-250"}).status == 201


@pytest.mark.parametrize(
    ("field", "value"),
    [("env", {f"V{n}": "x" * 100_000 for n in range(11)}), ("stdin", "x" * 1_048_577)],
)
def test_environment_and_input_are_bounded(tight: Running, field: str, value: object) -> None:
    refused = tight.as_user("ann").post("/jobs", {"command": "true", field: value})

    assert (refused.status, refused.json["field"]) == (400, field)
    assert "at most 1048576" in refused.json["detail"]


def test_requests_that_come_too_fast_are_put_off_and_others_are_not(tight: Running) -> None:
    ann, bob = tight.as_user("ann"), tight.as_user("bob")

    answers = [ann.get("/jobs") for _ in range(60)]

    refused = [answer for answer in answers if answer.status == 429]
    assert len(refused) >= 20
    assert 0 < float(refused[0].headers["Retry-After"]) <= 0.25
    assert "limits.requests_per_s" in refused[0].json["detail"]
    assert bob.get("/jobs").status == 200
    assert tight.local().get("/jobs").status == 200


def test_a_bucket_fills_again_by_itself_and_blobs_have_one_of_a_day() -> None:
    now_s = [0.0]
    ann = Actor("ann", Access.USER)
    gate = Gate(Limits(requests_per_s=2, requests_burst=3, blobs_per_day="10m"), lambda: now_s[0])

    for _ in range(3):
        gate.request(ann)
    with pytest.raises(Busy) as early:
        gate.request(ann)
    now_s[0] = early.value.retry_after_s
    gate.request(ann)
    gate.blobs(ann, 10 << 20)
    with pytest.raises(Busy, match=r"allowed are 10m a day \(limits.blobs_per_day\)"):
        gate.blobs(ann, 1 << 20)

    assert early.value.retry_after_s == 0.5
    now_s[0] += 86_400 / 10
    gate.blobs(ann, 1 << 20)


def test_working_folders_have_a_bucket_of_a_day_too(socket_folder: Path) -> None:
    """A user could fill the disk of the controller with them."""
    folder = b"x" * (700 << 10)
    with running(socket_folder, limits=Limits(bundles_per_day="1m")) as server:
        server.host.links.bundles = BundleShelf(socket_folder / "bundles", 1 << 20)
        ann, bob = server.as_user("ann"), server.as_user("bob")
        first, second = (hashlib.sha256(folder + end).hexdigest() for end in (b"1", b"2"))

        taken = ann.put(f"/bundles/{first}", folder + b"1")
        refused = ann.put(f"/bundles/{second}", folder + b"2")

        assert (taken.status, refused.status) == (200, 429)
        assert "allowed are 1m a day (limits.bundles_per_day)" in refused.json["detail"]
        assert ann.get(f"/bundles/{second}").status == 404
        assert bob.put(f"/bundles/{second}", folder + b"2").status == 200
