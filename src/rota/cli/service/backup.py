"""``rota backup`` and ``rota restore``: the database, the keys and the settings in one file."""

from __future__ import annotations

import contextlib
import io
import json
import os
import tarfile
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rota import __version__, config, paths
from rota.cli.service.state_folder import StateFolder, read_json
from rota.cli.shared.session import warn
from rota.core.facts.errors import Rejected

if TYPE_CHECKING:
    from collections.abc import Iterator

FORM = 1
DATABASE, MANIFEST, SETTINGS, SECRETS = "rota.db", "manifest.json", "rota.toml", "secrets.key"
#: Keys of a controller, in its state folder: without them old tokens of jobs and the certificate
#: that agents know would be gone.
KEYS = ("tls.crt", "tls.key", "job-tokens.key")
state_dir_option = click.option(
    "--state-dir", metavar="DIR", default="", help="Of which Rota.  [default: as for 'rota up']"
)
database_option = click.option(
    "--database", metavar="URL", default="", help="Its database.  [default: as the settings say]"
)


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@state_dir_option
@database_option
def backup(file: Path, state_dir: str, database: str) -> None:
    """Write jobs, history, users, tokens, keys and settings into FILE, which must be new.

    Rota may run meanwhile: the copy is of one moment. What jobs printed and saved is on the nodes,
    and not in it. Only its owner may read FILE: it has every environment and key.
    """
    folder = state_folder(state_dir)
    settings = config.load(os.environ)
    url = database or settings.server.database or own_database(folder)
    made = _new_file(file)
    try:
        with tempfile.TemporaryDirectory(
            dir=file.absolute().parent, prefix=".rota-backup-"
        ) as work:
            size = _write(made, Path(work), url, folder, settings)
    except BaseException:
        made.unlink(missing_ok=True)
        raise
    click.echo(f"wrote {file} ({size >> 10} KiB), from {without_password(url)}")


def state_folder(state_dir: str) -> Path:
    if state_dir:
        os.environ["ROTA_STATE_DIR"] = str(Path(state_dir).absolute())
    return paths.state_dir(os.environ)


def own_database(folder: Path) -> str:
    """That of the Rota that runs here, else the usual file."""
    named = str(read_json(folder / "controller.json").get("database") or "")
    return named if named.startswith("/") else str(folder / DATABASE)


def without_password(url: str) -> str:
    scheme, mark, rest = url.rpartition("@")
    return f"{scheme.partition('://')[0]}://{rest}" if mark else url


def _new_file(file: Path) -> Path:
    try:
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        raise Rejected(f"{file} is there already; give a new name") from None
    return file


def _write(made: Path, work: Path, url: str, folder: Path, settings: config.Config) -> int:
    """The archive; its size in bytes."""
    from rota.store.copying import take
    from rota.store.migrations import HEAD

    take(url, work / DATABASE)
    used = next((path for path in paths.config_files(os.environ) if path.is_file()), None)
    secrets = os.path.expanduser(settings.server.secrets_key_file)
    manifest: dict[str, Any] = {
        "form": FORM,
        "rota": __version__,
        "schema": HEAD,
        "made_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "database": without_password(url),
        SETTINGS: str(used or ""),
        SECRETS: secrets,
    }
    with tarfile.open(made, "w:gz") as archive:
        body = json.dumps(manifest, indent=2).encode()
        entry = tarfile.TarInfo(MANIFEST)
        entry.size, entry.mode = len(body), 0o600
        archive.addfile(entry, io.BytesIO(body))
        for name in KEYS:
            if (folder / name).exists():
                archive.add(folder / name, name)
        for path, name in ((used, SETTINGS), (secrets, SECRETS)):
            if path:
                archive.add(path, name)
        archive.add(work / DATABASE, DATABASE)
    with made.open("rb") as file:
        os.fsync(file.fileno())
    return made.stat().st_size


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@state_dir_option
@database_option
def restore(file: Path, state_dir: str, database: str) -> None:
    """Put a backup into an empty state folder and an empty database; then start Rota.

    The database may be of the other kind: a backup of SQLite goes into PostgreSQL, and back.
    Settings that are there already stay. A Rota that runs, and state that is there, are refused.
    """
    folder = state_folder(state_dir)
    with _opened(file) as archive:
        manifest = _manifest(archive, file)
        _refuse_occupied(folder)
        folder.mkdir(mode=0o711 if os.geteuid() == 0 else 0o700, parents=True, exist_ok=True)
        said = [_settle(archive, SETTINGS, manifest, folder)]
        settings = config.load(os.environ)
        url = database or settings.server.database
        _put_database(archive, folder, url)
        for name in KEYS:
            _extract(archive, name, folder / name)
        said.append(_settle(archive, SECRETS, manifest, folder))
    for line in filter(None, said):
        click.echo(line)
    click.echo(f"restored {manifest['made_at']} into {without_password(url) or folder / DATABASE}")
    warn(
        "agents know a later state of it: start Rota, and each agent, once with --accept-database; "
        "jobs that this state does not know are ended"
    )


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(file, "r:gz") as archive:
            yield archive
    except (tarfile.TarError, EOFError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise Rejected(f"{file} is not a whole backup of Rota: {error}") from None


def _manifest(archive: tarfile.TarFile, file: Path) -> dict[str, Any]:
    from rota.store.migrations import HEAD

    try:
        found = json.loads(_read(archive, MANIFEST))
        newer = int(found["schema"]) > int(HEAD) or found["form"] > FORM
    except (KeyError, ValueError, TypeError):
        raise Rejected(f"{file} is not a backup of Rota") from None
    if newer:
        raise Rejected(
            f"{file} was made by a newer Rota ({found.get('rota')}, this is {__version__}): "
            "install that version or newer"
        )
    return dict(found)


def _read(archive: tarfile.TarFile, name: str) -> bytes:
    member = archive.extractfile(name)
    if member is None:
        raise KeyError(name)
    return member.read()


def _refuse_occupied(folder: Path) -> None:
    place = StateFolder(folder)
    for what, pid in (
        ("Rota", place.supervisor.holder() or place.controller.holder()),
        ("an agent", place.agent_pid()),
    ):
        if pid:
            raise Rejected(f"{what} works in {folder} (pid {pid}); stop it with 'rota down'")
    for name in (DATABASE, *KEYS):
        if (folder / name).exists():
            raise Rejected(f"{folder} is not empty: {folder / name} is there; move it away first")


def _settle(archive: tarfile.TarFile, name: str, manifest: dict[str, Any], folder: Path) -> str:
    """Settings and the keys of secrets go where they were, unless a file is there."""
    if name not in archive.getnames():
        return ""
    was = Path(str(manifest[name]))
    if was.exists():
        same = was.read_bytes() == _read(archive, name)
        beside = folder / f"restored-{name}"
        if same:
            return ""
        _extract(archive, name, beside)
        return f"kept {was}; that of the backup is {beside}"
    was.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _extract(archive, name, was)
    return f"wrote {was}"


def _put_database(archive: tarfile.TarFile, folder: Path, url: str) -> None:
    """First as a file of SQLite, which is brought up to date; from there to where it belongs."""
    from rota.store.copying import make_current, put
    from rota.store.open import POSTGRES

    draft = folder / f"{DATABASE}.restored"
    draft.unlink(missing_ok=True)
    try:
        _extract(archive, DATABASE, draft)
        make_current(draft)
        scheme, mark, rest = url.partition("://")
        if scheme in POSTGRES:
            put(draft, url)
            return
        target = Path(rest.removeprefix("/") if mark else url) if url else folder / DATABASE
        if target.exists():
            raise Rejected(f"{target} is there already; restore into a new database")
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def _extract(archive: tarfile.TarFile, name: str, target: Path) -> None:
    """A file for its owner alone; a name that the backup has not is left out."""
    if name not in archive.getnames():
        return
    member = archive.extractfile(name)
    if member is None:
        raise Rejected(f"{name} is no file in this backup")
    with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        while piece := member.read(1 << 20):
            out.write(piece)
