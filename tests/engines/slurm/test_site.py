"""Rota's controller, its host and a real Slurm together: pools, what waits inside, and gangs."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.engines.conftest import EngineSite
from tests.journeys.box import Box, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.engines.slurm.site import Site

POOL = "main.4c-8000m-2xh200.lab"
RANKS = "echo $RANK $WORLD_SIZE $NODE_RANK $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR"


class SlurmSite(EngineSite):
    """The engine ``lab`` is the real Slurm."""

    def __init__(self, box: Box, folder: Path, slurm: Site, **more: Any) -> None:
        super().__init__(box, folder)
        self.slurm = slurm
        values = {"kind": "slurm", "folder": str(slurm.folder), "poll_s": 0.2, "partition": "main"}
        lines = [f"{key} = {value!r}" for key, value in (values | more).items()]
        (folder / "rota.toml").write_text("[engines.lab]\n" + "\n".join(lines) + "\n")

    def nodes(self) -> list[dict[str, Any]]:
        return list(self.box.api("GET", "/nodes")[1]["items"])

    def is_up(self) -> bool:
        states = [node["state"] for node in self.nodes()]
        return bool(states) and set(states) == {"up"}

    def pool(self) -> dict[str, Any]:
        (found,) = [node for node in self.nodes() if node["name"] == POOL]
        return found

    def printed(self, job: int, task: int, stream: str = "stdout") -> str:
        return str(self.box.api("GET", f"/jobs/{job}/logs?task={task}&stream={stream}")[1])

    def listed(self, *options: str) -> list[str]:
        """The numbers of Slurm's own jobs that live."""
        return self.slurm.run("squeue", "-h", "-o", "%A", *options).split()


@contextmanager
def serving(slurm: Site, tmp_path: Path, **more: Any) -> Iterator[SlurmSite]:
    folder = tmp_path / "engine"
    folder.mkdir()
    made = SlurmSite(Box(tmp_path / "box"), folder, slurm, **more)
    made.box.up("--no-agent")
    try:
        made.begin()
        yield made
    finally:
        made.stop()
        made.box.down("--stop-jobs")
        slurm.run("scancel", "-u", "root")
        until(lambda: not made.listed(), "Slurm to be empty")


@pytest.fixture
def theirs(slurm: Site, tmp_path: Path) -> Iterator[SlurmSite]:
    with serving(slurm, tmp_path, placement="theirs", give_back_s=8.0, inside_max=1) as made:
        until(lambda: made.pool()["total"]["cpus"] == 12, "all nodes in service")
        yield made


def test_a_job_in_a_pool_runs_where_slurm_chose_and_says_where(theirs: SlurmSite):
    job = theirs.box.ran(["/bin/sh", "-c", "echo $CUDA_VISIBLE_DEVICES"], resources={"gpus": 1})

    attempt = job["attempts"][0]
    assert (job["state"], attempt["node"]) == ("completed", POOL), job["attempts"]
    assert attempt["engine_node"] in ("n1", "n2", "n3")
    assert theirs.box.output(job["id"]) in ("0\n", "1\n")
    shown = theirs.box.rota("show", str(job["id"])).stdout
    assert attempt["engine_node"] in shown


def test_what_others_use_in_slurm_is_not_given_out_and_jobs_wait_in_our_own_queue(
    theirs: SlurmSite,
):
    others = theirs.slurm.run(
        *("sbatch", "--parsable", "-p", "main", "-N3", "-n3", "--cpus-per-task=3", "--gres=gpu:1"),
        *("--chdir=/", "-o", "/dev/null", "--wrap", "srun sleep 600"),
    )
    until(lambda: theirs.pool()["total"]["cpus"] == 3, "the use of others")
    assert theirs.pool()["total"]["gpus"] == 3

    jobs = [theirs.box.job(["/bin/sleep", "600"]) for _ in range(4)]

    for job in jobs[:3]:
        theirs.box.reach(job, "running")
    assert theirs.box.api("GET", f"/jobs/{jobs[3]}")[1]["state"] == "queued"
    assert theirs.listed("-t", "PD") == []

    theirs.slurm.run("scancel", others)

    theirs.box.reach(jobs[3], "running")


def test_few_wait_inside_and_come_back_with_the_reason_of_slurm(theirs: SlurmSite):
    theirs.slurm.run("scontrol", "update", "PartitionName=main", "State=DOWN")
    try:
        jobs = [theirs.box.job(["/bin/true"]) for _ in range(6)]
        until(
            lambda: any("waiting inside lab" in theirs.box.why(job) for job in jobs), "one inside"
        )
        (first,) = [job for job in jobs if "waiting inside lab" in theirs.box.why(job)][:1]
        assert "PartitionDown" in theirs.box.why(first)
        until(lambda: len(theirs.listed("-t", "PD")) <= 1, "the others to be taken out")
        until(lambda: "closed to such tasks" in theirs.box.why(first), "the pool to be closed")
        assert theirs.pool()["drained"] is False
    finally:
        theirs.slurm.run("scontrol", "update", "PartitionName=main", "State=UP")
    other = theirs.box.ran(["/bin/true"], resources={"cpus": 2})

    assert other["state"] == "completed"
    (states,) = {theirs.box.api("GET", f"/jobs/{job}")[1]["state"] for job in jobs}
    assert states == "queued"


def test_a_gang_in_a_pool_is_one_job_of_slurm_that_ends_as_a_whole(theirs: SlurmSite):
    text = f"{RANKS}; echo $ROTA_ATTEMPT_UID >&2; /bin/sleep 1"
    job = theirs.box.job(["/bin/sh", "-c", text], resources={"cpus": 2}, tasks=3)
    until(lambda: theirs.listed("-t", "R"), "it to run")
    assert len(theirs.listed()) == 1

    shown = theirs.box.ended(job)

    members = [theirs.printed(job, rank).split() for rank in range(3)]
    assert shown["state"] == "completed"
    assert [member[:2] for member in members] == [["0", "3"], ["1", "3"], ["2", "3"]]
    # Two fit on a machine of four CPUs.
    assert [member[2:5] for member in members] == [
        ["0", "0", "2"],
        ["0", "1", "2"],
        ["1", "0", "1"],
    ]
    assert len({member[5] for member in members}) == 1
    where = [attempt["engine_node"] for attempt in shown["attempts"]]
    assert where[0] == where[1] != where[2]
    uids = {theirs.printed(job, rank, "stderr").strip() for rank in range(3)}
    assert uids == {attempt["uid"] for attempt in shown["attempts"]}
    assert {attempt["external_id"] for attempt in shown["attempts"]} == {
        shown["attempts"][0]["external_id"]
    }


def test_a_gang_fails_and_is_cancelled_as_a_whole(theirs: SlurmSite):
    fails = theirs.box.ran(["/bin/sh", "-c", "[ $RANK = 1 ] && exit 3; /bin/sleep 600"], tasks=2)
    job = theirs.box.job(["/bin/sleep", "600"], tasks=2)
    theirs.box.reach(job, "running")

    theirs.box.rota("cancel", str(job))

    assert fails["state"] == "failed"
    assert theirs.box.ended(job)["state"] == "cancelled"
    until(lambda: not theirs.listed(), "Slurm to be empty")


def test_a_host_that_is_killed_finds_its_gang_again(theirs: SlurmSite):
    job = theirs.box.job(["/bin/sh", "-c", "/bin/sleep 4; echo whole"], tasks=2)
    theirs.box.reach(job, "running")

    theirs.kill()
    theirs.begin()

    shown = theirs.box.ended(job)
    assert (shown["state"], len(shown["attempts"])) == ("completed", 2)
    assert [theirs.printed(job, rank) for rank in (0, 1)] == ["whole\n", "whole\n"]


def test_a_gang_that_slurm_cannot_start_comes_back_as_a_whole(theirs: SlurmSite):
    theirs.slurm.run("scontrol", "update", "PartitionName=main", "State=DOWN")
    try:
        job = theirs.box.job(["/bin/true"], tasks=3)
        until(lambda: "waiting inside lab" in theirs.box.why(job), "it to wait inside")
        until(lambda: "closed to such tasks" in theirs.box.why(job), "it to come back")
        until(lambda: not theirs.listed(), "Slurm to be empty")
    finally:
        theirs.slurm.run("scontrol", "update", "PartitionName=main", "State=UP")

    shown = theirs.box.api("GET", f"/jobs/{job}")[1]
    assert (shown["state"], {a["cause_code"] for a in shown["attempts"]}) == (
        "queued",
        {"start_failed"},
    )


@pytest.mark.parametrize("feature", ["", "node-{node}"])
def test_a_gang_runs_on_the_nodes_that_were_chosen_for_it(
    slurm: Site, tmp_path: Path, way: str, feature: str
):
    more: dict[str, Any] = {"node_feature": feature} if feature else {}
    if way == "rest":
        url = slurm.variables["SLURM_REST_URL"]
        more |= {"rest_url": url, "token_file": str(slurm.state / "tokens/root")}
    with serving(slurm, tmp_path, **more) as ours:
        until(lambda: len(ours.nodes()) == 3, "the nodes")
        job = ours.box.ran(["/bin/sh", "-c", RANKS], resources={"cpus": 2}, tasks=3)

        members = [ours.printed(job["id"], rank).split() for rank in range(3)]

    assert job["state"] == "completed"
    assert [member[:2] for member in members] == [["0", "3"], ["1", "3"], ["2", "3"]]
    placed = {attempt["node"].removesuffix(".lab") for attempt in job["attempts"]}
    # How many of them are on each is for Slurm to say.
    assert {attempt["engine_node"] for attempt in job["attempts"]} == placed


def test_a_job_says_how_far_it_is_and_that_is_kept_behind_its_end(slurm: Site, tmp_path: Path):
    said = '{"fraction": 0.25, "loss": 2, "message": "half of half", "at_s": \'$(date +%s)\'}'
    words = f"echo '{said}' >>$ROTA_PROGRESS_FILE; sleep 600"
    with serving(slurm, tmp_path) as site:
        job = site.box.job(["/bin/sh", "-c", words])
        shown = lambda: site.box.api("GET", f"/jobs/progress?ids={job}")[1]["items"]  # noqa: E731
        until(shown, "its report")
        (running,) = shown()
        site.box.rota("cancel", str(job))
        site.box.ended(job)

        kept = site.box.api("GET", f"/jobs/{job}/progress")[1]

    assert (running["fraction"], running["message"]) == (0.25, "half of half")
    assert (kept["fraction"], kept["figures"]) == ([0.25], {"loss": [2.0]})
