"""What the verbs of experiments share on the terminal: a bar while data is prepared, and arguments as a module."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from twinnet.errors import TwinnetError
from twinnet.progress import progress
from twinnet.restore.data.images import Watch

__all__ = ["first_process", "module", "watching"]


def first_process() -> bool:
    """Whether this is the only process, or the first of those that `accelerate launch` started."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def watching(*, quiet: bool = False) -> Iterator[Watch]:
    """A progress bar for `watch(what, share)`; nothing unless standard error is a terminal."""
    with progress(quiet=quiet) as report:
        yield report


def module(name: str, summary: str, verb: Callable[..., Any], add: Callable[..., None] | None = None) -> None:
    """Run a verb as `python -m name -e DIR` or under `accelerate launch -m name -e DIR`."""
    parser = argparse.ArgumentParser(prog=f"python -m {name}", description=summary)
    parser.add_argument("-e", "--exp-dir", required=True, metavar="DIR", help="folder of the experiment")
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing but errors")
    if add is not None:
        add(parser)
    given = vars(parser.parse_args())
    try:
        verb(given.pop("exp_dir"), **given)
    except TwinnetError as error:
        print(f"twinnet: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("twinnet: stopped", file=sys.stderr)
        sys.exit(130)
