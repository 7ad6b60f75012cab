"""What every handler needs: database, store, tokens, settings."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from twinnet.dashboard.database import Database
from twinnet.dashboard.settings import Settings
from twinnet.dashboard.store import Store
from twinnet.dashboard.tokens import Tokens

__all__ = ["Desk"]


@dataclass(frozen=True)
class Desk:
    """One running server."""

    database: Database
    store: Store
    tokens: Tokens
    settings: Settings
    intakes: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(4))
    """Bundles that are unpacked at the same time; more would only wait for each other."""
