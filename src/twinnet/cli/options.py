"""Options shared by several verbs, each defined once, in groups."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer

from twinnet.cli._screen import say

if TYPE_CHECKING:
    from twinnet.checking.options import Limits, Options
    from twinnet.debugger.settings import Settings
    from twinnet.judge.tolerance import Tolerances
    from twinnet.result import Result, ResultSet
    from twinnet.time_limit import TimeLimits

__all__ = [
    "Answer",
    "Baseline",
    "Door",
    "Json",
    "Level",
    "NamesOut",
    "Network",
    "Out",
    "Quiet",
    "Running",
    "Shape",
    "Stated",
    "TimeLimit",
    "Trust",
    "Verbose",
    "parse_memory",
    "shapes",
    "time_limits",
    "twins",
]


def _trust(context: typer.Context, given: bool) -> bool:
    from twinnet.trust import trusting

    context.with_resource(trusting(given))
    return given


Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        callback=_trust,
        help="Let code in a .pt2 file run, and programs named by a run folder that somebody else made.",
    ),
]


def twins(meant: str) -> Any:
    """The option `--twin` of a verb that takes several."""
    return typer.Option("--twin", "-t", metavar="SPEC[,SPEC...]", help=meant)


Network = Annotated[
    str,
    typer.Argument(
        metavar="NETWORK",
        help="file.py:factory, package.module:factory, an .onnx, .tflite or .pt2 file, or an experiment.",
    ),
]
Shape = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        metavar="NAME=1x3x640x640",
        help="Shape of an input; needed for dimensions that the network leaves open.",
    ),
]
Level = Annotated[
    Literal["outputs", "intermediates"],
    typer.Option(
        "--level", metavar="outputs|intermediates", help="Look at every tensor, or at the outputs only."
    ),
]
Baseline = Annotated[
    str | None,
    typer.Option("--baseline", metavar="RUN", help="Fail only on what this earlier run did not show."),
]
NamesOut = Annotated[
    Path | None,
    typer.Option(
        "--names-out", metavar="FILE", help="Write the pairs, and guesses for the rest, as a map to edit."
    ),
]
Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="DIR", help="Run folder to write (default: runs/NETWORK-TWIN)."),
]
TimeLimit = Annotated[
    str | None,
    typer.Option(
        "--time-limit",
        metavar="SECONDS|STEP=SECONDS,...",
        help="Stop steps of an engine after this time: all, or export, import, compile, load, run, compare.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the verdict only.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Also print timings, versions and the command.")
]
Json = Annotated[bool, typer.Option("--json", help="Print result.json instead of the screen.")]


@dataclass(frozen=True)
class Running:
    """Inputs, and how the network is run."""

    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--inputs",
            "-i",
            metavar="SOURCE",
            help="Folder of images, image, .npy, .npz, .safetensors, or file.py:samples; for several inputs "
            "NAME=FILE, repeated. Without this option, inputs are synthetic.",
        ),
    ] = None
    shape: Shape = None
    preprocess: Annotated[
        str | None,
        typer.Option(
            "--preprocess",
            metavar="FILE.py:FN",
            help="Your function from an image path or array to an input.",
        ),
    ] = None
    samples: Annotated[
        int | None,
        typer.Option("--samples", metavar="N", min=1, help="Number of samples to read or generate (2)."),
    ] = None
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Seed of synthetic inputs.")] = 0
    as_spec: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="SPEC",
            help="Engine that runs the network itself (torch; for .onnx: onnxruntime?opt=off).",
        ),
    ] = None
    threads: Annotated[
        int | None,
        typer.Option(
            "--threads",
            metavar="N",
            min=1,
            max=4096,
            help="Threads for each engine (default: as many as it likes).",
        ),
    ] = None
    max_memory: Annotated[
        str | None,
        typer.Option(
            "--max-memory",
            metavar="512M",
            help="Memory for the tensors of one run; the rest goes to disk (256M).",
        ),
    ] = None
    time_limit: TimeLimit = None

    on: Annotated[
        str | None,
        typer.Option(
            "--on",
            metavar="PLACE",
            help="Where the twin runs (for record, the network): local, or a board, ssh://[user@]host[:port].",
        ),
    ] = None

    trust: Trust = False

    def options(self, **more: Any) -> Options:
        """The options of a check; `inputs` are passed separately."""
        from twinnet.checking.options import Options

        return Options(
            reference=self.as_spec,
            shapes=shapes(self.shape),
            preprocess=self.preprocess,
            samples=self.samples,
            seed=self.seed,
            limits=self.limits(),
            on=self.on,
            **more,
        )

    def named(self, twin: str) -> str:
        """A name for the twin in a run folder's: with the board on which it runs."""
        from twinnet.engines.spec import board_word

        return twin if not self.on else "-".join(filter(None, (twin, board_word(self.on))))

    def limits(self) -> Limits:
        """Threads, memory and time."""
        from twinnet.checking.options import Limits

        return Limits(self.threads, parse_memory(self.max_memory), time_limits(self.time_limit))


@dataclass(frozen=True)
class Stated:
    """Stated tolerances; without any the noise floor decides."""

    rtol: Annotated[
        float | None,
        typer.Option("--rtol", metavar="X", min=0, help="At most atol + rtol x |network| apart."),
    ] = None
    atol: Annotated[
        float | None,
        typer.Option("--atol", metavar="X", min=0, help="At most atol + rtol x |network| apart."),
    ] = None
    ulp: Annotated[
        float | None,
        typer.Option("--ulp", metavar="N", min=0, help="At most this many units in the last place apart."),
    ] = None
    snr: Annotated[
        float | None,
        typer.Option("--snr", metavar="DB", help="Signal-to-noise ratio of at least this many dB."),
    ] = None
    psnr: Annotated[
        float | None,
        typer.Option("--psnr", metavar="DB", help="Peak signal-to-noise ratio of at least this many dB."),
    ] = None
    cosine: Annotated[
        float | None,
        typer.Option("--cosine", metavar="X", max=1, help="Cosine similarity of at least this value."),
    ] = None
    tolerance: Annotated[
        str | None,
        typer.Option(
            "--tolerance", metavar="FILE.toml", help="Rules by dtype, op, module or site, in a file."
        ),
    ] = None

    def tolerances(self) -> Tolerances:
        """All stated tolerances, in order."""
        from twinnet.judge.tolerance import Tolerance, Tolerances, read_rules

        limits = {name: value for name, value in vars(self).items() if name != "tolerance"}
        return Tolerances.of(Tolerance(**limits), read_rules(self.tolerance) if self.tolerance else ())


@dataclass(frozen=True)
class Answer:
    """How a result is printed, and its exit code."""

    strict: Annotated[
        bool,
        typer.Option("--strict", help="Exit with 1 after a PASS on data that could not have shown a fault."),
    ] = False
    quiet: Quiet = False
    verbose: Verbose = False
    as_json: Json = False

    @property
    def silent(self) -> bool:
        """Whether only the result itself may be printed."""
        return self.quiet or self.as_json

    def give(self, result: Result | ResultSet, *, unmatched: bool = False) -> None:
        """Print the result."""
        if self.as_json:
            from twinnet.report.json_file import dump_result

            say(dump_result(result))
            return
        if self.quiet:
            say(result.verdict)
            return
        from twinnet.cli._screen import console
        from twinnet.report.terminal import print_result, render_unmatched
        from twinnet.result import ResultSet

        print_result(result, console(), self.verbose)
        if unmatched:
            say(render_unmatched(result))
        parts = result.results if isinstance(result, ResultSet) else (result,)
        if any(one.cost is not None for one in parts):
            from twinnet.report.profiles import choice_text

            say(f"\n{choice_text(result)}")

    def leave(self, result: Result | ResultSet) -> NoReturn:
        """Exit with the exit code of the result."""
        from twinnet.result import ResultSet

        parts = result.results if isinstance(result, ResultSet) else (result,)
        weak = self.strict and result.verdict == "PASS" and any(r.evidence == "weak" for r in parts)
        raise typer.Exit(1 if weak else result.exit_code)


@dataclass(frozen=True)
class Door:
    """Access control of the live debugger."""

    host: Annotated[
        str,
        typer.Option(
            "--host",
            metavar="ADDRESS",
            help="Address to listen on; one that other machines can reach needs a certificate or --insecure.",
        ),
    ] = "127.0.0.1"
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            metavar="PORT",
            min=0,
            max=65535,
            envvar="TWINNET_DEBUG_PORT",
            help="Port (default: the first free one from 8765).",
        ),
    ] = None
    tls_cert: Annotated[
        Path | None, typer.Option("--tls-cert", metavar="FILE.pem", help="Certificate for HTTPS.")
    ] = None
    tls_key: Annotated[
        Path | None, typer.Option("--tls-key", metavar="FILE.pem", help="Its key, if in a separate file.")
    ] = None
    insecure: Annotated[
        bool,
        typer.Option(
            "--insecure",
            help="Allow --host without encryption. Anyone who sees the token on the network can run code.",
        ),
    ] = False
    read_only: Annotated[
        bool,
        typer.Option(
            "--read-only", help="Allow only commands that read; nothing is evaluated, patched or written."
        ),
    ] = False
    info: Annotated[
        Path | None,
        typer.Option(
            "--info",
            metavar="FILE",
            help="Where address and token are written (default: debugger-PORT.env in the run folder).",
        ),
    ] = None
    command_limit: Annotated[
        float,
        typer.Option("--command-limit", metavar="SECONDS", help="Longest time one command may take."),
    ] = 300.0

    def moved(self) -> bool:
        """Whether any option was given; the port is ignored, as it may come from the environment."""
        return replace(self, port=None) != Door()

    def settings(self, folder: Path) -> Settings:
        """The debugger's settings; unsafe ones are refused before anything runs."""
        from twinnet.debugger.settings import Settings

        told = {name: value for name, value in vars(self).items() if name != "command_limit"}
        settings = Settings(**told, folder=folder, time_limit=self.command_limit)
        settings.check()
        return settings


def shapes(given: list[str] | None) -> dict[str, tuple[int, ...]] | None:
    """Parse `--shape`: shapes by input; None if none is given."""
    from twinnet.network.shapes import parse_shapes

    return parse_shapes(given or ()) or None


def time_limits(text: str | None) -> TimeLimits:
    """The limits that `--time-limit` states."""
    from twinnet.time_limit import TimeLimits

    return TimeLimits.of(text)


def parse_memory(text: str | None) -> int | None:
    """Parse a size such as "512M" or "2G" into bytes.

    >>> parse_memory("2M")
    2097152
    """
    from twinnet.cache import parse_size
    from twinnet.errors import UsageError

    if text is None:
        return None
    value = parse_size(text, "--max-memory")
    if value < 1 << 20:
        raise UsageError(f"--max-memory {text} is too small", hint="at least 1M")
    return value
