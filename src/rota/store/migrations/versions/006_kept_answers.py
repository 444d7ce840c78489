"""What requests under an Idempotency-Key were answered."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "006"
down_revision = "005"


def upgrade() -> None:
    op.create_table(
        "answers",
        sa.Column("key", sa.Text(), primary_key=True, autoincrement=False),
        sa.Column("at_s", sa.Double, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_index("answers_at", "answers", ["at_s"])


def downgrade() -> None:
    op.drop_table("answers")
