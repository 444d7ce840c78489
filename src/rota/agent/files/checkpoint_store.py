"""The copy of saved work in a store that all nodes reach: any file system that fsspec knows.

A copy is complete or not there: files are written under the number of the try, and the manifest
that names them comes last. What it replaces is removed after that.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from rota.agent.files.checkpoints import MARK, walk, weight

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.rpc.messages import Saved

MANIFEST = "manifest.json"
PIECE_BYTES = 8 << 20


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
    files, size, _ = weight(saved.folder)
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
    entries: dict[str, dict[str, Any]] = {}
    total = 0
    system.makedirs(path, exist_ok=True)
    for name, fd, status in walk(saved.folder):
        digest = _digest(fd)
        total += status.st_size
        if saved.most_bytes and total > saved.most_bytes:
            raise StoreRefused(f"checkpoint folder {saved.folder}: it grew beyond its bound")
        if digest not in there:
            _copy_in(fd, system, f"{path}/{digest}")
            there.add(digest)
        entries[name] = {"sha256": digest, "size": status.st_size, "mode": status.st_mode & 0o777}
    text = json.dumps(entries, sort_keys=True)
    return {"copy": hashlib.sha256(text.encode()).hexdigest(), "files": entries}


def _digest(fd: int) -> str:
    digest = hashlib.sha256()
    with open(fd, "rb", closefd=False) as file:
        while piece := file.read(PIECE_BYTES):
            digest.update(piece)
    return digest.hexdigest()


def _copy_in(fd: int, system: Any, target: str) -> None:  # noqa: ANN401
    os.lseek(fd, 0, os.SEEK_SET)
    with open(fd, "rb", closefd=False) as source, system.open(target, "wb") as file:
        while piece := source.read(PIECE_BYTES):
            file.write(piece)


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
    """Into a folder of our own first; the job's folder is replaced when all of it is there."""
    fresh = saved.folder + ".new"
    with suppress(FileNotFoundError):
        shutil.rmtree(fresh)
    os.makedirs(fresh, 0o700)
    for name, entry in manifest["files"].items():
        target = os.path.normpath(os.path.join(fresh, name))
        if not target.startswith(fresh + "/"):
            raise StoreRefused(f"checkpoint store {saved.store}: it names {name!r}")
        os.makedirs(os.path.dirname(target), 0o700, exist_ok=True)
        with system.open(f"{path}/{entry['sha256']}", "rb") as source, open(target, "wb") as file:
            shutil.copyfileobj(source, file, PIECE_BYTES)
        os.chmod(target, entry["mode"])
    if owner is not None:
        for here, _, names in os.walk(fresh):
            for found in (here, *(os.path.join(here, name) for name in names)):
                os.chown(found, *owner, follow_symlinks=False)
    with suppress(FileNotFoundError):
        shutil.rmtree(saved.folder)
    os.rename(fresh, saved.folder)


def drop_copy(store: str) -> None:
    """Remove a job's copy from the store."""
    with _asking(store):
        system, path = open_store(store)
        if system.exists(path):
            system.rm(path, recursive=True)


def _marked(saved: Saved) -> str:
    """Which copy the folder holds; empty: none, or the folder is not what it was."""
    try:
        if not os.listdir(saved.folder):
            return ""
        with open(saved.folder + MARK, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def _mark(saved: Saved, copy: str) -> None:
    with open(saved.folder + MARK, "w", encoding="ascii") as file:
        file.write(copy + "\n")
