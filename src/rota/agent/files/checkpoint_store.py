"""The copy of saved work in a store that all nodes reach: any file system that fsspec knows.

A copy is complete or not there: files are written under their digest, and the manifest that names
them comes last. What it replaces is removed after that. The store is ours, with our credentials;
the folder is the user's: a child that has become that user reads and writes the files in it, and
their bytes come and go through a pipe. All of it is for threads.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rota.agent.files.checkpoints import MARK, check_root, remove_folder, weight
from rota.as_user.children import ErrandFailed, NotInTime, once
from rota.as_user.owners import owner_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.as_user.children import Child
    from rota.rpc.messages import Saved

MANIFEST = "manifest.json"
PIECE_BYTES = 1 << 20
#: A piece of a file is there within this time, and the digest of a whole one within that.
PIECE_S, DIGEST_S = 60.0, 3600.0


class StoreFailed(Exception):
    """The store cannot be used now; the text says why."""


class StoreRefused(StoreFailed):
    """To try again would not help."""


def open_store(url: str) -> tuple[Any, str]:
    """The file system behind a URL, and the path there."""
    try:
        import fsspec
    except ImportError:
        raise StoreRefused(
            f"checkpoint store {url}: it needs fsspec here: pip install 'rota[s3]'"
        ) from None
    try:
        system, path = fsspec.core.url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise StoreRefused(f"checkpoint store {url}: {error}") from None
    # Other nodes write there, too: what was listed before may be gone.
    system.invalidate_cache()
    return system, path.rstrip("/")


@contextmanager
def _asking(store: str) -> Iterator[None]:
    """Every kind of store has errors of its own; all of them mean: not now."""
    try:
        yield
    except StoreFailed:
        raise
    except Exception as error:
        what = str(error).strip() or type(error).__name__
        raise StoreFailed(f"checkpoint store {store}: {what}") from None


def push(saved: Saved) -> int:
    """Copy the folder into the store, unless it is too large. How many files went."""
    try:
        files, size, _ = weight(saved.folder)
    except ErrandFailed as error:
        raise _folder_trouble(saved, error) from None
    if not files:
        return 0
    if saved.most_bytes and size > saved.most_bytes:
        raise StoreRefused(
            f"checkpoint folder {saved.folder}: it has {size} bytes, at most {saved.most_bytes} "
            "are copied to the store"
        )
    with _asking(saved.store):
        system, path = open_store(saved.store)
        before = _manifest(system, path)
        manifest = _push_files(saved, system, path, before)
        if manifest["files"] == before.get("files"):
            _mark(saved, before["copy"])
            return 0
        with system.open(f"{path}/{MANIFEST}", "wb") as file:
            file.write(json.dumps(manifest).encode())
        _mark(saved, manifest["copy"])
        _remove_others(system, path, manifest)
    return len(manifest["files"])


def _push_files(saved: Saved, system: Any, path: str, before: dict[str, Any]) -> dict[str, Any]:  # noqa: ANN401
    """Files by their digest: what an earlier try has copied already is not copied again."""
    there = {entry["sha256"] for entry in before.get("files", {}).values()}
    system.makedirs(path, exist_ok=True)

    def work(child: Child) -> dict[str, dict[str, Any]]:
        entries = _digests(child, saved)
        child.order("send", PIECE_S, folder=saved.folder)
        for name, entry in entries.items():
            if entry["sha256"] not in there:
                _copy_in(child, name, system, path, entry["sha256"])
                there.add(entry["sha256"])
        return entries

    try:
        entries = once(owner_of(saved.folder), work)
    except ErrandFailed as error:
        raise _folder_trouble(saved, error) from None
    text = json.dumps(entries, sort_keys=True)
    return {"copy": hashlib.sha256(text.encode()).hexdigest(), "files": entries}


def _digests(child: Child, saved: Saved) -> dict[str, dict[str, Any]]:
    """What is in the folder: the child tells one file after the other."""
    child.order("digest", PIECE_S, folder=saved.folder, most_bytes=saved.most_bytes)
    entries: dict[str, dict[str, Any]] = {}
    while "name" in (told := json.loads(child.take(DIGEST_S))):
        entries[told["name"]] = told["entry"]
    child.take(PIECE_S)
    if "error" in told:
        raise ErrandFailed(told["error"])
    return entries


def _copy_in(child: Child, name: str, system: Any, path: str, digest: str) -> None:  # noqa: ANN401
    """One file; one that has changed since its digest was taken makes no copy."""
    found = hashlib.sha256()
    child.give(name.encode("utf-8", "surrogateescape"), PIECE_S)
    with system.open(f"{path}/{digest}", "wb") as file:
        while piece := child.take(PIECE_S):
            found.update(piece)
            file.write(piece)
    if found.hexdigest() != digest:
        system.rm(f"{path}/{digest}")
        raise StoreFailed(f"checkpoint folder: {name!r} changed while it was copied")


def _manifest(system: Any, path: str) -> dict[str, Any]:  # noqa: ANN401
    """What the store holds; empty: nothing."""
    try:
        with system.open(f"{path}/{MANIFEST}", "rb") as file:
            found: dict[str, Any] = json.loads(file.read())
    except (FileNotFoundError, ValueError):
        return {}
    return found


def _remove_others(system: Any, path: str, manifest: dict[str, Any]) -> None:  # noqa: ANN401
    kept = {entry["sha256"] for entry in manifest["files"].values()} | {MANIFEST}
    for found in system.ls(path, detail=False):
        if found.rstrip("/").rpartition("/")[2] not in kept:
            system.rm(found)


def pull(saved: Saved, owner: tuple[int, int] | None) -> int:
    """Bring the folder up to the copy in the store. How many files came.

    What a try on another node has saved since is newer than what lies here.
    """
    check_root(os.path.dirname(saved.folder))
    with _asking(saved.store):
        system, path = open_store(saved.store)
        manifest = _manifest(system, path)
        if not manifest or manifest["copy"] == _marked(saved):
            return 0
        _pull_files(saved, system, path, manifest, owner)
    _mark(saved, manifest["copy"])
    return len(manifest["files"])


def _pull_files(
    saved: Saved,
    system: Any,  # noqa: ANN401
    path: str,
    manifest: dict[str, Any],
    owner: tuple[int, int] | None,
) -> None:
    """Into a folder beside it first; the job's folder is replaced when all of it is there."""
    fresh = saved.folder + ".new"

    def work(child: Child) -> None:
        child.order("take", PIECE_S, folder=fresh)
        for name, entry in manifest["files"].items():
            head = {"name": name, "mode": entry["mode"]}
            child.give(json.dumps(head).encode(), PIECE_S)
            with system.open(f"{path}/{entry['sha256']}", "rb") as source:
                while piece := source.read(PIECE_BYTES):
                    child.give(piece, PIECE_S)
            child.give(b"", PIECE_S)
        child.give(b"", PIECE_S)
        child.answer(PIECE_S)

    try:
        remove_folder(fresh)
        os.mkdir(fresh, 0o700)
        if owner is not None:
            os.chown(fresh, *owner, follow_symlinks=False)
        once(owner_of(fresh), work)
        remove_folder(saved.folder)
    except ErrandFailed as error:
        raise _folder_trouble(saved, error) from None
    os.rename(fresh, saved.folder)


def _folder_trouble(saved: Saved, error: ErrandFailed) -> StoreFailed:
    kind = StoreFailed if isinstance(error, NotInTime) else StoreRefused
    return kind(f"checkpoint folder {saved.folder}: {error}")


def drop_copy(store: str) -> None:
    """Remove a job's copy from the store."""
    with _asking(store):
        system, path = open_store(store)
        if system.exists(path):
            system.rm(path, recursive=True)


def _marked(saved: Saved) -> str:
    """Which copy the folder holds; empty: none, or the folder is not what it was."""
    try:
        if not weight(saved.folder)[0]:
            return ""
        with open(saved.folder + MARK, encoding="ascii") as file:
            return file.read().strip()
    except (OSError, ErrandFailed):
        return ""


def _mark(saved: Saved, copy: str) -> None:
    with open(saved.folder + MARK, "w", encoding="ascii") as file:
        file.write(copy + "\n")
