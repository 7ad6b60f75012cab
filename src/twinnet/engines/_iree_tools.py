"""IREE's programs: import, compile, run. Each runs as a separate process; results are cached by content."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import metadata, util
from pathlib import Path

import numpy as np
import onnx

from twinnet.cache import cached_folder, content_key
from twinnet.engines._compiled_model import tensor_types
from twinnet.engines._iree_alone import iree_problem
from twinnet.errors import EngineError, MissingExtra, UsageError
from twinnet.job import Job
from twinnet.programs.place import Room
from twinnet.programs.start import Task, start_program
from twinnet.scratch import scratch_folder

__all__ = ["Compiler", "Module", "Node", "iree_version", "run_module", "tool", "write_inputs"]

_IR = {
    "phases": ["--dump-compilation-phases-to={folder}"],
    "passes": ["--mlir-print-ir-after-all", "--mlir-print-ir-tree-dir={folder}"],
}
_SHORT = ["--mlir-elide-elementsattrs-if-larger=50", "--mlir-elide-resource-strings-if-larger=50"]
_MARK = ".written-by-twinnet"
_INLINE = 1 << 30
_RAW = {"bfloat16"}


@cache
def iree_version() -> str:
    """Version of the compiler, and of the runtime if it differs."""
    try:
        compiler, runtime = (metadata.version(f"iree-base-{part}") for part in ("compiler", "runtime"))
    except metadata.PackageNotFoundError:
        raise MissingExtra("iree", "iree") from None
    return compiler if compiler == runtime else f"{compiler} (runtime {runtime})"


@cache
def tool(name: str) -> str:
    """The path of one of IREE's programs inside its package."""
    homes = (("iree.compiler", "_mlir_libs"), ("iree._runtime_libs", ""))
    for package, folder in homes:
        spec = util.find_spec(package)
        for place in (spec.submodule_search_locations or ()) if spec else ():
            program = Path(place, folder, name)
            if program.is_file():
                return str(program)
    raise MissingExtra(f"iree ({name})", "iree")


@dataclass(frozen=True, slots=True)
class Node:
    """An ONNX node that the compiler was given."""

    name: str
    op: str
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Module:
    """A compiled module in the cache. `inputs` and `outputs` are in the order of its function."""

    folder: Path
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    types: Mapping[str, tuple[str, tuple[int, ...] | None]]

    @property
    def file(self) -> Path:
        """What iree-run-module loads."""
        return self.folder / "module.vmfb"


@dataclass(frozen=True)
class Compiler:
    """How networks are compiled: flags, job, and which IR the compiler writes."""

    flags: tuple[str, ...]
    job: Job
    ir: str = "phases"

    def compile(
        self, model: onnx.ModelProto, inputs: Sequence[str], outputs: Sequence[str], show: Path | None = None
    ) -> Module:
        """Compile a model, or take it from the cache; the compiler's IR is written to `show`."""
        data = model.SerializeToString(deterministic=True)
        key = content_key("iree", iree_version(), onnx.__version__, *self.flags, data)
        compiled = False

        def build(folder: Path) -> None:
            nonlocal compiled
            compiled = True
            self._build(model, folder / "module.vmfb", show)

        folder = cached_folder(key, build)
        if show is not None and not compiled:
            # The cached module was compiled without writing its IR.
            with scratch_folder("iree") as scratch:
                self._build(model, Path(scratch) / "module.vmfb", show)
        return Module(folder, tuple(inputs), tuple(outputs), tensor_types(model.graph.output))

    def _build(self, model: onnx.ModelProto, target: Path, show: Path | None) -> None:
        with self.imported(model) as (source, nodes), self._shown(show) as flags:
            self.start(source, nodes, [*flags, "-o", str(target)])

    @contextmanager
    def _shown(self, show: Path | None) -> Iterator[list[str]]:
        """Flags that make the compiler write its IR, which replaces the IR of an earlier run.

        It is also kept when the compiler fails.
        """
        if show is None:
            yield []
            return
        show = show.absolute()  # the compiler runs in another folder
        final = show / self.ir
        if final.exists() and not (final / _MARK).exists():
            raise UsageError(f"{final} holds other files", hint="give --debug-ir another folder")
        show.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{self.ir}-", dir=show))
        try:
            yield [flag.format(folder=made) for flag in _IR[self.ir]] + _SHORT
        finally:
            (made / _MARK).touch()
            shutil.rmtree(final, ignore_errors=True)
            made.replace(final)

    def start(self, source: Path, nodes: Mapping[int, Node], extra: Sequence[str]) -> str:
        """Run the compiler over an imported module; returns what it said."""
        limit = self.job.limit_of("compile")
        task = Task("iree-compile", "compile the network", limit, lambda log: _diagnostic(log, nodes))
        with self.job.step("compile"):
            line = [tool("iree-compile"), source.name, *self.flags, *extra]
            return start_program(line, task, folder=source.parent).log

    @contextmanager
    def imported(self, model: onnx.ModelProto) -> Iterator[tuple[Path, dict[int, Node]]]:
        """The model as MLIR in a temporary folder, and the ONNX node of each line."""
        with scratch_folder("iree") as scratch:
            file, source = Path(scratch) / "network.onnx", Path(scratch) / "network.mlir"
            big = model.ByteSize() > _INLINE
            onnx.save(model, str(file), save_as_external_data=big, location="weights.bin" if big else None)
            module = ["-m", "iree.compiler.tools.import_onnx"]
            task = Task("iree-import-onnx", "import the network", self.job.limit_of("import"), iree_problem)
            with self.job.step("import"):
                start_program([sys.executable, *module, str(file), "-o", str(source)], task)
            every = model.graph.node
            nodes = {
                line: Node(every[i].name or every[i].output[0], every[i].op_type, tuple(every[i].output))
                for line, i in _line_nodes(source.read_text(), every).items()
            }
            yield source, nodes


def _diagnostic(log: str, nodes: Mapping[int, Node]) -> str:
    """The first error of a compiler's log, with its ONNX node if known."""
    said = iree_problem(log)
    found = re.search(r":(\d+):\d+: error: ", log)
    node = nodes.get(int(found[1])) if found else None
    if node is None:
        return said
    return f"node {node.name} ({node.op}): {said.removeprefix(f'{node.op}: ')}"


_LINE = re.compile(r'^    (?:%[\w:]+(?:, )?)*(?: = )?torch\.operator "onnx\.(\w+)"')


def _line_nodes(text: str, nodes: Sequence[onnx.NodeProto]) -> dict[int, int]:
    """Map lines of an imported module to the index of their ONNX node.

    The importer writes one line per node, in the graph's order, and extra lines for constants. After the first line
    whose operator type does not match, the rest stays unknown.
    """
    found: dict[int, int] = {}
    wanted = [i for i, node in enumerate(nodes) if node.op_type != "Constant"]
    at = 0
    for number, line in enumerate(text.splitlines(), 1):
        match = _LINE.match(line)
        if match is None or match[1] == "Constant":
            continue
        if at >= len(wanted) or nodes[wanted[at]].op_type != match[1]:
            break
        found[number] = wanted[at]
        at += 1
    return found


def run_module(
    module: Module,
    feeds: Mapping[str, np.ndarray],
    device: Sequence[str],
    room: Room,
    job: Job,
    keep: Callable[[str, np.ndarray], None],
) -> None:
    """Run a module once in a room; each output is passed to `keep` and then freed."""
    with tempfile.TemporaryDirectory(dir=room.folder) as made, job.step("run"):
        home = Path(made)
        (home / "made").mkdir()
        flags = [
            f"--module={room.give(module.file)}",
            *device,
            *write_inputs(module, feeds, home, room.there),
        ]
        files = [
            home / "made" / f"out{i}.{'bin' if module.types[n][0] in _RAW else 'npy'}"
            for i, n in enumerate(module.outputs)
        ]
        flags += [f"--output=@{room.there(file)}" for file in files]
        # Hundreds of outputs would not fit on a command line.
        (home / "flags").write_text("\n".join(flags))
        task = Task("iree-run-module", "run the network", job.limit_of("run"), iree_problem)
        room.push(home)
        program = "iree-run-module" if job.place.name else tool("iree-run-module")
        room.start([program, f"--flagfile={room.there(home / 'flags')}"], task)
        room.pull(home / "made")
        for name, file in zip(module.outputs, files, strict=True):
            keep(name, _read(file, name, *module.types[name]))
            file.unlink()


def write_inputs(
    module: Module, feeds: Mapping[str, np.ndarray], home: Path, there: Callable[[Path], str] = str
) -> list[str]:
    """Write the inputs to files; returns the flags for function and inputs, with the names that `there` gives files."""
    flags = ["--function=network"]
    for i, name in enumerate(module.inputs):
        if name not in feeds:
            raise EngineError(f"iree was given no input {name}", stage="run the network")
        np.save(home / f"in{i}.npy", feeds[name])
        flags.append(f"--input=@{there(home / f'in{i}.npy')}")
    return flags


def _read(file: Path, name: str, dtype: str, shape: tuple[int, ...] | None) -> np.ndarray:
    from twinnet.store import numpy_dtype

    wanted = numpy_dtype(dtype)
    if file.suffix == ".bin":
        if shape is None:
            raise EngineError(f"iree: {name} is {dtype} of unknown shape and cannot be read back")
        return np.fromfile(file, wanted).reshape(shape)
    array = np.load(file, allow_pickle=False)
    # IREE integers are signless; the model declares the sign.
    if array.dtype != wanted and array.dtype.kind in "iu" and array.dtype.itemsize == wanted.itemsize:
        array = array.view(wanted)
    return array
