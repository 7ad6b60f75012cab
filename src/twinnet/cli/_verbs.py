"""A group of verbs whose help shows the whole first sentence of each."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

__all__ = ["Verbs"]


class Verbs(TyperGroup):
    """Lists verbs with their sentences wrapped, not truncated."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write each verb with its whole first sentence."""
        verbs = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, _first_sentence(verb.help or "")) for name, verb in verbs if verb is not None]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _first_sentence(text: str) -> str:
    """Up to the first full stop that ends a sentence.

    >>> _first_sentence("Compare folders of .npy files.\\n\\nExample: twinnet compare a b")
    'Compare folders of .npy files.'
    """
    return " ".join(text.split("\n\n")[0].split()).partition(". ")[0].removesuffix(".") + "."
