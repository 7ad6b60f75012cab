"""Which versions of PyTorch twinnet works with, and everything that differs between them.

The rest of the package takes PyTorch's private names from here, so that what a version renames or drops is mended in
this file alone. Importing it raises an error for a PyTorch older than `OLDEST`; one newer than `NEWEST_TRIED` gets a
note.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeGuard

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from twinnet.errors import UsageError

__all__ = [
    "NEWEST_TRIED",
    "OLDEST",
    "TorchDispatchMode",
    "composites_kept",
    "export",
    "formula_functions",
    "is_higher_order",
    "is_operator",
    "module_stack_kept",
    "name_of_origin",
    "notes",
    "onnx_operators_kept",
    "operator_family",
    "program_schema",
    "pytree",
    "refuse_older",
    "register_quantised_operators",
    "registered_type",
    "undecomposed",
]

OLDEST = "2.9"
"""As pyproject.toml requires."""

NEWEST_TRIED = "2.15"
"""The newest version in the table of docs/torch-versions.md; `make torch-matrix` tries another."""


def refuse_older(version: str) -> None:
    """Raise a `UsageError` for a PyTorch that is too old.

    >>> refuse_older("2.9.0+cpu")
    >>> refuse_older("2.8.1")
    Traceback (most recent call last):
    twinnet.errors.UsageError: PyTorch 2.8.1 is too old: twinnet needs 2.9 or newer
      pip install 'torch>=2.9'
    """
    if _number(version) < _number(OLDEST):
        raise UsageError(
            f"PyTorch {version} is too old: twinnet needs {OLDEST} or newer",
            hint=f"pip install 'torch>={OLDEST}'",
        )


def notes() -> tuple[str, ...]:
    """A note for the result if the installed PyTorch is newer than any tested one."""
    if _number(torch.__version__) <= _number(NEWEST_TRIED):
        return ()
    return (
        f"PyTorch {torch.__version__} is newer than {NEWEST_TRIED}, the newest this version of twinnet was tested with",
    )


def _number(version: str) -> tuple[int, int]:
    """Major and minor of a version; builds of the day ("2.16.0.dev20260101") count as their version.

    >>> _number("2.13.0+cpu") < _number("2.16.0.dev20260101")
    True
    """
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def export(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ExportedProgram:
    """Export a module, in non-strict mode where possible.

    PyTorch 2.9 mistakes a recurrent layer that is the whole network for a module that assigns its own weights.

    >>> len(export(torch.nn.GRU(2, 3), (torch.ones(1, 2),), {}).graph_signature.parameters)
    4
    """
    strict = isinstance(module, torch.nn.RNNBase) and _number(torch.__version__) < (2, 10)
    return torch.export.export(module, args, kwargs, strict=strict)


def is_operator(target: Any) -> TypeGuard[OpOverload]:
    """Whether a node calls an operator that has a schema.

    >>> is_operator(torch.ops.aten.relu.default), is_operator(len)
    (True, False)
    """
    return isinstance(target, OpOverload)


def is_higher_order(target: Any) -> bool:
    """Whether a node calls an operator that takes graphs: a branch, a loop."""
    return isinstance(target, HigherOrderOperator)


def operator_family(target: Any) -> str:
    """The base name of an operator, without overload or variant.

    >>> operator_family(torch.ops.aten.split.Tensor), operator_family(torch.ops.aten.split_with_sizes.default)
    ('split', 'split')
    """
    packet = getattr(target, "_overloadpacket", target)
    return getattr(packet, "__name__", str(packet)).strip("_").partition("_")[0]


def name_of_origin(node: Any) -> str:
    """The name of the originally exported node that this node was made from."""
    origin = node.meta.get("from_node")
    return origin[-1].name if origin else node.name


def registered_type(name: object) -> Any:
    """The class that this process registered as a structure of inputs or outputs under a name, or None."""
    return pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE.get(name) if isinstance(name, str) else None


def formula_functions() -> frozenset[str]:
    """The functions that may stand in the sizes of an exported program, beside those of sympy."""
    # Loads sympy: only files with symbolic sizes pay for it.
    import torch.utils._sympy.functions as functions

    return frozenset(functions.__all__)


refuse_older(torch.__version__)


def register_quantised_operators() -> None:
    """Make the operators of quantised exported programs known to PyTorch."""
    import torch.ao.quantization.fx._decomposed  # noqa: F401


@contextmanager
def module_stack_kept() -> Iterator[None]:
    """Let an exception that is caught outside leave modules that are being exported.

    The tracer keeps a stack of the modules it is in, and takes them off only where they return.
    """
    from torch.fx.experimental.proxy_tensor import get_proxy_mode

    mode = get_proxy_mode()
    stack: dict[str, Any] = getattr(getattr(mode, "tracer", None), "module_stack", {})
    before = set(stack)
    try:
        yield
    except BaseException:
        for key in [key for key in stack if key not in before]:
            del stack[key]
        raise


_TABLES: dict[Any, Any] = {}
_KNOWN: set[str] = set()


@contextmanager
def onnx_operators_kept() -> Iterator[None]:
    """In this block PyTorch's table of what becomes which ONNX operator is made once for all networks.

    It is read from the sources of some 500 functions, otherwise again for each network: most of the time it takes to
    convert a small one. Operators that a package adds later, torchvision's for example, make another table.
    """
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    given = vars(ONNXRegistry)["from_torchlib"]

    def kept(cls: Any, *args: Any, **kwargs: Any) -> Any:
        known = len(torch._C._dispatch_get_all_op_names())
        key = (cls, known, args, tuple(sorted(kwargs.items())))
        if key not in _TABLES:
            _TABLES[key] = given.__func__(cls, *args, **kwargs)
        made = copy.copy(_TABLES[key])
        made.functions = {name: list(found) for name, found in made.functions.items()}
        return made

    with composites_kept(), _replaced(ONNXRegistry, "from_torchlib", classmethod(kept)):
        yield


def undecomposed(program: ExportedProgram) -> ExportedProgram:
    """The program in functional operators, none of which is taken apart: `program.run_decompositions({})`.

    PyTorch guards every composite operator it has for that, which takes much longer than the work on a small program.
    Those that occur in the program are enough, and those into which PyTorch takes others apart in any case.

    >>> program = torch.export.export(torch.nn.Linear(2, 3), (torch.ones(1, 2),))
    >>> [node.name for node in undecomposed(program).graph.nodes if node.op == "call_function"]
    ['linear']
    """
    import torch.export.exported_program as place

    splits = "_split_decomp_table_to_cia_and_python_decomp"
    known: Any = getattr(place, "_is_preservable_cia_op", None)
    keep = getattr(place, "_special_op_to_preserve_cia", None)
    if known is None or keep is None or not hasattr(place, splits):
        return program.run_decompositions({})

    def split(table: Any) -> tuple[dict[Any, Any], Any]:
        graphs = (m.graph for m in program.graph_module.modules() if isinstance(m, torch.fx.GraphModule))
        called = {node.target for graph in graphs for node in graph.nodes if is_operator(node.target)}
        choices = torch.ops.aten.where  # what becomes of hardshrink
        called.update(getattr(choices, name) for name in choices.overloads())
        return {operator: keep for operator in called if known(operator)}, table

    with _replaced(place, splits, split):
        return program.run_decompositions({})


@contextmanager
def composites_kept() -> Iterator[None]:
    """In this block PyTorch looks up its composite operators by name once, not for each namespace of each network."""
    from torch._export import utils

    name = "_materialize_cpp_cia_ops"
    look_up = getattr(utils, name, None)
    if look_up is None:
        yield
        return

    def once() -> None:
        named = torch._C._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd")
        if not _KNOWN.issuperset(named):
            look_up()
            _KNOWN.update(named)

    with _replaced(utils, name, once):
        yield


@contextmanager
def _replaced(holder: Any, name: str, value: Any) -> Iterator[None]:
    before = vars(holder)[name]
    setattr(holder, name, value)
    try:
        yield
    finally:
        setattr(holder, name, before)


def program_schema() -> tuple[int, int]:
    """The version of the format in which PyTorch writes exported programs."""
    from torch._export.serde.schema import SCHEMA_VERSION

    major, minor = SCHEMA_VERSION
    return major, minor
