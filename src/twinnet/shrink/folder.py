"""The folder of a repro: networks, inputs, expected values, `repro.py` and `ISSUE.md`."""

from __future__ import annotations

import inspect
import io
import pprint
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from twinnet.children import start_child, stop_child
from twinnet.engines import known_engine, standalone_of
from twinnet.environment import version_of
from twinnet.errors import UsageError
from twinnet.files import atomic_write, whole_folder
from twinnet.report.figures import clean
from twinnet.report.quoting import docstring
from twinnet.shrink import script
from twinnet.shrink.seed import Runner

__all__ = ["Contents", "check_target", "describe", "start", "write_folder"]

_OURS = {
    "repro.py", "ISSUE.md", "network.onnx", "twin.onnx", "twin.tflite", "inputs.npz", "expected.npz", "observed.npz",
    "network.npz", "twin.npz",
}  # fmt: skip


@dataclass
class Contents:
    """The contents of the folder. `spec` is the data that `repro.py` works on, `body` the function it calls."""

    title: str
    issue: str
    spec: dict[str, Any]
    body: Callable[..., int]
    about: str
    inputs: Mapping[str, np.ndarray]
    network: onnx.ModelProto | None = None
    twin: onnx.ModelProto | None = None
    arrays: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)
    engines: Sequence[str] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)
    sources: Sequence[Any] = ()
    """Functions and classes whose source goes into `repro.py` instead of the usual helpers."""
    repaired: Contents | None = None
    """The same with its cause repaired, to be run once and not kept."""


def check_target(folder: Path) -> None:
    """Raise if the folder holds other files: those of the user are never overwritten."""
    if folder.is_file():
        raise UsageError(f"{folder} is a file", hint="choose another folder with -o")
    found = {p.name for p in folder.iterdir()} if folder.is_dir() else set[str]()
    strange = sorted(found - _OURS - {"__pycache__", ".writing"})
    if strange:
        raise UsageError(f"{folder} holds other files ({strange[0]})", hint="choose another folder with -o")


def write_folder(folder: Path, contents: Contents) -> None:
    """Write the folder whole, in place of an earlier repro there; `repro.py` comes last."""
    with whole_folder(folder, last="repro.py", ours=_OURS) as stage:
        written = []
        for name, model in (("network.onnx", contents.network), ("twin.onnx", contents.twin)):
            if model is not None:
                written.append(atomic_write(stage / name, model.SerializeToString()))
        for name, data in contents.files.items():
            written.append(atomic_write(stage / name, data))
        written.append(_npz(stage / "inputs.npz", contents.inputs))
        for name, arrays in contents.arrays.items():
            written.append(_npz(stage / name, arrays))
        issue = _to_do([path.name for path in written]) + contents.issue
        atomic_write(stage / "ISSUE.md", issue.encode())
        atomic_write(stage / "repro.py", _program(contents).encode())


def _to_do(files: Sequence[str]) -> str:
    """What to do with the folder, as a comment that a posted issue does not show."""
    lines = [
        "<!-- What to do with this folder:",
        "     run     python repro.py, where the twin is installed; twinnet is not needed",
        "     post    this text, as an issue for whoever maintains the twin",
        f"     attach  {', '.join(['repro.py', *files])}",
        "     Look through them first: they may hold parts of your network and your data. twinnet repro --confidential",
        "     replaces both as far as the fault still shows. -->",
    ]
    return "\n".join(lines) + "\n\n"


def _npz(path: Path, arrays: Mapping[str, np.ndarray]) -> Path:
    for name, array in arrays.items():
        if array.dtype.kind not in "fiubc":
            raise UsageError(f"{name} has dtype {array.dtype}, which a .npz file cannot hold")
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)  # type: ignore[arg-type]
    return atomic_write(path, buffer.getvalue())


def _program(contents: Contents) -> str:
    sides = {name: side for name in contents.engines if (side := standalone_of(name)) is not None}
    helpers = [script.beyond, script.report, script.turned]
    if contents.body is script.expect_refusal:
        helpers = [script.normalised]
    called = dict.fromkeys(f for side in sides.values() for f in (*side.helpers, side.run))
    parts = (*called, *(contents.sources or helpers), contents.body)
    sources = [inspect.getsource(f) for f in parts]
    further = ["import json", "from dataclasses import dataclass, field", "from itertools import product"]
    table = "{" + ", ".join(f'"{name}": {side.run.__name__}' for name, side in sides.items()) + "}"
    about = textwrap.fill(contents.about, 110)
    return "\n".join(
        [
            f'"""{docstring(clean(contents.title))}',
            "",
            "What to do with it: run it where the twin is installed (python repro.py); twinnet is not needed.",
            "To report the fault, post the text of ISSUE.md and attach the other files of this folder.",
            "",
            docstring(about),
            "",
            "Exit code: 1 while the fault exists, 0 when it is gone, 3 if a side cannot run.",
            '"""',
            "",
            "from __future__ import annotations",
            "",
            *(further if contents.sources else []),
            "import sys",
            "from pathlib import Path",
            *(["from types import SimpleNamespace"] if contents.sources else []),
            "from typing import Any",
            "",
            "try:",
            "    import numpy as np",
            "except ImportError as error:",
            '    print(f"it cannot run: {error}")',
            "    sys.exit(3)",
            "",
            f"SPEC: dict[str, Any] = {pprint.pformat(contents.spec, width=108, sort_dicts=False)}",
            "",
            "",
            "\n\n".join(sources),
            "",
            'if __name__ == "__main__":',
            "    try:",
            f"        code = {contents.body.__name__}(SPEC, {table}, Path(__file__).resolve().parent)",
            "    except Exception as error:  # Python's own exit code for this is 1, which here means something else",
            '        print(f"it cannot run: {type(error).__name__}: {error}")',
            "        code = 3",
            "    sys.exit(code)",
            "",
        ]
    )


def start(folder: Path) -> tuple[int, str]:
    """Run the `repro.py` of a folder in a fresh Python; return its exit code and its output."""
    command = [sys.executable, "-I", str(folder / "repro.py")]
    child = start_child(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, err = child.communicate(timeout=300)
    except subprocess.TimeoutExpired:
        return 3, "it did not end within 300 s"
    finally:
        stop_child(child)
    # A file that fails to load also exits with 1, but shows no fault.
    broken = child.returncode == 1 and "Traceback (most recent call last)" in err
    return 3 if broken else child.returncode, (out + err).strip()


def describe(model: onnx.ModelProto, limit: int = 12) -> str:
    """The nodes of a small network as text, with the shapes of its weights."""
    shapes = {t.name: "x".join(map(str, t.dims)) or "scalar" for t in model.graph.initializer}
    lines = [f"{i.name}: input {_tensor(i.type.tensor_type)}" for i in model.graph.input]
    lines += [f"{name}: weight {dims}" for name, dims in list(shapes.items())[:limit]]
    for node in list(model.graph.node)[:limit]:
        attributes = ", ".join(f"{a.name}={_attribute(a)}" for a in node.attribute)
        domain = f"{node.domain}." if node.domain not in ("", "ai.onnx") else ""
        lines.append(
            f"{', '.join(node.output)} = {domain}{node.op_type}({', '.join(node.input)})"
            + (f" <{attributes}>" if attributes else "")
        )
    if len(model.graph.node) > limit:
        lines.append(f"... and {len(model.graph.node) - limit} more nodes")
    opsets = ", ".join(f"{o.domain or 'ai.onnx'} {o.version}" for o in model.opset_import)
    return "\n".join([*lines, f"opset {opsets}"])


def _tensor(kind: onnx.TypeProto.Tensor) -> str:
    dims = "x".join(str(d.dim_value) for d in kind.shape.dim) or "scalar"
    return f"{onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type).name} {dims}"


def _attribute(attribute: onnx.AttributeProto) -> str:
    if attribute.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.TENSOR, onnx.AttributeProto.GRAPHS):
        return "..."
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return str(list(value)) if hasattr(value, "__len__") and not isinstance(value, str) else str(value)


def packages(sides: Sequence[Runner]) -> dict[str, str]:
    """The packages that `repro.py` needs, with their versions."""
    found = {"numpy": np.__version__}
    for side in sides:
        engine, alone = known_engine(side.engine), standalone_of(side.engine)
        for package in alone.packages if alone is not None else ():
            of_engine = engine is not None and package in engine.packages
            # The version of a side comes from the run folder, and a person pastes this line into a shell.
            told = re.match(r"[\w.+!-]*", side.version)
            found[package] = (told[0] if told and of_engine else version_of(package)) or ""
    return found
