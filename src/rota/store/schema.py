"""The tables, for SQLite and PostgreSQL: what migrations lead to and what fresh databases get.

Opening a database that is up to date imports neither this module nor SQLAlchemy: that would be
a third of the controller's start-up time. A fresh database is made from the two ``.sql`` files
beside this module, which ``python -m rota.store.schema`` writes; tests hold the files, this
module, the migrations and ``statements.py`` together.
"""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.schema import CreateIndex, CreateTable

metadata = sa.MetaData()

#: On SQLite only the exact type INTEGER makes a primary key the row id itself.
Id = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

jobs = sa.Table(
    "jobs",
    metadata,
    sa.Column("id", Id, primary_key=True, autoincrement=False),
    sa.Column("uid", sa.Text, nullable=False),
    sa.Column("user_id", sa.Text, nullable=False),
    sa.Column("job_name", sa.Text, nullable=False),
    sa.Column("project", sa.Text),
    sa.Column("queue", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("priority", sa.Integer, nullable=False),
    sa.Column("gpu_count", sa.BigInteger, nullable=False),
    sa.Column("gpu_type", sa.Text, nullable=False),
    sa.Column("cpu_cores", sa.Double, nullable=False),
    sa.Column("memory_gb", sa.Double, nullable=False),
    sa.Column("command", sa.Text, nullable=False),
    sa.Column("working_dir", sa.Text, nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("scheduled_at", sa.Double),
    sa.Column("started_at", sa.Double),
    sa.Column("completed_at", sa.Double),
    sa.Column("array_id", sa.BigInteger),
    sa.Column("submit_key", sa.Text),
    sa.Column("body", sa.LargeBinary, nullable=False),
)
sa.Index("jobs_uid", jobs.c.uid, unique=True)
sa.Index("jobs_state", jobs.c.state, jobs.c.id)
# State in the middle: "the running jobs of this user" seeks, and "all jobs of this user" merges
# one short range per state (see listing.py), so neither walks through a long history.
sa.Index("jobs_user", jobs.c.user_id, jobs.c.state, jobs.c.id)
sa.Index(
    "jobs_project",
    jobs.c.project,
    jobs.c.state,
    jobs.c.id,
    sqlite_where=jobs.c.project.is_not(None),
    postgresql_where=jobs.c.project.is_not(None),
)
sa.Index(
    "jobs_array",
    jobs.c.array_id,
    jobs.c.id,
    sqlite_where=jobs.c.array_id.is_not(None),
    postgresql_where=jobs.c.array_id.is_not(None),
)
# Ascending, as rows come: entries are added at its end, and its pages become full.
sa.Index("jobs_created", jobs.c.created_at)

arrays = sa.Table(
    "arrays",
    metadata,
    sa.Column("id", Id, primary_key=True, autoincrement=False),
    sa.Column("uid", sa.Text, nullable=False),
    sa.Column("user_id", sa.Text, nullable=False),
    #: The id of its last element: ids of elements are taken, with or without rows.
    sa.Column("last_id", sa.BigInteger, nullable=False),
    sa.Column("waiting", sa.Integer, nullable=False),
    sa.Column("cut_at", sa.Double),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("submit_key", sa.Text),
    sa.Column("body", sa.LargeBinary, nullable=False),
    #: The rows of a sweep: written once, because they can be long and never change.
    sa.Column("sweep", sa.LargeBinary),
)
sa.Index("arrays_uid", arrays.c.uid, unique=True)

events = sa.Table(
    "events",
    metadata,
    sa.Column("seq", Id, primary_key=True, autoincrement=False),
    sa.Column("at_s", sa.Double, nullable=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("job_id", sa.BigInteger),
    sa.Column("body", sa.LargeBinary, nullable=False),
    # See months.py; there each partition has the primary key of its own.
    postgresql_partition_by="RANGE (at_s)",
)
events.primary_key.ddl_if(dialect="sqlite")
sa.Index(
    "events_job",
    events.c.job_id,
    events.c.seq,
    sqlite_where=events.c.job_id.is_not(None),
    postgresql_where=events.c.job_id.is_not(None),
)
sa.Index(
    "events_kind",
    events.c.kind,
    events.c.seq,
    sqlite_where=events.c.job_id.is_(None),
    postgresql_where=events.c.job_id.is_(None),
)

#: On which pages of the log (the numbers of their rows) blocks of ids are mentioned: log/page.py.
mentions = sa.Table(
    "mentions",
    metadata,
    sa.Column("block", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sqlite_with_rowid=False,
)

audit = sa.Table(
    "audit",
    metadata,
    sa.Column("seq", Id, primary_key=True, autoincrement=True),
    sa.Column("at_s", sa.Double, nullable=False),
    sa.Column("user_id", sa.Text, nullable=False),
    sa.Column("via", sa.Text, nullable=False),
    sa.Column("address", sa.Text, nullable=False),
    sa.Column("action", sa.Text, nullable=False),
    sa.Column("object", sa.Text, nullable=False),
    sa.Column("refused", sa.Text, nullable=False),
)
# No index by user: each submit would pay for it, and few ask. Of one object there are few records.
sa.Index("audit_object", audit.c.object)

blobs = sa.Table(
    "blobs",
    metadata,
    sa.Column("digest", sa.Text, primary_key=True),
    sa.Column("body", sa.LargeBinary, nullable=False),
    #: When a submit last referred to it; without one it stays for ever.
    sa.Column("used_s", sa.Double),
)
sa.Index(
    "blobs_used",
    blobs.c.used_s,
    sqlite_where=blobs.c.used_s.is_not(None),
    postgresql_where=blobs.c.used_s.is_not(None),
)
#: What requests under a key were answered, for those that are sent again.
answers = sa.Table(
    "answers",
    metadata,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("at_s", sa.Double, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
)
sa.Index("answers_at", answers.c.at_s)
meta = sa.Table(
    "meta",
    metadata,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)


def _records(name: str, key: sa.Text | sa.BigInteger) -> sa.Table:
    """A small table that is always loaded whole: a key and the struct."""
    return sa.Table(
        name,
        metadata,
        sa.Column("key", key, primary_key=True, autoincrement=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )


nodes = _records("nodes", sa.Text())
queues = _records("queues", sa.Text())
groups = _records("groups", sa.Text())
projects = _records("projects", sa.Text())
reservations = _records("reservations", Id)
pilots = _records("pilots", sa.Text())
tokens = _records("tokens", sa.Text())
secrets = _records("secrets", sa.Text())
users = _records("users", sa.Text())
usage = _records("usage", sa.Text())
outers = _records("outers", sa.Text())
settings = _records("settings", sa.Text())

#: Alembic's own table, so that a fresh database knows which migrations it already includes.
alembic_version = sa.Table(
    "alembic_version",
    metadata,
    sa.Column("version_num", sa.String(32), primary_key=True),
)


#: A job is written three times in its first hours. Left alone, PostgreSQL clears away what was
#: written over once that is a fifth of the table, and meanwhile new rows make the table longer.
OFTEN_CLEARED = "ALTER TABLE jobs SET (autovacuum_vacuum_scale_factor = 0.02)"


def script(dialect: sa.Dialect) -> str:
    """The statements that make a fresh database."""
    statements: list[str] = []
    for table in sorted(metadata.tables.values(), key=lambda table: table.name):
        statements.append(str(CreateTable(table).compile(dialect=dialect)).strip())
        if table is jobs and dialect.name == "postgresql":
            statements.append(OFTEN_CLEARED)
        statements += [
            str(CreateIndex(index).compile(dialect=dialect)).strip()
            for index in sorted(table.indexes, key=lambda index: str(index.name))
        ]
    text = ";\n\n".join(statements) + ";\n"
    return "\n".join(line.rstrip() for line in text.replace("\t", "    ").splitlines()) + "\n"


def scripts() -> dict[Path, str]:
    """The generated files and what should be in them."""
    folder = Path(__file__).parent
    return {
        folder / "schema_sqlite.sql": script(sa.make_url("sqlite://").get_dialect()()),
        folder / "schema_postgresql.sql": script(sa.make_url("postgresql://").get_dialect()()),
    }


if __name__ == "__main__":
    for path, text in scripts().items():
        path.write_text(text)
