"""``rota archive``, and the commands that read what it wrote."""

import json

from rota.store.open import open_store
from tests.sim.clocked import Clocked


def a_week(folder):
    """Two jobs of one user one after the other, at the beginning of time."""
    store = open_store(str(folder / "rota.db"))
    scene = Clocked(store, cpus=4)
    scene.submit("first", cpus=3)
    scene.submit("second", cpus=3)
    scene.run_for("first", 60)
    scene.run_for("second", 30)
    store.close()


def test_an_archive_is_read_by_stats_sim_and_replay(tmp_path, rota):
    a_week(tmp_path)

    said = rota("archive", str(tmp_path / "old"), "--state-dir", str(tmp_path))
    fared = rota("stats", "--archive", str(tmp_path / "old"))
    told = json.loads(rota("stats", "--archive", str(tmp_path / "old"), "--json").out)
    played = rota("sim", "--history", str(tmp_path / "old"), "--policy", "fcfs", "--quiet")
    replayed = rota("replay", str(tmp_path / "old"))

    assert said.out.startswith("added 2 jobs, 0 arrays and ")
    assert fared.out.splitlines()[0] == f"jobs in {tmp_path / 'old'}:"
    assert (told["total"]["jobs"], told["items"][0]["user"]) == (2, "alice")
    assert [one["name"] for one in told["longest"]] == ["first", "second"]
    assert "2 jobs on 4 processors" in played.out
    assert replayed.code == 0
    assert replayed.out.splitlines()[-1].endswith("all the same")


def test_a_folder_that_is_no_archive_is_refused_in_one_line(tmp_path, rota):
    said = rota("stats", "--archive", str(tmp_path))

    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("rota: archive: no site.parquet in")
    assert said.err.count("\n") == 1
