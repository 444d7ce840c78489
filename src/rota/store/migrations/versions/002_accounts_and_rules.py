"""Users, what accounts used, and the rules of the scheduling pass."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "002"
down_revision = "001"


def upgrade() -> None:
    for name in ("users", "usage", "settings"):
        op.create_table(
            name,
            sa.Column("key", sa.Text(), primary_key=True, autoincrement=False),
            sa.Column("body", sa.LargeBinary, nullable=False),
        )


def downgrade() -> None:
    for name in ("settings", "usage", "users"):
        op.drop_table(name)
