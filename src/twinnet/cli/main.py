"""`twinnet`: the command and its verbs."""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import sys
import warnings
from typing import Annotated, Any, TextIO

import typer

from twinnet.cli import (
    attach,
    cache,
    check,
    compare,
    debug,
    demo,
    diff,
    engines,
    env,
    inspect,
    inspect_run,
    judge,
    ladder,
    lut,
    matrix,
    profile,
    record,
    repro,
    runs,
    serve,
    sessions,
    show,
    suite,
    upload,
    uvq,
)
from twinnet.cli._screen import say
from twinnet.cli._verbs import Verbs
from twinnet.errors import TwinnetError
from twinnet.time_limit import when_stuck

__all__ = ["app", "main"]


class _Verbs(Verbs):
    """The group of verbs. Its own options are parsed only if the command line starts with one.

    Parsing them otherwise would take longer than printing the help of a verb.
    """

    _verb_first = False

    def get_params(self, ctx: Any) -> list[Any]:
        return [] if self._verb_first else super().get_params(ctx)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        self._verb_first = bool(args) and not args[0].startswith("-")
        try:
            return super().parse_args(ctx, args)
        finally:
            self._verb_first = False


app = typer.Typer(
    cls=_Verbs,
    name="twinnet",
    help="Does the network you ship compute what the network you trained computes? If not, where, and why?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    # Plain help: coloured panels would take longer than everything else together.
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 PASS, 1 FAIL, 2 wrong usage or unreadable input, 3 ERROR (it could not run), "
    "4 a bug in twinnet.",
)

for _verb in (
    check,
    ladder,
    matrix,
    debug,
    attach,
    repro,
    judge,
    record,
    compare,
    diff,
    show,
    inspect,
    inspect_run,
    upload,
    sessions,
    runs,
    uvq,
    engines,
    env,
    demo,
):
    app.command(_verb.__name__.rpartition(".")[2].replace("_", "-"))(_verb.command)
app.add_typer(profile.app, name="profile")
app.add_typer(suite.app, name="suite")
app.add_typer(serve.app, name="serve")
app.add_typer(cache.app, name="cache")
app.add_typer(lut.app, name="lut")


def _version(asked: bool) -> None:
    if asked:
        from twinnet import __version__

        say(f"twinnet {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


_CLOSED = 141


def main() -> None:
    """Run the command line; errors meant for the user are printed without a stack trace."""
    # Importing PyTorch makes a million permanent objects: collecting garbage among them takes a fifth of the import,
    # and freeing them at the end as long again.
    gc.set_threshold(100_000, 50, 50)
    atexit.register(gc.freeze)
    if not sys.warnoptions:
        # Warnings from libraries to developers; `python -W default -m twinnet.cli.main` shows it.
        warnings.simplefilter("ignore", FutureWarning)
    if len(sys.argv) == 3 and sys.argv[1] in ("--show-completion", "--install-completion"):
        # Use the shell that is named, even if a package is installed that could guess it.
        os.environ.setdefault("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    try:
        try:
            with when_stuck(_end_now):
                app(prog_name="twinnet")
        finally:
            sys.stdout.flush()
    except SystemExit as ended:
        if not isinstance(ended.__context__, BrokenPipeError):
            raise
        # The reader of our output closed it (`| head`). That is no verdict: end as if stopped by SIGPIPE.
        _forget(sys.stdout)
        sys.exit(_CLOSED)
    except BrokenPipeError:
        _forget(sys.stdout)
        sys.exit(_CLOSED)
    except (Exception, KeyboardInterrupt) as error:
        from twinnet.cli._ending import end

        code = end(error)
        _forget(sys.stdout)
        sys.exit(code)


def _end_now(error: TwinnetError) -> None:
    from twinnet.cli._ending import end_now

    end_now(error)


def _forget(stream: TextIO) -> None:
    """Give up what is not written yet: Python would fail on it once more at its end."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


if __name__ == "__main__":
    main()
