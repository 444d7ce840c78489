"""``rota replay``: exit codes and words, over databases that a controller wrote."""

import json
import sqlite3

import msgspec

from rota.store.open import open_store
from rota.store.rows import decode_event, encode
from tests.sim.clocked import Clocked


def a_log(folder):
    """Two jobs one after the other on a box with four CPUs."""
    store = open_store(str(folder / "rota.db"))
    scene = Clocked(store, cpus=4)
    scene.submit("first", cpus=3)
    scene.submit("second", cpus=3)
    scene.run_for("first", 60)
    store.close()


def tell_another_story(folder):
    """The last start is made to be on fewer CPUs than the job asked for."""
    with sqlite3.connect(folder / "rota.db") as database:
        seq, body = database.execute(
            "SELECT seq, body FROM events WHERE kind = 'attempt-placed' ORDER BY seq DESC"
        ).fetchone()
        event = decode_event(body)
        allocation = msgspec.structs.replace(event.allocation, cpu_milli=2000, cpus=(0, 1))
        event = msgspec.structs.replace(event, allocation=allocation)
        database.execute("UPDATE events SET body = ? WHERE seq = ?", (encode(event), seq))
    database.close()


def test_a_log_that_follows_from_the_rules_ends_with_zero(tmp_path, rota):
    a_log(tmp_path)

    said = rota("replay", str(tmp_path))

    first, last = said.out.splitlines()
    assert (said.code, said.err) == (0, "")
    assert first == "9 events in 1m, written by 1 start of the controller"
    assert last == "2 decisions in 6 passes, all the same"


def test_a_log_that_does_not_ends_with_one_and_shows_the_first_difference(tmp_path, rota):
    a_log(tmp_path)
    tell_another_story(tmp_path)

    said = rota("replay", str(tmp_path))
    told = json.loads(rota("replay", str(tmp_path), "--json").out)

    lines = said.out.splitlines()
    assert said.code == 1
    assert lines[1] == "1 decision in 5 passes the same, then one that differs:"
    assert lines[2] == "  job 2 at 1970-01-01T00:17:40.007Z, in the tick of event 6"
    assert '"cpu_milli": 2000' in lines[3]
    assert '"cpu_milli": 3000' in lines[4]
    assert told["difference"]["recorded"]["job"] == 2


def test_this_installations_log_is_the_default_and_an_absent_one_is_refused(
    tmp_path, rota, monkeypatch
):
    monkeypatch.setenv("ROTA_STATE_DIR", str(tmp_path))

    absent = rota("replay")
    a_log(tmp_path)
    present = rota("replay")

    assert (absent.code, present.code) == (2, 0)
    assert absent.err.startswith(f"rota: history: no rota.db in {tmp_path}")
