"""What an agent remembers of the controller's record, and what it says to an older one."""

import asyncio
import json
from pathlib import Path

import pytest

from rota.agent.record import FILE, ClusterRecord, forget
from rota.rpc.messages import Desired, Welcome


def remembered(folder: Path, cluster: str = "c1", seq: int = 40) -> ClusterRecord:
    """An agent that has heard of an event, stopped, and started again."""

    async def live() -> None:
        record = ClusterRecord(folder)
        assert record.hears(Welcome(1, cluster, seq=3, run=1)) == ""
        assert record.hears(Desired(1, 1, (), full=True, seq=seq)) == ""
        record.save()

    asyncio.run(live())
    return ClusterRecord(folder)


@pytest.mark.parametrize("seq", [40, 41, 0])
def test_a_controller_that_knows_as_much_or_does_not_say_is_obeyed(tmp_path: Path, seq: int):
    record = remembered(tmp_path)

    assert record.hears(Welcome(2, "c1", seq=seq, run=2)) == ""


def test_an_older_record_is_refused_in_one_line_that_says_what_to_do(tmp_path: Path):
    why = remembered(tmp_path).hears(Welcome(2, "c1", seq=39, run=2))

    assert "ends at event 39, and had come to event 40 before" in why
    assert "stop rota on this node and start it once with --accept-database" in why
    assert "\n" not in why


def test_another_cluster_is_refused_and_forgets_nothing(tmp_path: Path):
    why = remembered(tmp_path).hears(Welcome(2, "c2", seq=99, run=2))

    assert "of cluster c2, and this node belongs to cluster c1" in why
    assert json.loads((tmp_path / FILE).read_text()) == {"cluster": "c1", "run": 1, "seq": 40}


def test_what_was_forgotten_stands_in_nobodys_way(tmp_path: Path):
    remembered(tmp_path)

    forget(tmp_path)
    forget(tmp_path)

    assert ClusterRecord(tmp_path).hears(Welcome(2, "c2", seq=1)) == ""


def test_a_file_that_cannot_be_read_means_that_nothing_is_known(tmp_path: Path):
    remembered(tmp_path)
    (tmp_path / FILE).write_text("{")

    assert ClusterRecord(tmp_path).hears(Welcome(2, "c2", seq=1)) == ""
