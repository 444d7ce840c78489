"""What one user may ask of a site, and how more is refused."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.api.gate import Gate
from rota.controller.agents.bundles import BundleShelf
from rota.controller.commands import credentials
from rota.core.facts.errors import Busy
from rota.core.facts.tenant import Access, Actor
from rota.settings.limits import UserLimits
from tests.api.pretended import PretendedAgent
from tests.api.running import Running, running
from tests.api.test_pledged import by, hold_the_node

TIGHT = UserLimits(
    queued=100, environment="1m", input="1m", promises=2, requests_per_s=5, requests_burst=20
)


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
    gate = Gate(
        UserLimits(requests_per_s=2, requests_burst=3, blobs_per_day="10m"), lambda: now_s[0]
    )

    for _ in range(3):
        gate.request("ann")
    with pytest.raises(Busy) as early:
        gate.request("ann")
    now_s[0] = early.value.retry_after_s
    gate.request("ann")
    gate.blobs(ann, 10 << 20)
    with pytest.raises(Busy, match=r"allowed are 10m a day \(limits.blobs_per_day\)"):
        gate.blobs(ann, 1 << 20)

    assert early.value.retry_after_s == 0.5
    now_s[0] += 86_400 / 10
    gate.blobs(ann, 1 << 20)


def test_working_folders_have_a_bucket_of_a_day_too(socket_folder: Path) -> None:
    """A user could fill the disk of the controller with them."""
    folder = b"x" * (700 << 10)
    with running(socket_folder, limits=UserLimits(bundles_per_day="1m")) as server:
        server.host.links.bundles = BundleShelf(socket_folder / "bundles", 1 << 20)
        ann, bob = server.as_user("ann"), server.as_user("bob")
        first, second = (hashlib.sha256(folder + end).hexdigest() for end in (b"1", b"2"))

        taken = ann.put(f"/bundles/{first}", folder + b"1")
        refused = ann.put(f"/bundles/{second}", folder + b"2")

        assert (taken.status, refused.status) == (200, 429)
        assert "allowed are 1m a day (limits.bundles_per_day)" in refused.json["detail"]
        assert ann.get(f"/bundles/{second}").status == 404
        assert bob.put(f"/bundles/{second}", folder + b"2").status == 200


def test_promises_that_are_open_are_bounded_and_counted_until_their_job_starts(
    tight: Running,
) -> None:
    """Room that is kept for one user is nobody else's."""
    agent = PretendedAgent(tight.socket_path)
    hold_the_node(tight.local(), agent)
    ann, bob = tight.as_user("ann"), tight.as_user("bob")
    taken = [ann.post("/jobs", by(90)) for _ in range(2)]

    refused = ann.post("/jobs", by(90))
    others = bob.post("/jobs", by(90))
    wish = ann.post("/jobs", {**by(90), "promise": False})
    ann.post(f"/jobs/{taken[0].json['id']}/cancel")
    again = ann.post("/jobs", by(90))
    agent.close()

    allowed = "user ann may have 2 promises open (limits.promises) and has 2"
    assert [one.status for one in taken] == [201, 201]
    assert (refused.status, refused.json["field"]) == (409, "promise")
    assert refused.json["detail"] == f"promise: 1 more is not allowed; {allowed}"
    assert (others.status, wish.status, again.status) == (201, 201, 201)


def test_long_commands_count_among_the_bytes_of_a_day(socket_folder: Path) -> None:
    """They stay in memory for as long as their job waits."""
    words = ["echo", *("x" * 60 for _ in range(7000))]
    with running(socket_folder, limits=UserLimits(blobs_per_day="1m")) as server:
        ann = server.as_user("ann")

        answers = [ann.post("/jobs", {"command": words, "hold": True}) for _ in range(3)]
        usual = ann.post("/jobs", {"command": ["echo", "x"], "hold": True})

    assert [one.status for one in answers] == [201, 201, 429]
    assert "limits.blobs_per_day" in answers[2].json["detail"]
    assert usual.status == 201


def test_a_command_has_no_more_words_than_the_kernel_would_take(tight: Running) -> None:
    refused = tight.as_user("ann").post("/jobs", {"command": ["x"] * 300_000, "hold": True})

    assert (refused.status, refused.json["field"]) == (400, "command")
    assert "at most 2097152" in refused.json["detail"]


def test_tokens_of_one_user_are_bounded_and_ended_ones_make_way(
    socket_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "TOKENS_MAX", 3)
    with running(socket_folder) as server:
        ann = server.as_user("ann")
        made = [ann.post("/tokens", {"note": "n"}) for _ in range(2)]

        refused = ann.post("/tokens", {"note": "n"})
        ann.delete(f"/tokens/{made[0].json['id']}")
        again = ann.post("/tokens", {"note": "n"})

    assert [one.status for one in made] == [201, 201]
    assert (refused.status, refused.json["field"]) == (409, "token")
    assert "user ann may have 3 tokens and has 3" in refused.json["detail"]
    assert again.status == 201
