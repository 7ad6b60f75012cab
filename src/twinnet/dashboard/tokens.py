"""Tokens and what they allow, and the cookies of browsers that have shown one. Only digests are stored."""

from __future__ import annotations

import hashlib
import secrets
import time
from dataclasses import dataclass
from typing import Literal, cast

import sqlalchemy as sa

from twinnet.dashboard.database import Database
from twinnet.dashboard.models import Token, Visit
from twinnet.errors import UsageError

__all__ = ["SCOPES", "Bearer", "Scope", "TokenExists", "Tokens"]

Scope = Literal["read", "upload", "admin"]
SCOPES: tuple[Scope, ...] = ("read", "upload", "admin")
"""Each allows what those before it allow; upload allows to read as well."""

_VISIT = 30 * 86400.0
_NOTED = 60.0
"""Seconds between two notes of when a token was used."""


class TokenExists(UsageError):
    """There is a token of this name."""


@dataclass(frozen=True, slots=True)
class Bearer:
    """Who asks, and what they may."""

    name: str
    scope: Scope

    def may(self, wanted: Scope) -> bool:
        """Whether the scope includes another.

        >>> Bearer("ci", "upload").may("read"), Bearer("ci", "upload").may("admin")
        (True, False)
        """
        return SCOPES.index(self.scope) >= SCOPES.index(wanted)


class Tokens:
    """The tokens of a database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._tickets: set[str] = set()

    def add(self, name: str, scope: str) -> str:
        """Make a token; this is the only time that it is seen."""
        if scope not in SCOPES:
            raise UsageError(f"{scope} is not a scope", hint=f"one of {', '.join(SCOPES)}")
        if not name or len(name) > 100 or not name.isprintable():
            raise UsageError("a token needs a name of at most 100 characters")
        token = f"tw_{secrets.token_urlsafe(32)}"
        with self._database.writing() as connection:
            if connection.execute(sa.select(Token.id).where(Token.name == name)).first():
                raise TokenExists(f"there is a token {name}", hint="choose another name, or revoke it first")
            connection.execute(
                sa.insert(Token).values(name=name, digest=_digest(token), scope=scope, made=time.time())
            )
        return token

    def listed(self, after: int = 0, limit: int = 100) -> list[dict[str, object]]:
        """Names, scopes and when they were used; never the tokens."""
        with self._database.reading() as connection:
            rows = connection.execute(
                sa.select(Token.id, Token.name, Token.scope, Token.made, Token.used)
                .where(Token.id > after)
                .order_by(Token.id)
                .limit(limit)
            )
            return [dict(row._mapping) for row in rows]

    def revoke(self, name: str) -> bool:
        """Remove a token, and sign out every browser that used it."""
        with self._database.writing() as connection:
            found = connection.execute(sa.select(Token.id).where(Token.name == name)).scalar()
            if found is None:
                return False
            connection.execute(sa.delete(Visit).where(Visit.token_id == found))
            connection.execute(sa.delete(Token).where(Token.id == found))
            return True

    def any(self) -> bool:
        """Whether there is a token at all."""
        with self._database.reading() as connection:
            return connection.execute(sa.select(Token.id).limit(1)).first() is not None

    def bearer(self, token: str) -> Bearer | None:
        """Who has this token."""
        if not token or len(token) > 200:
            return None
        with self._database.reading() as connection:
            row = connection.execute(
                sa.select(Token.id, Token.name, Token.scope, Token.used).where(Token.digest == _digest(token))
            ).first()
        if row is None:
            return None
        if row.used is None or time.time() - row.used > _NOTED:
            with self._database.writing() as connection:
                connection.execute(sa.update(Token).where(Token.id == row.id).values(used=time.time()))
        return Bearer(row.name, cast(Scope, row.scope))

    # -- browsers ------------------------------------------------------------------------------------------------------

    def ticket(self) -> str:
        """Make a word that opens the pages once: what `twinnet serve` prints in its address."""
        fresh = secrets.token_urlsafe(24)
        self._tickets.add(_digest(fresh))
        return fresh

    def admit(self, ticket: str) -> str | None:
        """A cookie for a ticket; None for one that is not known, or was used."""
        digest = _digest(ticket)
        if digest not in self._tickets:
            return None
        self._tickets.discard(digest)
        return self._visit(None)

    def enter(self, token: str) -> str | None:
        """A cookie for a token; None for one that is not known."""
        if self.bearer(token) is None:
            return None
        with self._database.reading() as connection:
            found = connection.execute(sa.select(Token.id).where(Token.digest == _digest(token))).scalar()
        return self._visit(found)

    def _visit(self, token_id: int | None) -> str:
        cookie = secrets.token_urlsafe(32)
        now = time.time()
        with self._database.writing() as connection:
            connection.execute(sa.delete(Visit).where(Visit.until < now))
            connection.execute(
                sa.insert(Visit).values(digest=_digest(cookie), token_id=token_id, until=now + _VISIT)
            )
        return cookie

    def visitor(self, cookie: str) -> Bearer | None:
        """Who has this cookie."""
        if not cookie or len(cookie) > 200:
            return None
        with self._database.reading() as connection:
            row = connection.execute(
                sa.select(Visit.token_id, Token.name, Token.scope)
                .outerjoin(Token, Visit.token_id == Token.id)
                .where(Visit.digest == _digest(cookie), Visit.until > time.time())
            ).first()
        if row is None:
            return None
        if row.token_id is None:
            return Bearer("this machine", "read")
        return Bearer(row.name, cast(Scope, row.scope))

    def leave(self, cookie: str) -> None:
        """Forget a browser."""
        with self._database.writing() as connection:
            connection.execute(sa.delete(Visit).where(Visit.digest == _digest(cookie)))


def _digest(secret: str) -> str:
    """Tokens have 256 random bits: a plain digest cannot be turned around."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
