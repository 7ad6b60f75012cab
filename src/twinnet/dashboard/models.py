"""The tables. What a page shows of many runs is in narrow rows with integer keys; what it shows of one is in a file."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Float,
    ForeignKey,
    Index,
    Integer,
    String,
    Text,
    UniqueConstraint,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

__all__ = [
    "Answer",
    "Base",
    "Complaint",
    "File",
    "Layer",
    "Place",
    "Run",
    "Series",
    "Session",
    "Token",
    "Visit",
]

_Key = BigInteger().with_variant(Integer, "sqlite")
"""SQLite numbers rows by itself only if the key is a plain INTEGER."""


class Base(DeclarativeBase):
    """The base of all tables."""


class Session(Base):
    """One suite, check or profile. `key` is the name its maker gave it; counts are kept up as cases come in."""

    __tablename__ = "session"
    __table_args__ = (
        Index("ix_session_started", "started", "id"),
        Index("ix_session_branch", "branch", "made_by", "started"),
    )

    id: Mapped[int] = mapped_column(_Key, primary_key=True)
    key: Mapped[str] = mapped_column(String(64), unique=True)
    made_by: Mapped[str] = mapped_column(String(32))
    title: Mapped[str] = mapped_column(String(200), default="")
    branch: Mapped[str] = mapped_column(String(200), default="")
    commit: Mapped[str] = mapped_column(String(80), default="")
    who: Mapped[str] = mapped_column(String(100), default="")
    engines: Mapped[str] = mapped_column(Text, default="")
    command: Mapped[Any] = mapped_column(JSON, default=list)
    environment: Mapped[Any] = mapped_column(JSON, default=dict)
    started: Mapped[float] = mapped_column(Float)
    finished: Mapped[float | None] = mapped_column(Float, nullable=True)
    received: Mapped[float] = mapped_column(Float)
    total: Mapped[int] = mapped_column(Integer, default=0)
    passed: Mapped[int] = mapped_column(Integer, default=0)
    failed: Mapped[int] = mapped_column(Integer, default=0)
    errors: Mapped[int] = mapped_column(Integer, default=0)
    skipped: Mapped[int] = mapped_column(Integer, default=0)
    known: Mapped[int] = mapped_column(Integer, default=0)
    pinned: Mapped[bool] = mapped_column(Boolean, default=False)


class Series(Base):
    """A case that comes back from session to session: one model or layer on one engine with its options."""

    __tablename__ = "series"
    __table_args__ = (Index("ix_series_model", "model", "engine", "layer"),)

    id: Mapped[int] = mapped_column(_Key, primary_key=True)
    key: Mapped[str] = mapped_column(String(64), unique=True)
    model: Mapped[str] = mapped_column(String(300))
    layer: Mapped[str] = mapped_column(String(300), default="")
    engine: Mapped[str] = mapped_column(String(300))
    random: Mapped[bool] = mapped_column(Boolean, default=False)


class Complaint(Base):
    """A message of failures without names and numbers: what groups them."""

    __tablename__ = "complaint"

    id: Mapped[int] = mapped_column(_Key, primary_key=True)
    key: Mapped[str] = mapped_column(String(64), unique=True)
    kind: Mapped[str] = mapped_column(String(60))
    text: Mapped[str] = mapped_column(Text)


class Run(Base):
    """A case in a session, with its verdict. `ratio` is its worst error in floor units, `time` what the twin takes."""

    __tablename__ = "run"
    __table_args__ = (
        UniqueConstraint("session_id", "name", name="uq_run_session_name"),
        Index("ix_run_session_series", "session_id", "series_id"),
        Index("ix_run_session_verdict", "session_id", "verdict", "expected", "complaint_id"),
        Index("ix_run_series_session", "series_id", "session_id"),
    )

    id: Mapped[int] = mapped_column(_Key, primary_key=True)
    session_id: Mapped[int] = mapped_column(ForeignKey("session.id", ondelete="CASCADE"))
    series_id: Mapped[int] = mapped_column(ForeignKey("series.id"))
    name: Mapped[str] = mapped_column(String(300))
    spec: Mapped[str] = mapped_column(String(500), default="")
    verdict: Mapped[str] = mapped_column(String(8))
    step: Mapped[str] = mapped_column(String(40), default="")
    message: Mapped[str] = mapped_column(Text, default="")
    complaint_id: Mapped[int | None] = mapped_column(ForeignKey("complaint.id"), nullable=True)
    evidence: Mapped[str] = mapped_column(String(8), default="strong")
    expected: Mapped[str] = mapped_column(String(4), default="")
    same_as: Mapped[str] = mapped_column(String(300), default="")
    seconds: Mapped[float] = mapped_column(Float, default=0.0)
    ratio: Mapped[float | None] = mapped_column(Float, nullable=True)
    max_abs: Mapped[float | None] = mapped_column(Float, nullable=True)
    time: Mapped[float | None] = mapped_column(Float, nullable=True)
    born: Mapped[str] = mapped_column(String(400), default="")
    cause: Mapped[str] = mapped_column(Text, default="")
    digest: Mapped[str] = mapped_column(String(64))


class Answer(Base):
    """What the page of a run shows without opening a file: the one-screen answer in pieces."""

    __tablename__ = "answer"

    run_id: Mapped[int] = mapped_column(ForeignKey("run.id", ondelete="CASCADE"), primary_key=True)
    data: Mapped[Any] = mapped_column(JSON)


class Place(Base):
    """A layer of a network, wherever and whenever it ran."""

    __tablename__ = "place"

    id: Mapped[int] = mapped_column(_Key, primary_key=True)
    key: Mapped[str] = mapped_column(String(64), unique=True)
    tensor: Mapped[str] = mapped_column(String(400))
    label: Mapped[str] = mapped_column(String(400))
    source: Mapped[str] = mapped_column(String(400), default="")


class Layer(Base):
    """One pair of a run: error over floor, end-to-end difference, time; `position` is its place in the network."""

    __tablename__ = "layer"
    __table_args__ = (Index("ix_layer_place_run", "place_id", "run_id"), {"sqlite_with_rowid": False})

    run_id: Mapped[int] = mapped_column(ForeignKey("run.id", ondelete="CASCADE"), primary_key=True)
    position: Mapped[int] = mapped_column(Integer, primary_key=True)
    place_id: Mapped[int] = mapped_column(ForeignKey("place.id"))
    status: Mapped[str] = mapped_column(String(12), default="")
    ratio: Mapped[float | None] = mapped_column(Float, nullable=True)
    allowed: Mapped[float | None] = mapped_column(Float, nullable=True)
    relative: Mapped[float | None] = mapped_column(Float, nullable=True)
    time: Mapped[float | None] = mapped_column(Float, nullable=True)


class File(Base):
    """A file of a run folder; its bytes are in the store under `digest`."""

    __tablename__ = "file"
    __table_args__ = (Index("ix_file_digest", "digest"),)

    run_id: Mapped[int] = mapped_column(ForeignKey("run.id", ondelete="CASCADE"), primary_key=True)
    path: Mapped[str] = mapped_column(String(500), primary_key=True)
    size: Mapped[int] = mapped_column(BigInteger)
    digest: Mapped[str] = mapped_column(String(64))


class Token(Base):
    """A token: its SHA-256 and what it allows. The token itself is shown once and stored nowhere."""

    __tablename__ = "token"

    id: Mapped[int] = mapped_column(_Key, primary_key=True)
    name: Mapped[str] = mapped_column(String(100), unique=True)
    digest: Mapped[str] = mapped_column(String(64), unique=True)
    scope: Mapped[str] = mapped_column(String(10))
    made: Mapped[float] = mapped_column(Float)
    used: Mapped[float | None] = mapped_column(Float, nullable=True)


class Visit(Base):
    """A browser that has shown a token; the cookie is stored as its SHA-256."""

    __tablename__ = "visit"

    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    token_id: Mapped[int | None] = mapped_column(ForeignKey("token.id", ondelete="CASCADE"), nullable=True)
    until: Mapped[float] = mapped_column(Float)
