"""ETRecord: what a program was made from. It is a zip of JSON and pickles, of which only the JSON is read."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from twinnet.errors import UsageError
from twinnet.files import BAD_ARCHIVE

__all__ = ["Method", "Node", "Origin", "Record", "read_record"]

_MARK = "ETRECORD_V0"
_EDGE = "edge_dialect_exported_program"
_LARGEST = 1 << 29
_DEEPEST = 200
_CODES = {**{n: n - 1 for n in (*range(1, 9), 12)}, 13: 15}
"""Number formats: what a program's file calls 7 is 6 in an ETDump."""
_FRAME = re.compile(r'File "(?P<file>.+?)", line (?P<line>\d+)')
_CALL = re.compile(r"@(\d+)$")
_LIBRARY = re.compile(r"[/\\]torch[/\\](nn|functional|_|utils|ao|fx)")


@dataclass(frozen=True, slots=True)
class Origin:
    """A node of an earlier form of the program, by its name and operator there; `graph` tells these forms apart."""

    name: str
    op: str
    graph: int


@dataclass(frozen=True, slots=True)
class Node:
    """An operator of a program, and where it comes from.

    `outputs` are the names of its results, unused ones included; `origins` its ancestors, nearest first. `modules` is
    the hierarchy of modules around it: key, (path, class).
    """

    name: str
    op: str
    handle: int | None
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    stack_trace: str = ""
    modules: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    origins: tuple[Origin, ...] = ()

    @property
    def module(self) -> str:
        """The path of the innermost module."""
        return next(reversed(list(self.modules.values())), ("", ""))[0]

    @property
    def call(self) -> int:
        """Which call of that module it belongs to."""
        found = _CALL.search(next(reversed(list(self.modules)), ""))
        return int(found[1]) if found else 0

    @property
    def source(self) -> str:
        """The user's line, `file.py:LINE`: the innermost that is not PyTorch's own."""
        for frame in reversed(list(_FRAME.finditer(self.stack_trace))):
            if not _LIBRARY.search(frame["file"]):
                return f"{'/'.join(Path(frame['file']).parts[-2:])}:{frame['line']}"
        return ""


@dataclass(frozen=True, slots=True)
class Method:
    """One method: its operators before delegates took over, and what its instructions stand for."""

    nodes: tuple[Node, ...]
    handles: Mapping[int, tuple[int, ...]]
    """Debug handles of each instruction; several for a delegate."""
    backends: Mapping[int, str]
    """Names of the delegates, by instruction."""
    delegate_handles: Mapping[int, Mapping[str, tuple[int, ...]]]
    """Debug handles of the kernels inside a delegate, where its backend tells."""
    outs: Mapping[int, int]
    """How many of the logged values of an instruction are its results, where not all are."""
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Shapes of the values, those with open dimensions left out."""
    codes: Mapping[str, int] = field(default_factory=dict)
    """Number formats of the values, as an ETDump counts them."""


@dataclass(frozen=True)
class Record:
    """An ETRecord: its methods, and the program they were exported from, if it is there."""

    path: Path
    methods: Mapping[str, Method]
    exported: Method | None
    graph: int | None
    """Identifies the exported program among the origins of nodes."""
    held: frozenset[str]

    def method(self, name: str = "forward") -> Method:
        """One method; a UsageError names those there are."""
        if name not in self.methods:
            raise UsageError(
                f"{self.path} has no method {name!r}", hint=f"methods: {', '.join(self.methods) or 'none'}"
            )
        return self.methods[name]

    def origin(self, node: Node) -> str:
        """The name that a node's ancestor has in the exported program; empty if there is none."""
        if self.graph is None:
            return ""
        return next((o.name for o in node.origins if o.graph == self.graph), "")


def read_record(path: str | Path) -> Record:
    """Read an ETRecord. Weights and example inputs are pickles and are left alone."""
    path = Path(path)
    try:
        with zipfile.ZipFile(path) as archive:
            names = set(archive.namelist())
            if _MARK not in names:
                raise UsageError(f"{path} is not an ETRecord")
            maps = {
                key: _json(archive, key) if key in names else {}
                for key in ("debug_handle_map", "delegate_map", "instruction_id_to_num_outs_map")
            }
            found = [n.partition("/")[2] for n in sorted(names) if n.startswith(f"{_EDGE}/") or n == _EDGE]
            methods = [n for n in found if not n.endswith(("_state_dict", "_constants", "_example_inputs"))]
            made = {
                name or "forward": _method(
                    _json(archive, f"{_EDGE}/{name}" if name else _EDGE), maps, name or "forward"
                )
                for name in methods
            }
            graph = _json(archive, "export_graph_id") if "export_graph_id" in names else None
            whole = (
                _method(_json(archive, "exported_program"), {}, "") if "exported_program" in names else None
            )
    except FileNotFoundError:
        raise UsageError(f"no such file: {path}") from None
    except RecursionError:
        raise UsageError(f"{path} is not a readable ETRecord: it is nested too deeply") from None
    except BAD_ARCHIVE as error:
        raise UsageError(f"{path} is not a readable ETRecord: {error}"[:400]) from None
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise UsageError(f"{path} is not a readable ETRecord: {type(error).__name__} {error}"[:400]) from None
    return Record(path, made, whole, graph if isinstance(graph, int) else None, frozenset(names))


def _json(archive: zipfile.ZipFile, name: str) -> Any:
    member = archive.getinfo(name)
    if member.file_size > _LARGEST:
        raise ValueError(f"{name} would become {member.file_size} bytes")
    with archive.open(member) as file:
        return json.loads(file.read(_LARGEST))


def _method(data: Mapping[str, Any], maps: Mapping[str, Any], name: str) -> Method:
    graph = data["graph_module"]["graph"]
    handles = {int(i): _several(h) for i, h in maps.get("debug_handle_map", {}).get(name, {}).items()}
    delegates = maps.get("delegate_map", {}).get(name, {})
    outs = maps.get("instruction_id_to_num_outs_map", {}).get(name, {})
    return Method(
        tuple(_node(n) for n in graph["nodes"]),
        handles,
        {int(i): str(d.get("name") or "") for i, d in delegates.items()},
        {
            int(i): {str(k): _several(h) for k, h in (d.get("delegate_map") or {}).items()}
            for i, d in delegates.items()
        },
        {int(i): n for i, n in outs.items() if isinstance(n, int)},
        tuple(_named(graph["inputs"])),
        tuple(_named(graph["outputs"])),
        {str(n): shape for n, v in graph["tensor_values"].items() if (shape := _shape(v)) is not None},
        {str(n): _CODES.get(v["dtype"], -1) for n, v in graph["tensor_values"].items()},
    )


def _shape(value: Mapping[str, Any]) -> tuple[int, ...] | None:
    sizes = [size.get("as_int") for size in value["sizes"]]
    return tuple(sizes) if all(isinstance(n, int) for n in sizes) else None


def _several(handles: Any) -> tuple[int, ...]:
    return tuple(int(h) for h in handles) if isinstance(handles, list) else (int(handles),)


def _named(arguments: Any) -> list[str]:
    """The names of values among arguments, lists of them included."""
    found: list[str] = []
    for argument in arguments:
        held = argument.get("arg", argument)
        for key, value in held.items():
            if key in ("as_tensor", "as_sym_int") and isinstance(value, dict) and "name" in value:
                found.append(str(value["name"]))
            elif key == "as_tensors":
                found += [str(v["name"]) for v in value]
            elif key == "as_optional_tensors":
                found += [str(v["as_tensor"]["name"]) for v in value if isinstance(v.get("as_tensor"), dict)]
    return found


def _node(data: Mapping[str, Any]) -> Node:
    meta = data.get("metadata") or {}
    outputs = tuple(_named(data["outputs"]))
    handle = meta.get("debug_handle")
    return Node(
        str(data.get("name") or (outputs[0] if outputs else "")),
        _short(str(data["target"])),
        int(handle) if handle not in (None, "") else None,
        tuple(_named(data["inputs"])),
        outputs,
        str(meta.get("stack_trace") or ""),
        _modules(str(meta.get("nn_module_stack") or "")),
        _origins(meta.get("from_node")),
    )


def _short(target: str) -> str:
    """The operator without its dialect.

    >>> _short("executorch.exir.dialects.edge.ops.aten.mul.Tensor"), _short("torch.ops.aten.silu.default")
    ('aten.mul.Tensor', 'aten.silu.default')
    """
    return target.rpartition(".ops.")[2]


def _modules(text: str) -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    for part in text.split(";"):
        key, _, rest = part.partition(",")
        path, _, kind = rest.rpartition(",")
        if key:
            found[key] = (path, kind)
    return found


def _origins(text: Any) -> tuple[Origin, ...]:
    """The chain of ancestors; of several, the first is followed."""
    found: list[Origin] = []
    chain = json.loads(text) if isinstance(text, str) and text else []
    while chain and len(found) < _DEEPEST:
        found.append(
            Origin(str(chain[0]["name"]), str(chain[0]["target"]), int(chain[0].get("graph_id") or 0))
        )
        chain = chain[0].get("from_node")
    return tuple(found)
