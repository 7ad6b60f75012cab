"""Damaged files, thousands for each reader: `python -m tools.fuzz_readers [--files 10000] [--seed 7] [READER ...]`.

Good files are made once, then damaged: bits flipped, bytes replaced, cut off, repeated, exchanged, numbers made huge,
words of JSON and TOML replaced. Each is read in a process with a limit on memory. A reader may read it or raise one of
twinnet's own errors; anything else is counted: a trace (another exception), a crash (the process died), a hang (more
than ten seconds of the processor's). The files that did it are kept. The table goes to the screen and to
bench-results/fuzz.json.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from twinnet.errors import TwinnetError, machine_error
from twinnet.files import atomic_write

__all__ = ["READERS", "Reader", "Row", "damaged", "fuzz", "main"]

ROOT = Path(__file__).parents[1]
HANG = 10
"""Seconds for one file."""
MEMORY = 12 << 30
"""Bytes of address space, PyTorch's own among them."""
BATCH = 100
"""Files per process: a crash costs what is left of one batch."""


@dataclass(frozen=True)
class Reader:
    """A way into twinnet: how to make good files in a folder, and how to read one damaged file there."""

    make: Callable[[Path], Any]
    read: Callable[[Path], Any]
    files: str
    """Which files of the folder get damaged (a glob)."""


@dataclass
class Row:
    """What one reader did with its files."""

    reader: str
    files: int = 0
    read: int = 0
    refused: int = 0
    traces: int = 0
    crashes: int = 0
    hangs: int = 0
    seconds: float = 0.0
    kinds: dict[str, int] = field(default_factory=dict[str, int])


# -- damage ----------------------------------------------------------------------------------------------------------

_HUGE = (b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\x00\x00\x00\x80", b"\xff\xff\xff\xff\xff\xff\xff\x7f")
_WORDS = (
    "null",
    "-1",
    "1e999",
    "NaN",
    '""',
    "[]",
    "{}",
    "true",
    '"../../x"',
    "99999999999999999999",
    "[[[[]]]]",
)


def damaged(data: bytes, draw: random.Random) -> bytes:
    """A copy with one to four faults.

    >>> damaged(b"twelve bytes", random.Random(1)) == damaged(b"twelve bytes", random.Random(1))
    True
    """
    ways = [_flip, _replace, _cut, _repeat, _huge, _exchange, _drop]
    if _is_text(data):
        ways += [_word, _word, _word]
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        data = draw.choice(ways)(data, draw)
    return data


def _is_text(data: bytes) -> bool:
    return b"\0" not in data[:4096] and all(b < 128 for b in data[:256])


def _at(data: bytes | bytearray, draw: random.Random) -> int:
    """A place; headers, at both ends, are met more often."""
    end = len(data)
    near = min(end, 512)
    return draw.choice(
        (draw.randrange(end or 1), draw.randrange(near or 1), max(end - 1 - draw.randrange(near or 1), 0))
    )


def _flip(data: bytes, draw: random.Random) -> bytes:
    changed = bytearray(data or b"\0")
    for _ in range(draw.choice((1, 1, 2, 8, 64))):
        changed[_at(changed, draw)] ^= 1 << draw.randrange(8)
    return bytes(changed)


def _replace(data: bytes, draw: random.Random) -> bytes:
    at, size = _at(data, draw), draw.choice((1, 2, 4, 8, 32))
    return data[:at] + draw.randbytes(size) + data[at + size :]


def _cut(data: bytes, draw: random.Random) -> bytes:
    return data[: draw.choice((draw.randrange(len(data) + 1), _at(data, draw)))]


def _repeat(data: bytes, draw: random.Random) -> bytes:
    at, size = _at(data, draw), draw.choice((1, 8, 64, 1024))
    return data[:at] + data[at : at + size] * draw.choice((1, 2, 50)) + data[at:]


def _huge(data: bytes, draw: random.Random) -> bytes:
    at, number = _at(data, draw), draw.choice(_HUGE)
    return data[:at] + number + data[at + len(number) :]


def _exchange(data: bytes, draw: random.Random) -> bytes:
    a, b = sorted((_at(data, draw), _at(data, draw)))
    size = min(draw.choice((1, 4, 16, 256)), b - a)
    return data[:a] + data[b : b + size] + data[a + size : b] + data[a : a + size] + data[b + size :]


def _drop(data: bytes, draw: random.Random) -> bytes:
    at = _at(data, draw)
    return data[:at] + data[at + draw.choice((1, 2, 4, 64)) :]


def _word(data: bytes, draw: random.Random) -> bytes:
    found = list(re.finditer(rb'"[^"\n]*"|-?\d+(?:\.\d+)?|true|false|null', data))
    if not found:
        return _flip(data, draw)
    chosen = draw.choice(found)
    word = draw.choice((draw.choice(_WORDS).encode(), draw.choice(found)[0]))
    return data[: chosen.start()] + word + data[chosen.end() :]


# -- readers ---------------------------------------------------------------------------------------------------------


def _net() -> Any:
    import torch
    from torch import nn

    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 5)
    )
    return net.eval(), torch.rand(1, 3, 4, 4)


def _make_onnx(folder: Path) -> None:
    import torch

    net, x = _net()
    torch.onnx.export(net, (x,), folder / "net.onnx", external_data=False, verbose=False)


def _make_pt2(folder: Path) -> None:
    import torch

    net, x = _net()
    torch.export.save(torch.export.export(net, (x,)), folder / "net.pt2")


def _make_run(folder: Path) -> None:
    import torch

    import twinnet

    net, x = _net()
    _make_onnx(folder)
    with torch.no_grad():
        net[0].weight *= 1.1
    twinnet.check(net, x, folder / "net.onnx", out=folder / "run")


def _make_recording(folder: Path) -> None:
    import twinnet

    net, x = _net()
    twinnet.record(net, x, out=folder / "recording")


def _make_npz(folder: Path) -> None:
    import numpy as np

    np.savez(folder / "x.npz", x=np.arange(60.0).reshape(3, 4, 5), y=np.ones((2, 2), np.int8))
    np.savez_compressed(folder / "z.npz", x=np.arange(60.0).reshape(3, 4, 5))


def _make_npy(folder: Path) -> None:
    import numpy as np

    np.save(folder / "x.npy", np.arange(60, dtype=np.int8).reshape(3, 4, 5))


def _make_tables(folder: Path) -> None:
    from twinnet.models import available, file_of

    small = min(map(file_of, available()), key=lambda path: path.stat().st_size)
    shutil.copy(small, folder / f"tables{small.suffix}")


def _make_image(folder: Path) -> None:
    import numpy as np
    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 256, (24, 32, 3), np.uint8)
    for name in ("x.png", "x.jpg", "x.bmp", "x.tif", "x.webp", "x.gif"):
        Image.fromarray(pixels).save(folder / name)


def _make_pth(folder: Path) -> None:
    import torch

    torch.save({"params": {"a.weight": torch.rand(3, 4), "b": torch.arange(5)}}, folder / "x.pth")


def _make_checkpoint(folder: Path) -> None:
    from safetensors.torch import save_file

    save_file(dict(_net()[0].state_dict()), folder / "net.safetensors")


_TOLERANCES = """
[[rule]]
site = "blocks.*"
rtol = 1e-3
atol = 1e-5

[[rule]]
op = "conv2d"
dtype = "float32"
cosine = 0.99
"""


def _text(name: str, text: str) -> Callable[[Path], Any]:
    return lambda folder: (folder / name).write_text(text)


def _make_command(folder: Path) -> None:
    from twinnet.engines._command_file import find_description, ready_files

    shutil.copy(find_description(ready_files()[0]), folder / "board.toml")


def _inspect(path: Path) -> None:
    from twinnet.inspection import inspect

    inspect(str(path))


def _read_run(path: Path) -> None:
    from twinnet.report.json_file import load_result
    from twinnet.shrink.seed import load_seeds

    run = _above(path, "run")
    load_result(run)
    load_seeds(run)


def _above(path: Path, name: str) -> Path:
    return next(p for p in (path, *path.parents) if p.name == name)


def _read_recording(path: Path) -> None:
    from twinnet.recording import load_recording

    recording = load_recording(_above(path, "recording"))
    for number in range(len(recording.samples)):
        recording.sample(number)
        trace = recording.trace(number)
        for name in trace:
            trace[name]


def _read_npz(path: Path) -> None:
    from twinnet.store import read_npz

    read_npz(path)


def _read_npy(path: Path) -> None:
    from twinnet.lut.npy import read_array

    read_array(path)


def _read_tables(path: Path) -> None:
    from twinnet.lut.file import read

    read(path)


def _read_image(path: Path) -> None:
    from twinnet.lut.pictures import read_picture

    read_picture(path)


def _read_pth(path: Path) -> None:
    from twinnet.pth import read_pth

    read_pth(path)


def _read_checkpoint(path: Path) -> None:
    from twinnet.store import TensorFile

    tensors = TensorFile(path)
    for name in tensors.keys():  # noqa: SIM118 - not a mapping
        tensors[name]


def _read_tolerances(path: Path) -> None:
    from twinnet.judge.tolerance import read_tolerances

    read_tolerances(path)


def _read_command(path: Path) -> None:
    from twinnet.engines._command_file import read_description

    read_description(path)


def _make_executorch(folder: Path) -> None:
    """A program with its ETRecord, and a recording of it."""
    import torch

    import twinnet

    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.SiLU(), torch.nn.Flatten(), torch.nn.Linear(64, 5)
    )
    x = torch.randn(1, 3, 6, 6)
    twinnet.record((net.eval(), (x,)), x, out=folder / "made", reference="executorch?threads=1")
    for name in ("etdump.etdp", "debug_buffer.bin", "program.etrecord", "program.pte"):
        shutil.copy(folder / "made" / "0000" / name, folder / name)


def _read_etdump(path: Path) -> None:
    from twinnet.inspector import Inspector

    home = path.parent
    found = Inspector(
        etdump_path=home / "etdump.etdp",
        buffer_path=home / "debug_buffer.bin",
        etrecord=home / "program.etrecord",
    )
    found.table(200)
    found.to_html()


def _read_pte(path: Path) -> None:
    import numpy as np

    from twinnet.engines import find_engine
    from twinnet.job import Job
    from twinnet.trace import TraceBuilder

    inputs = {"x": np.ones((1, 3, 6, 6), np.float32)}
    session = find_engine("executorch").open(None, {"threads": "1"}, str(path), Job(inputs, time_limit=8.0))
    try:
        session.trace(inputs, {site.tensor for site in session.sites}, TraceBuilder())
    finally:
        session.close()


def _make_tflite(folder: Path) -> None:
    """A converted network and its quantised form."""
    import torch

    from twinnet.engines import find_engine
    from twinnet.job import Job
    from twinnet.network import load_network

    torch.manual_seed(0)
    x = torch.randn(1, 3, 8, 8)
    net = load_network((torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU()).eval(), (x,)))
    engine, job = find_engine("litert"), Job({net.signature.inputs[0].name: x.numpy()})
    engine.save_stage(net, {}, folder / "float.tflite", job)
    engine.save_stage(net, {"quantize": "static"}, folder / "int8.tflite", job)


def _read_tflite(path: Path) -> None:
    from twinnet.tflite.network import TfliteNetwork
    from twinnet.tflite.read import read_tflite
    from twinnet.tflite.view import View

    model = TfliteNetwork.load(path).model
    read_tflite(model, View(model.main))


READERS: dict[str, Reader] = {
    "onnx": Reader(_make_onnx, _inspect, "*.onnx"),
    "pt2": Reader(_make_pt2, _inspect, "*.pt2"),
    "run folder": Reader(_make_run, _read_run, "run/**/*"),
    "recording": Reader(_make_recording, _read_recording, "recording/**/*"),
    "npz": Reader(_make_npz, _read_npz, "*.npz"),
    "npy": Reader(_make_npy, _read_npy, "*.npy"),
    "tables": Reader(_make_tables, _read_tables, "tables.*"),
    "picture": Reader(_make_image, _read_image, "x.*"),
    "pth": Reader(_make_pth, _read_pth, "*.pth"),
    "safetensors": Reader(_make_checkpoint, _read_checkpoint, "*.safetensors"),
    "tolerances": Reader(_text("tolerances.toml", _TOLERANCES), _read_tolerances, "*.toml"),
    "command engine": Reader(_make_command, _read_command, "*.toml"),
    "tflite": Reader(_make_tflite, _read_tflite, "*.tflite"),
    "etdump": Reader(_make_executorch, _read_etdump, "*.etdp"),
    "etrecord": Reader(_make_executorch, _read_etdump, "*.etrecord"),
    "pte": Reader(_make_executorch, _read_pte, "*.pte"),
}
"""Every kind of file that somebody else may have written."""


# -- running ---------------------------------------------------------------------------------------------------------


def fuzz(name: str, reader: Reader, files: int, seed: int, keep: Path) -> Row:
    """Damage files and read them, some in each process."""
    row, begun = Row(name), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="twinnet-fuzz-") as folder:
        home = Path(folder)
        with _quiet():
            reader.make(home)
        good = sorted(p for p in home.glob(reader.files) if p.is_file())
        importlib.import_module("torch._dynamo")  # slow, and needed for an error: once, here
        reader.read(good[0])
        first = 0
        while first < files:
            last = min(first + BATCH, files)
            first = _batch(row, reader, good, range(first, last), seed, keep)
            print(f"\r{name}: {first} of {files}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    row.files, row.seconds = files, round(time.monotonic() - begun, 1)
    return row


def _batch(row: Row, reader: Reader, good: Sequence[Path], numbers: range, seed: int, keep: Path) -> int:
    """Read a batch in a child, and return the number to go on with: the one after the last, or after a crash."""
    answers, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(answers)
        try:
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            for number in numbers:
                os.write(theirs, (json.dumps([number, "start", ""]) + "\n").encode())
                answer = _one(reader, good, number, seed)
                os.write(theirs, (json.dumps([number, *answer]) + "\n").encode())
        finally:
            os._exit(0)
    os.close(theirs)
    current, next_number = numbers.start, numbers.start
    with os.fdopen(answers) as lines:
        for line in lines:
            current, what, text = json.loads(line)
            if what == "start":
                continue
            next_number = current + 1
            _count(row, what, text)
            if what in ("trace", "hang"):
                _keep(keep, row.reader, good, current, seed, text)
    _, status = os.waitpid(child, 0)
    if next_number >= numbers.stop:
        return next_number
    code = -os.waitstatus_to_exitcode(status)
    what = "hang" if code in (signal.SIGALRM, signal.SIGPROF) else "crash"
    _count(row, what, signal.Signals(code).name if code > 0 else f"exit {-code}")
    _keep(keep, row.reader, good, current, seed, what)
    return current + 1


def _one(reader: Reader, good: Sequence[Path], number: int, seed: int) -> tuple[str, str]:
    draw = random.Random(f"{seed}:{number}")
    path = draw.choice(list(good))
    whole = path.read_bytes()
    path.write_bytes(damaged(whole, draw))
    signal.setitimer(signal.ITIMER_PROF, HANG)
    signal.alarm(10 * HANG)
    try:
        with _quiet():
            reader.read(path)
    except (TwinnetError, OSError, MemoryError) as error:
        said = error if isinstance(error, TwinnetError) else machine_error(error)
        return "refused", type(said).__name__
    except BaseException:
        return "trace", traceback.format_exc()[-4000:]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
        path.write_bytes(whole)
    return "read", ""


def _count(row: Row, what: str, text: str) -> None:
    name = {"read": "read", "refused": "refused", "trace": "traces", "crash": "crashes", "hang": "hangs"}[
        what
    ]
    setattr(row, name, getattr(row, name) + 1)
    if text.strip():
        kind = text.strip().splitlines()[-1][:120]
        row.kinds[kind] = row.kinds.get(kind, 0) + 1


def _keep(keep: Path, reader: str, good: Sequence[Path], number: int, seed: int, text: str) -> None:
    """Make the file again, for whoever mends the reader."""
    draw = random.Random(f"{seed}:{number}")
    path = draw.choice(list(good))
    keep.mkdir(parents=True, exist_ok=True)
    stem = f"{reader.replace(' ', '-')}-{number}"
    (keep / f"{stem}-{path.name}").write_bytes(damaged(path.read_bytes(), draw))
    (keep / f"{stem}.txt").write_text(text)


@contextmanager
def _quiet() -> Iterator[None]:
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        yield


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz the named readers; 1 if anything but a reading or a refusal happened."""
    parser = argparse.ArgumentParser(description="Damaged files, thousands for each reader.")
    parser.add_argument("readers", nargs="*", metavar="READER", help=", ".join(READERS))
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--out", type=Path, default=ROOT / "bench-results")
    given = parser.parse_args(arguments)
    unknown = set(given.readers) - set(READERS)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(READERS)}")
    rows = [
        fuzz(name, READERS[name], given.files, given.seed, given.out / "fuzz")
        for name in given.readers or READERS
    ]
    print(
        f"{'reader':<16}{'files':>8}{'read':>8}{'refused':>9}{'traces':>8}{'crashes':>9}{'hangs':>7}{'s':>8}"
    )
    for row in rows:
        print(
            f"{row.reader:<16}{row.files:>8}{row.read:>8}{row.refused:>9}{row.traces:>8}{row.crashes:>9}"
            f"{row.hangs:>7}{row.seconds:>8.0f}"
        )
    given.out.mkdir(parents=True, exist_ok=True)
    atomic_write(given.out / "fuzz.json", json.dumps([asdict(row) for row in rows], indent=1).encode())
    return int(any(row.traces or row.crashes or row.hangs for row in rows))


if __name__ == "__main__":
    sys.exit(main())
