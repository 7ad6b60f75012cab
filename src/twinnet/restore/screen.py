"""What the verbs of experiments share when they run as modules, alone or under `accelerate launch`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from typing import Any

from twinnet.errors import TwinnetError

__all__ = ["first_process", "module"]


def first_process() -> bool:
    """Whether this is the only process, or the first of those that `accelerate launch` started."""
    return os.environ.get("RANK", "0") == "0"


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
