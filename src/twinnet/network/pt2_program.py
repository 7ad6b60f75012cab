"""The program of a .pt2 file, rebuilt from parts that cannot run code.

PyTorch makes Python source of a program: names become variables and arguments, guards and sizes are evaluated as text,
and targets are looked up by attribute path. Every text in it is checked for where it goes; what is not known is left
out.
"""

from __future__ import annotations

import builtins
import json
import keyword
import math
import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import torch

from twinnet.errors import UsageError
from twinnet.network.formula import checked_formula
from twinnet.torch_versions import is_higher_order, is_operator, registered_type

__all__ = ["Unsafe", "is_plain", "is_variable", "rebuilt_program", "rebuilt_type"]


class Unsafe(UsageError):
    """What the file does that is not allowed, as the end of a sentence that begins with its path."""


_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,399}")
_PLAIN = re.compile(r"[\w .:/+@#-]{0,400}", re.ASCII)
_DUNDER = re.compile(r"__i?(and|or|xor|lshift|rshift)__(_\d+)?")
_OPERATORS = re.compile(
    "add|sub|mul|truediv|floordiv|mod|pow|neg|pos|abs|lt|le|gt|ge|eq|ne|and_|or_|xor|not_|lshift|rshift|getitem"
)
_NAMESPACES = {
    *("aten", "prims", "quantized", "_quantized", "quantization", "quantized_decomposed", "onednn", "mkldnn"),
    *("torchvision", "torchaudio", "sparse", "onnx", "onnx_symbolic", "export", "rngprims"),
}
# Operators of these namespaces that reach the file system.
_FORBIDDEN = ("from_file", "save", "load")
_HIGHER_ORDER = {
    *(
        "cond",
        "while_loop",
        "map",
        "map_impl",
        "scan",
        "associative_scan",
        "wrap",
        "strict_mode",
        "out_dtype",
    ),
    *("wrap_with_set_grad_enabled", "wrap_with_autocast", "tag_activation_checkpoint", "invoke_subgraph"),
    *("wrap_activation_checkpoint", "hints_wrapper", "flex_attention", "auto_functionalized"),
    "auto_functionalized_v2",
}
_CONTAINERS = ("builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict")
_FACTORIES = ("list", "dict", "set", "tuple", "int", "float", "str", "bool")
_MAPS = ("tensor_values", "sym_int_values", "sym_float_values", "sym_bool_values", "as_string_to_argument")
_METADATA = ("stack_trace", "nn_module_stack", "torch_fn", "from_node")


def rebuilt_program(program: dict[str, Any]) -> dict[str, Any]:
    """The program again, with checked texts only; raises `Unsafe`.

    Guards on the inputs are left out: they are Python code, and range constraints say the same of sizes.
    """
    rebuilt = _rebuilt("", program)
    rebuilt["guards_code"] = []
    ranges = program.get("range_constraints")
    if not isinstance(ranges, dict) or not all(checked_formula(name) for name in ranges):
        raise Unsafe("holds an expression that is not arithmetic in its range constraints")
    return rebuilt


def rebuilt_type(kind: Any) -> Any:
    """The type of a stored tensor: dtype, sizes, strides."""
    return _rebuilt("", kind)


def is_plain(text: object) -> bool:
    """Whether a text stays the same within quotes of any kind.

    >>> is_plain("layer1.conv-2"), is_plain("x'+'y")
    (True, False)
    """
    return isinstance(text, str) and _PLAIN.fullmatch(text) is not None


def is_variable(text: object) -> bool:
    """Whether a text may stand for a variable in Python source.

    >>> is_variable("x_1"), is_variable("x=1"), is_variable("__import__")
    (True, False, False)
    """
    if not isinstance(text, str) or _IDENTIFIER.fullmatch(text) is None or keyword.iskeyword(text):
        return False
    return not text.startswith("__") or _DUNDER.fullmatch(text) is not None


def _rebuilt(key: str, value: Any) -> Any:
    """A value of the JSON tree; `key` says what its texts mean, and texts of unknown meaning are left out."""
    if isinstance(value, str):
        return _TEXTS[key](value) if key in _TEXTS else None
    if isinstance(value, list):
        return [_rebuilt(key, item) for item in value]
    if not isinstance(value, dict):
        return value
    if key == "metadata":
        return {k: v for k, v in value.items() if k in _METADATA and isinstance(v, str)}
    if key in _MAPS:
        return {_plain(name): _rebuilt("", inner) for name, inner in value.items()}
    if "as_custom_obj" in value or "custom_obj" in value or value.get("custom_obj_values"):
        raise Unsafe("holds a pickled object")
    return {k: _entry(key, k, value) for k in value if k not in ("guards_code", "treespec_namedtuple_fields")}


def _entry(inside: str, key: str, parent: dict[str, Any]) -> Any:
    value = parent[key]
    if key == "name" and "arg" in parent:
        # The name of an operator's argument, which may be called self.
        if value not in (None, "") and not is_variable(value):
            raise Unsafe(f"has an argument called {value!r:.60}")
        return value
    if key == "as_string" and inside in ("inputs", "value"):
        # An argument of the network with a fixed value, which PyTorch writes between quotes.
        if not is_plain(value):
            raise Unsafe(f"holds a text that does not fit between quotes: {value!r:.60}")
        return value
    return _rebuilt(key, value)


def _variable(text: str) -> str:
    if not is_variable(text):
        raise Unsafe(f"holds a name that is not a variable: {text!r:.60}")
    return text


def _plain(text: str) -> str:
    if not is_plain(text):
        raise Unsafe(f"holds a name with characters that are not allowed: {text!r:.60}")
    return text


def _formula(text: str) -> str:
    found = checked_formula(text)
    if found is None:
        raise Unsafe(f"holds an expression that is not arithmetic, or too long: {text!r:.60}")
    return found


def _not_finite(text: str) -> str | None:
    """JSON has no number for these."""
    return text if text in ("Infinity", "-Infinity", "NaN") else None


def _operator(target: str) -> str:
    if not _is_operator(target):
        raise Unsafe(f"calls {target!r:.80}, which is not an operator of PyTorch")
    return target


def _is_operator(target: str) -> bool:
    parts = target.split(".")
    if not all(is_variable(part) or keyword.iskeyword(part) for part in parts):
        return False
    if parts[0] == "_operator":
        return len(parts) == 2 and _OPERATORS.fullmatch(parts[1]) is not None
    if parts[0] == "math":
        return len(parts) == 2 and callable(getattr(math, parts[1], None))
    if parts[0] != "torch":
        return False
    if len(parts) == 2:
        return parts[1].startswith(("sym_", "_sym_"))
    if parts[1] != "ops" or len(parts) not in (4, 5):
        return False
    namespace, name = parts[2:4]
    if name not in _HIGHER_ORDER if namespace == "higher_order" else namespace not in _NAMESPACES:
        return False
    found: Any = torch.ops
    for part in parts[2:]:
        if not hasattr(found, part):
            return name not in _FORBIDDEN  # not installed: torch names it when it loads the program
        found = getattr(found, part)
    return name not in _FORBIDDEN and (is_operator(found) or is_higher_order(found))


def _tree(text: str) -> str:
    """A structure of inputs or outputs: containers only, and no class or function to look up."""
    try:
        protocol, tree = json.loads(text)
        return json.dumps([int(protocol), _branch(tree, 0)])
    except (ValueError, TypeError, KeyError, RecursionError):
        raise Unsafe("has an input structure that is damaged") from None


def _branch(tree: Any, level: int) -> dict[str, Any]:
    kind, context, children = tree["type"], tree["context"], tree["children_spec"]
    made = [_branch(child, level + 1) for child in children]
    if kind is None:
        return {"type": None, "context": None, "children_spec": made}
    if kind in _CONTAINERS:
        keys = json.loads(context)
        if kind in _CONTAINERS[:2]:
            keys = None
        else:
            _check_keys(keys, made, variables=level == 1)
        return {"type": kind, "context": json.dumps(keys), "children_spec": made}
    if kind == "collections.deque":
        return {"type": kind, "context": json.dumps(_length(json.loads(context))), "children_spec": made}
    if kind == "collections.defaultdict":
        told = json.loads(context)
        told = told if isinstance(told, dict) else {}
        _check_keys(told.get("dict_context"), made, variables=False)
        module, name = told.get("default_factory_module"), told.get("default_factory_name")
        if module == "builtins" and name in _FACTORIES and hasattr(builtins, name):
            made_context = {
                "default_factory_module": module,
                "default_factory_name": name,
                "dict_context": told["dict_context"],
            }
            return {"type": kind, "context": json.dumps(made_context), "children_spec": made}
    if kind == "collections.namedtuple" and issubclass(registered_type(context) or int, tuple):
        return {"type": kind, "context": context, "children_spec": made}
    found = registered_type(kind)
    if is_dataclass(found):
        # PyTorch passes these to the class as keywords.
        told = json.loads(context)
        known = {field.name for field in fields(found)}
        if all(isinstance(part, list) and set(part) <= known for part in told):
            return {"type": kind, "context": json.dumps(told), "children_spec": made}
    raise Unsafe(f"names a Python class or function in its input structure ({kind!r:.60})")


def _length(value: Any) -> int | None:
    if value is None or (isinstance(value, int) and value >= 0):
        return value
    raise Unsafe("has an input structure that is damaged")


def _check_keys(keys: Any, children: list[Any], *, variables: bool) -> None:
    if not isinstance(keys, list) or len(keys) != len(children):
        raise Unsafe("has an input structure that is damaged")
    for key in keys:
        fits = is_variable(key) if variables and isinstance(key, str) else is_plain(key)
        if isinstance(key, (dict, list)) or (isinstance(key, str) and not fits):
            raise Unsafe(f"has an input called {key!r:.60}")


_TEXTS: dict[str, Callable[[str], Any]] = {
    "target": _operator,
    "as_operator": _operator,
    "expr_str": _formula,
    "in_spec": _tree,
    "out_spec": _tree,
    "name": _variable,
    "as_name": _variable,
    "user_input_name": _variable,
    "forward_arg_names": _variable,
    "as_string": str,  # written with repr()
    "as_strings": str,
    **dict.fromkeys(("as_float", "as_floats", "as_float_lists", "real", "imag"), _not_finite),
    **dict.fromkeys(
        (
            "fqn",
            "parameter_name",
            "buffer_name",
            "tensor_constant_name",
            "type",
            "verifiers",
            "torch_version",
        ),
        _plain,
    ),
}
"""What becomes of a text, by its key. A text with another key is left out."""
