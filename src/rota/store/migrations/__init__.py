"""From whatever is in a database to the schema that this code knows.

Alembic does the work, but only when there is work: a database that is up to date, and a fresh
one, are done without importing it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from rota.core.facts.errors import Rejected
from rota.store.rows import FORMAT
from rota.store.statements import set_meta

if TYPE_CHECKING:
    import sqlalchemy as sa

    from rota.store.driver import DatabaseDriver

#: The newest file below ``versions``.
HEAD = "009"
#: Where the scripts are that make the tables of a fresh database.
SCRIPTS = Path(__file__).parent.parent
#: The most tables of another program that are named.
NAMED = 3


def prepare(driver: DatabaseDriver) -> None:
    """Make the database ready for this code, or say in one line why it cannot be."""
    version = _version(driver)
    if version is None:
        _create(driver)
    else:
        _refuse_newer(driver, version)
        if version != HEAD:
            # A new reign, so that no other head takes this one, which is busy, for a silent leader.
            driver.lead()
            upgrade(driver.engine(reigns=True))


def _version(driver: DatabaseDriver) -> str | None:
    """The migrations that the database has seen; None for an empty one."""
    tables = driver.tables()
    if {"alembic_version", "meta"} <= tables:
        found = driver.read("SELECT version_num FROM alembic_version")
        if found:
            return str(found[0][0])
    if tables:
        raise _foreign(driver, tables)
    return None


def _foreign(driver: DatabaseDriver, tables: frozenset[str]) -> Rejected:
    """Rota makes its tables in an empty database only."""
    names = sorted(tables)
    listed = ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" * (len(names) > NAMED))
    return Rejected(
        f"{driver.name} belongs to another program: it has the tables {listed};"
        " give Rota a database of its own",
        field="database",
    )


def _refuse_newer(driver: DatabaseDriver, version: str) -> None:
    if not version.isdecimal():
        raise _foreign(driver, driver.tables())
    if int(version) > int(HEAD):
        raise Rejected(
            f"{driver.name} was written by a newer Rota (schema {version}, this one knows {HEAD}):"
            " install that version or newer",
            field="database",
        )
    found = driver.read("SELECT value FROM meta WHERE key = 'format'")
    if found and int(found[0][0]) > FORMAT:
        raise Rejected(
            f"{driver.name} was written by a newer Rota (rows {found[0][0]}, this one knows"
            f" {FORMAT}): install that version or newer",
            field="database",
        )


def mark(driver: DatabaseDriver) -> None:
    """From now on no Rota that knows less of what rows say opens it."""
    found = driver.read("SELECT value FROM meta WHERE key = 'format'")
    if not found or int(found[0][0]) < FORMAT:
        driver.write([set_meta("format", str(FORMAT))])


def _create(driver: DatabaseDriver) -> None:
    script = SCRIPTS / f"schema_{driver.dialect}.sql"
    tables = [(text, ()) for text in script.read_text().split(";\n") if text.strip()]
    driver.write(
        [
            *tables,
            ("INSERT INTO alembic_version (version_num) VALUES (?)", (HEAD,)),
            ("INSERT INTO meta (key, value) VALUES ('cluster_id', ?)", (uuid4().hex,)),
        ]
    )


def upgrade(engine: sa.Engine, to: str = "head") -> None:
    """Run the migrations that a database has not seen, in one transaction."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    try:
        with engine.begin() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, to)
    finally:
        engine.dispose()
