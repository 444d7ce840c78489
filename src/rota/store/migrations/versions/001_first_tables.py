"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "001"
down_revision = None

Id = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    _jobs()
    _arrays()
    _events()
    op.create_table(
        "blobs",
        sa.Column("digest", sa.Text, primary_key=True),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "meta",
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )
    for name in ("nodes", "queues", "groups", "projects", "reservations", "tokens"):
        op.create_table(
            name,
            sa.Column(
                "key",
                Id if name == "reservations" else sa.Text(),
                primary_key=True,
                autoincrement=False,
            ),
            sa.Column("body", sa.LargeBinary, nullable=False),
        )


def _jobs() -> None:
    op.create_table(
        "jobs",
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
    op.create_index("jobs_uid", "jobs", ["uid"], unique=True)
    op.create_index("jobs_state", "jobs", ["state", "id"])
    op.create_index("jobs_user", "jobs", ["user_id", "state", "id"])
    _partial_index("jobs_project", "jobs", ["project", "state", "id"], "project IS NOT NULL")
    _partial_index("jobs_array", "jobs", ["array_id", "id"], "array_id IS NOT NULL")
    op.create_index("jobs_created", "jobs", [sa.text("created_at DESC"), "user_id", "submit_key"])


def _arrays() -> None:
    op.create_table(
        "arrays",
        sa.Column("id", Id, primary_key=True, autoincrement=False),
        sa.Column("uid", sa.Text, nullable=False),
        sa.Column("user_id", sa.Text, nullable=False),
        sa.Column("last_id", sa.BigInteger, nullable=False),
        sa.Column("waiting", sa.Integer, nullable=False),
        sa.Column("cut_at", sa.Double),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("submit_key", sa.Text),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("sweep", sa.LargeBinary),
    )
    op.create_index("arrays_uid", "arrays", ["uid"], unique=True)


def _events() -> None:
    op.create_table(
        "events",
        sa.Column("seq", Id, primary_key=True, autoincrement=False),
        sa.Column("at_s", sa.Double, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("job_id", sa.BigInteger),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    _partial_index("events_job", "events", ["job_id", "seq"], "job_id IS NOT NULL")
    _partial_index("events_kind", "events", ["kind", "seq"], "job_id IS NULL")


def _partial_index(name: str, table: str, columns: list[str], where: str) -> None:
    condition = sa.text(where)
    op.create_index(name, table, columns, sqlite_where=condition, postgresql_where=condition)
