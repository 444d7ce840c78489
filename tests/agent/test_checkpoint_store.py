"""Copies of saved work in a store: whole or not there, never larger than allowed."""

import json
from pathlib import Path

import fsspec
import pytest

from rota.agent.files.checkpoint_store import StoreFailed, drop_copy, pull, push
from rota.rpc.messages import Saved


@pytest.fixture(params=["file", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "memory":
        return f"memory://{tmp_path.name}/7-abc"
    return f"file://{tmp_path}/store/7-abc"


def saved(tmp_path: Path, node: str, store: str, **fields: int) -> Saved:
    """The work of job 7 on a node of its own."""
    (tmp_path / node).mkdir(exist_ok=True)
    return Saved(str(tmp_path / node / "7-abc"), store, **fields)


def write(work: Saved, **files: str) -> None:
    folder = Path(work.folder)
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)


def test_work_that_one_node_saved_is_there_on_another(tmp_path: Path, store: str):
    here, there = saved(tmp_path, "a", store), saved(tmp_path, "b", store)
    write(here, model="weights", log="one")
    Path(here.folder, "deep").mkdir()
    Path(here.folder, "deep", "x").write_text("y")

    pushed = push(here)
    pulled = pull(there, None)

    assert (pushed, pulled) == (3, 3)
    assert Path(there.folder, "model").read_text() == "weights"
    assert Path(there.folder, "deep", "x").read_text() == "y"


def test_a_node_that_comes_back_gets_what_was_saved_since(tmp_path: Path, store: str):
    first, second = saved(tmp_path, "a", store), saved(tmp_path, "b", store)
    write(first, model="step 1", scratch="only here")
    push(first)
    pull(second, None)
    write(second, model="step 2")
    Path(second.folder, "scratch").unlink()
    push(second)

    came = pull(first, None)

    assert came == 1
    assert {file.name: file.read_text() for file in Path(first.folder).iterdir()} == {
        "model": "step 2"
    }


def test_what_the_folder_holds_already_is_not_fetched_again(tmp_path: Path, store: str):
    here = saved(tmp_path, "a", store)
    write(here, model="weights")
    push(here)
    write(here, model="newer than the store")

    assert pull(here, None) == 0
    assert Path(here.folder, "model").read_text() == "newer than the store"


def test_a_folder_that_was_lost_is_fetched_again(tmp_path: Path, store: str):
    here = saved(tmp_path, "a", store)
    write(here, model="weights")
    push(here)
    Path(here.folder, "model").unlink()

    assert pull(here, None) == 1
    assert Path(here.folder, "model").read_text() == "weights"


def test_only_what_changed_is_copied_and_what_is_gone_leaves_the_store(tmp_path: Path, store: str):
    here = saved(tmp_path, "a", store)
    write(here, big="the same", small="1")
    push(here)
    write(here, small="2")

    again = push(here)
    unchanged = push(here)

    system, path = fsspec.core.url_to_fs(store)
    names = [name.rpartition("/")[2] for name in system.ls(path, detail=False)]
    assert (again, unchanged) == (2, 0)
    assert len(names) == 3, "two files and the manifest"


def test_too_much_is_refused_before_anything_of_it_is_written(tmp_path: Path, store: str):
    here = saved(tmp_path, "a", store, most_bytes=10)
    write(here, model="12345")
    push(here)
    write(here, model="12345", more="1234567")

    with pytest.raises(StoreFailed, match="it has 12 bytes, at most 10"):
        push(here)

    there = saved(tmp_path, "b", store)
    pull(there, None)
    assert [file.name for file in Path(there.folder).iterdir()] == ["model"], "the one before"
    system, path = fsspec.core.url_to_fs(store)
    assert len(system.ls(path, detail=False)) == 2


def test_an_empty_folder_and_an_empty_store_are_no_trouble(tmp_path: Path, store: str):
    here = saved(tmp_path, "a", store)

    assert push(here) == 0
    assert pull(here, None) == 0
    drop_copy(store)


def test_a_copy_can_be_dropped(tmp_path: Path, store: str):
    here = saved(tmp_path, "a", store)
    write(here, model="weights")
    push(here)

    drop_copy(store)

    assert pull(saved(tmp_path, "b", store), None) == 0


def test_a_manifest_that_leads_out_of_the_folder_is_refused(tmp_path: Path):
    store = f"file://{tmp_path}/store/7-abc"
    here = saved(tmp_path, "a", store)
    write(here, model="weights")
    push(here)
    manifest = tmp_path / "store" / "7-abc" / "manifest.json"
    body = json.loads(manifest.read_text())
    body["files"]["../../escaped"] = body["files"].pop("model")
    manifest.write_text(json.dumps(body))

    with pytest.raises(StoreFailed, match="escaped"):
        pull(saved(tmp_path, "b", store), None)

    assert not (tmp_path / "escaped").exists()


def test_a_store_that_nobody_knows_is_named(tmp_path: Path):
    here = saved(tmp_path, "a", "gopher://host/7-abc")
    write(here, model="weights")

    with pytest.raises(StoreFailed, match=r"gopher://host/7-abc.*gopher"):
        push(here)
