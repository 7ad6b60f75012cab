"""The first schema."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

__all__ = ["upgrade"]

revision = "0001"
down_revision = None

_KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make all tables."""
    op.create_table(
        "complaint",
        sa.Column("id", _KEY, nullable=False),
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=60), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("key"),
    )
    op.create_table(
        "place",
        sa.Column("id", _KEY, nullable=False),
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("tensor", sa.String(length=400), nullable=False),
        sa.Column("label", sa.String(length=400), nullable=False),
        sa.Column("source", sa.String(length=400), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("key"),
    )
    op.create_table(
        "series",
        sa.Column("id", _KEY, nullable=False),
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("model", sa.String(length=300), nullable=False),
        sa.Column("layer", sa.String(length=300), nullable=False),
        sa.Column("engine", sa.String(length=300), nullable=False),
        sa.Column("random", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("key"),
    )
    op.create_index("ix_series_model", "series", ["model", "engine", "layer"], unique=False)
    op.create_table(
        "session",
        sa.Column("id", _KEY, nullable=False),
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("made_by", sa.String(length=32), nullable=False),
        sa.Column("title", sa.String(length=200), nullable=False),
        sa.Column("branch", sa.String(length=200), nullable=False),
        sa.Column("commit", sa.String(length=80), nullable=False),
        sa.Column("who", sa.String(length=100), nullable=False),
        sa.Column("engines", sa.Text(), nullable=False),
        sa.Column("command", sa.JSON(), nullable=False),
        sa.Column("environment", sa.JSON(), nullable=False),
        sa.Column("started", sa.Float(), nullable=False),
        sa.Column("finished", sa.Float(), nullable=True),
        sa.Column("received", sa.Float(), nullable=False),
        sa.Column("total", sa.Integer(), nullable=False),
        sa.Column("passed", sa.Integer(), nullable=False),
        sa.Column("failed", sa.Integer(), nullable=False),
        sa.Column("errors", sa.Integer(), nullable=False),
        sa.Column("skipped", sa.Integer(), nullable=False),
        sa.Column("known", sa.Integer(), nullable=False),
        sa.Column("pinned", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("key"),
    )
    op.create_index("ix_session_branch", "session", ["branch", "made_by", "started"], unique=False)
    op.create_index("ix_session_started", "session", ["started", "id"], unique=False)
    op.create_table(
        "token",
        sa.Column("id", _KEY, nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("scope", sa.String(length=10), nullable=False),
        sa.Column("made", sa.Float(), nullable=False),
        sa.Column("used", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("digest"),
        sa.UniqueConstraint("name"),
    )
    op.create_table(
        "run",
        sa.Column("id", _KEY, nullable=False),
        sa.Column("session_id", _KEY, nullable=False),
        sa.Column("series_id", _KEY, nullable=False),
        sa.Column("name", sa.String(length=300), nullable=False),
        sa.Column("spec", sa.String(length=500), nullable=False),
        sa.Column("verdict", sa.String(length=8), nullable=False),
        sa.Column("step", sa.String(length=40), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("complaint_id", _KEY, nullable=True),
        sa.Column("evidence", sa.String(length=8), nullable=False),
        sa.Column("expected", sa.String(length=4), nullable=False),
        sa.Column("same_as", sa.String(length=300), nullable=False),
        sa.Column("seconds", sa.Float(), nullable=False),
        sa.Column("ratio", sa.Float(), nullable=True),
        sa.Column("max_abs", sa.Float(), nullable=True),
        sa.Column("time", sa.Float(), nullable=True),
        sa.Column("born", sa.String(length=400), nullable=False),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(
            ["complaint_id"],
            ["complaint.id"],
        ),
        sa.ForeignKeyConstraint(
            ["series_id"],
            ["series.id"],
        ),
        sa.ForeignKeyConstraint(["session_id"], ["session.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("session_id", "name", name="uq_run_session_name"),
    )
    op.create_index("ix_run_series_session", "run", ["series_id", "session_id"], unique=False)
    op.create_index("ix_run_session_series", "run", ["session_id", "series_id"], unique=False)
    op.create_index(
        "ix_run_session_verdict", "run", ["session_id", "verdict", "expected", "complaint_id"], unique=False
    )
    op.create_table(
        "visit",
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("token_id", _KEY, nullable=True),
        sa.Column("until", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["token_id"], ["token.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("digest"),
    )
    op.create_table(
        "answer",
        sa.Column("run_id", _KEY, nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id"),
    )
    op.create_table(
        "file",
        sa.Column("run_id", _KEY, nullable=False),
        sa.Column("path", sa.String(length=500), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "path"),
    )
    op.create_index("ix_file_digest", "file", ["digest"], unique=False)
    op.create_table(
        "layer",
        sa.Column("run_id", _KEY, nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("place_id", _KEY, nullable=False),
        sa.Column("status", sa.String(length=12), nullable=False),
        sa.Column("ratio", sa.Float(), nullable=True),
        sa.Column("allowed", sa.Float(), nullable=True),
        sa.Column("relative", sa.Float(), nullable=True),
        sa.Column("time", sa.Float(), nullable=True),
        sa.ForeignKeyConstraint(
            ["place_id"],
            ["place.id"],
        ),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "position"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_layer_place_run", "layer", ["place_id", "run_id"], unique=False)
