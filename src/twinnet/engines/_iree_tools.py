"""IREE's programs: import, compile, run. Each is a process of its own, and what they make is cached by content."""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import metadata, util
from pathlib import Path

import numpy as np
import onnx

from twinnet.cache import cached_folder, content_key
from twinnet.engines._iree_model import FUNCTION, line_nodes
from twinnet.engines._process import start_program
from twinnet.engines.base import Job
from twinnet.errors import EngineError, MissingExtra

__all__ = ["Compiler", "Module", "iree_version", "run_module", "tool"]

IR = {
    "phases": ["--dump-compilation-phases-to={folder}"],
    "passes": ["--mlir-print-ir-after-all", "--mlir-print-ir-tree-dir={folder}"],
}
"""What `--debug-ir` asks the compiler for: one file per phase, or one per pass."""
_SHORT = ["--mlir-elide-elementsattrs-if-larger=50", "--mlir-elide-resource-strings-if-larger=50"]
_INLINE = 1 << 30
_RAW = {"bfloat16"}


@cache
def iree_version() -> str:
    """Version of the compiler; that of the runtime is added where it is another."""
    try:
        compiler, runtime = (metadata.version(f"iree-base-{part}") for part in ("compiler", "runtime"))
    except metadata.PackageNotFoundError:
        raise MissingExtra("iree", "iree") from None
    return compiler if compiler == runtime else f"{compiler} (runtime {runtime})"


@cache
def tool(name: str) -> str:
    """The path of one of IREE's programs, inside the packages that brought it."""
    homes = (("iree.compiler", "_mlir_libs"), ("iree._runtime_libs", ""))
    for package, folder in homes:
        spec = util.find_spec(package)
        for place in (spec.submodule_search_locations or ()) if spec else ():
            program = Path(place, folder, name)
            if program.is_file():
                return str(program)
    raise MissingExtra(f"iree ({name})", "iree")


@dataclass(frozen=True)
class Module:
    """A compiled module in the cache. `inputs` and `outputs` are in the order of its function."""

    folder: Path
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    dtypes: Mapping[str, tuple[str, tuple[int, ...] | None]]

    @property
    def file(self) -> Path:
        return self.folder / "module.vmfb"

    @cached_property
    def lines(self) -> dict[int, tuple[str, str]]:
        """Lines of the imported module to the ONNX node there: its name (or first output) and operator."""
        stored = json.loads((self.folder / "lines.json").read_text())
        return {int(line): (name, op) for line, (name, op) in stored.items()}


@dataclass(frozen=True)
class Compiler:
    """How networks are compiled: flags, time limit, and where the compiler's own IR is to be shown."""

    flags: tuple[str, ...]
    job: Job
    ir: str = "phases"
    ir_folder: Path | None = None

    def compile(self, model: onnx.ModelProto, inputs: Sequence[str], outputs: Sequence[str]) -> Module:
        """The module of a model, from the cache where it was compiled before."""
        data = model.SerializeToString(deterministic=True)
        key = content_key("iree", iree_version(), onnx.__version__, *self.flags, data)
        compiled = False

        def build(folder: Path) -> None:
            nonlocal compiled
            compiled = True
            self._build(model, folder, self.ir_folder)

        folder = cached_folder(key, build)
        if self.ir_folder is not None and not compiled:
            # What the cache holds was compiled without showing its IR.
            with tempfile.TemporaryDirectory(prefix="twinnet-iree-") as scratch:
                self._build(model, Path(scratch), self.ir_folder)
        return Module(folder, tuple(inputs), tuple(outputs), _types(model))

    def _build(self, model: onnx.ModelProto, folder: Path, ir: Path | None) -> None:
        with self.imported(model) as source:
            lines = {
                line: (model.graph.node[i].name or model.graph.node[i].output[0], model.graph.node[i].op_type)
                for line, i in line_nodes(source.read_text(), model.graph.node).items()
            }
            (folder / "lines.json").write_text(json.dumps(lines))
            shown: list[str] = []
            if ir is not None:
                shutil.rmtree(ir / self.ir, ignore_errors=True)
                (ir / self.ir).mkdir(parents=True)
                shown = [flag.format(folder=ir / self.ir) for flag in IR[self.ir]] + _SHORT
            with self.job.step("compile"):
                self.start(source, [*shown, "-o", str(folder / "module.vmfb")], lines)

    def start(self, source: Path, extra: Sequence[str], lines: Mapping[int, tuple[str, str]]) -> str:
        """Run the compiler over an imported module; what it prints."""
        arguments = [tool("iree-compile"), source.name, "--iree-input-type=onnx", *self.flags, *extra]
        return start_program(
            arguments,
            name="iree-compile",
            stage="compile the network",
            limit=self.job.time_limit,
            folder=source.parent,
            said=lambda log: diagnostic(log, lines),
        ).out

    @contextmanager
    def imported(self, model: onnx.ModelProto) -> Iterator[Path]:
        """The model as MLIR, in a folder that goes afterwards."""
        with tempfile.TemporaryDirectory(prefix="twinnet-iree-") as scratch:
            file, source = Path(scratch) / "network.onnx", Path(scratch) / "network.mlir"
            big = model.ByteSize() > _INLINE
            onnx.save(model, str(file), save_as_external_data=big, location="weights.bin" if big else None)
            module = ["-m", "iree.compiler.tools.import_onnx"]
            with self.job.step("import"):
                start_program(
                    [sys.executable, *module, str(file), "-o", str(source)],
                    name="iree-import-onnx",
                    stage="import the network",
                    limit=self.job.time_limit,
                    said=_exception,
                )
            yield source


def diagnostic(log: str, lines: Mapping[int, tuple[str, str]]) -> str:
    """The first error of a compiler's log: the ONNX node it stands at, then the compiler's words."""
    found = re.search(r"^\S*?:(\d+):\d+: error: (.*)$", log, re.M)
    if found is None:
        found = re.search(r"^(?:\S+: )?()error: (.*)$", log, re.M)
    if found is None:
        meaning = [line.strip() for line in log.splitlines() if line.strip()]
        return meaning[0] if meaning else ""
    name, op = lines.get(int(found[1] or 0), ("", ""))
    words = found[2]
    if not op:
        op = (re.search(r'"onnx\.(\w+)"', words) or ["", ""])[1]
    # What follows is the operation as MLIR prints it: in the log, not in the sentence.
    sentence = re.split(r": %|: \"|: '?builtin", words, maxsplit=1)[0].strip()
    place = f"node {name} ({op}): " if name else f"{op}: " if op else ""
    return place + sentence


def _exception(log: str) -> str:
    """The last line of a Python traceback."""
    lines = [line for line in log.splitlines() if line.strip() and not line.startswith(" ")]
    return lines[-1].strip() if lines else ""


def _types(model: onnx.ModelProto) -> dict[str, tuple[str, tuple[int, ...] | None]]:
    """dtype and, where it is fixed, shape of each output."""
    from twinnet.network.external import element_dtype

    found: dict[str, tuple[str, tuple[int, ...] | None]] = {}
    for info in model.graph.output:
        tensor = info.type.tensor_type
        dims = [d.dim_value if d.HasField("dim_value") else -1 for d in tensor.shape.dim]
        fixed = tuple(dims) if tensor.HasField("shape") and min(dims, default=0) >= 0 else None
        found[info.name] = (element_dtype(tensor.elem_type, info.name).name, fixed)
    return found


def run_module(
    module: Module,
    feeds: Mapping[str, np.ndarray],
    device: Sequence[str],
    job: Job,
    keep: Callable[[str, np.ndarray], None],
) -> None:
    """Run a module once; each output is handed to `keep` and then forgotten."""
    with tempfile.TemporaryDirectory(prefix="twinnet-iree-") as scratch, job.step("run"):
        home = Path(scratch)
        flags = [*device, f"--module={module.file}", f"--function={FUNCTION}"]
        flags += write_inputs(module, feeds, home)
        files = [
            home / f"out{i}.{'bin' if module.dtypes[n][0] in _RAW else 'npy'}"
            for i, n in enumerate(module.outputs)
        ]
        flags += [f"--output=@{file}" for file in files]
        # Hundreds of outputs would not fit on a command line.
        (home / "flags").write_text("\n".join(flags))
        start_program(
            [tool("iree-run-module"), f"--flagfile={home / 'flags'}"],
            name="iree-run-module",
            stage="run the network",
            limit=job.time_limit,
            said=_runtime_error,
        )
        for name, file in zip(module.outputs, files, strict=True):
            keep(name, _read(file, name, *module.dtypes[name]))
            file.unlink()


def write_inputs(module: Module, feeds: Mapping[str, np.ndarray], home: Path) -> list[str]:
    """Inputs as files, and the flags that name them."""
    flags = []
    for i, name in enumerate(module.inputs):
        if name not in feeds:
            raise EngineError(f"iree was given no input {name}", stage="run the network")
        np.save(home / f"in{i}.npy", np.ascontiguousarray(feeds[name]).reshape(feeds[name].shape))
        flags.append(f"--input=@{home / f'in{i}.npy'}")
    return flags


def _runtime_error(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if line.strip() and not line.startswith("EXEC ")]
    return lines[0] if lines else ""


def _read(file: Path, name: str, dtype: str, shape: tuple[int, ...] | None) -> np.ndarray:
    from twinnet.store import numpy_dtype

    wanted = numpy_dtype(dtype)
    if file.suffix == ".bin":
        if shape is None:
            raise EngineError(f"iree: {name} is {dtype} of unknown shape and cannot be read back")
        return np.fromfile(file, wanted).reshape(shape)
    array = np.load(file, allow_pickle=False)
    # IREE has integers without a sign; the model says which it meant.
    if array.dtype != wanted and array.dtype.kind in "iu" and array.dtype.itemsize == wanted.itemsize:
        array = array.view(wanted)
    return array
