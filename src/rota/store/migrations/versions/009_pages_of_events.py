"""Where jobs are mentioned on pages of the log; two indexes that are shorter, one in order.

Events that are there stay rows at first. They are put onto pages in idle moments, as new ones are.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "009"
down_revision = "008"


def upgrade() -> None:
    op.create_table(
        "mentions",
        sa.Column("block", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
        sqlite_with_rowid=False,
    )
    op.drop_index("jobs_created")
    op.create_index("jobs_created", "jobs", ["created_at"])
    op.drop_index("audit_object")
    op.create_index("audit_object", "audit", ["object"])
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER TABLE jobs SET (autovacuum_vacuum_scale_factor = 0.02)")


def downgrade() -> None:
    raise NotImplementedError("no older version reads pages of events: restore a backup")
