"""The commands of the prompt, one idea per file. Importing this package registers all of them."""

from twinnet.debugger.commands import (  # noqa: F401
    compare,
    keep,
    lineage,
    listing,
    look,
    patching,
    pixel,
    place,
)
from twinnet.debugger.commands.registry import COMMANDS, Command, Spec

__all__ = ["COMMANDS", "Command", "Spec"]
