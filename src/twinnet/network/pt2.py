"""Open a .pt2 file without running any code inside it.

`torch.export.load` unpickles some payloads without restriction, evaluates expressions as text and resolves operators
by attribute path. An untrusted file must not get that far, so the archive is inspected first: anything that needs
unrestricted unpickling, names code, or holds expressions beyond arithmetic is refused.
"""

from __future__ import annotations

import ast
import io
import json
import math
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from twinnet.errors import UsageError, foreign_as
from twinnet.progress import quiet
from twinnet.torch_versions import formula_functions, is_higher_order, is_operator

__all__ = ["load_pt2"]

_SYMBOL = re.compile(r"[a-z]{1,4}\d+")
_FORMULA = re.compile(
    "Symbol|Integer|Float|Rational|Add|Mul|Pow|Max|Min|Mod|Abs|Eq|Ne|Lt|Le|Gt|Ge|And|Or|Not|Equality|Unequality|"
    "LessThan|StrictLessThan|GreaterThan|StrictGreaterThan|Piecewise|ExprCondPair|floor|ceiling|oo|true|false|"
    "BooleanTrue|BooleanFalse"
)
_SYNTAX = (
    *(ast.Expression, ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.keyword, ast.Load),
    *(ast.operator, ast.unaryop, ast.cmpop, ast.boolop),
)
_OPERATORS = re.compile(
    "add|sub|mul|truediv|floordiv|mod|pow|neg|pos|abs|lt|le|gt|ge|eq|ne|and_|or_|xor|not_|lshift|rshift|getitem"
)
# Operators of torch that reach the file system.
_FORBIDDEN = ("from_file", "save", "load")


def load_pt2(path: Path) -> ExportedProgram:
    """Load the program in `path`; a `UsageError` if it is damaged, too new, or not safe to load."""
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
            if damaged:
                raise UsageError(f"{path} is damaged: {damaged} fails its checksum")
            _inspect(archive, path)
    except (zipfile.BadZipFile, OSError, EOFError) as error:
        raise UsageError(f"{path} is not a readable exported program: {error}") from error

    def refused(error: BaseException) -> UsageError:
        return UsageError(
            f"{path} cannot be loaded by PyTorch {torch.__version__}: {str(error) or type(error).__name__}",
            hint="an exported program is tied to the PyTorch that wrote it: save it again with this one",
        )

    with quiet("torch.export", "torch._export"), foreign_as(refused):
        return torch.export.load(path)


def _inspect(archive: zipfile.ZipFile, path: Path) -> None:
    names = archive.namelist()
    # torch looks members up without regard to case; a second one of a name could hide from this inspection.
    if (
        len({name.lower() for name in names}) != len(names)
        or len({name.split("/")[0] for name in names}) != 1
    ):
        raise _refused(path, "holds several members of one name, or several archives")
    members = {name.partition("/")[2].lower(): name for name in names}
    if any(member.startswith("data/aotinductor/") for member in members):
        raise _refused(path, "holds compiled machine code")
    if "models/model.json" not in members:
        raise UsageError(f"{path} holds no exported program called 'model'")
    for member, name in members.items():
        if member.endswith("_config.json") and member.startswith(("data/weights/", "data/constants/")):
            _check_payloads(archive, members, member, path)
        elif member.endswith(".pt"):
            _check_pickle(archive.read(name), path, member)
        elif member.startswith("models/"):
            _check_program(_json(archive.read(name), path, member), path)


def _check_payloads(archive: zipfile.ZipFile, members: dict[str, str], member: str, path: Path) -> None:
    folder = member.rpartition("/")[0]
    config = _json(archive.read(members[member]), path, member).get("config") or {}
    for entry in config.values() if isinstance(config, dict) else [None]:
        if not isinstance(entry, dict):
            raise UsageError(f"{path} is damaged: {member} does not list payloads")
        file = str(entry.get("path_name", "")).lower()
        if "/" in file or ".." in file:
            raise _refused(path, f"names a payload outside its folder ({file})")
        if file.startswith(("custom_obj", "opaque_obj")):
            raise _refused(path, f"holds a pickled object ({folder}/{file})")
        if entry.get("use_pickle"):
            if f"{folder}/{file}" not in members:
                raise UsageError(f"{path} is damaged: {folder}/{file} is missing")
            _check_pickle(archive.read(members[f"{folder}/{file}"]), path, f"{folder}/{file}")


def _check_pickle(data: bytes, path: Path, name: str) -> None:
    if not data:
        return
    with foreign_as(lambda _: _refused(path, f"needs unrestricted unpickling ({name})")):
        torch.load(io.BytesIO(data), weights_only=True, map_location="cpu")


def _check_program(program: dict[str, Any], path: Path) -> None:
    for key, value in _strings(program):
        if key == "target" and _looks_like_code(value) and not _is_operator(value):
            raise _refused(path, f"calls {value}, which is not an operator")
        if key == "expr_str" and not _is_arithmetic(value):
            raise _refused(path, f"holds an expression that is not arithmetic: {value[:60]}")
        if key in ("in_spec", "out_spec") and not _is_plain_tree(value):
            raise _refused(path, "names a Python class or function in its input structure")
    for symbol in program.get("range_constraints") or {}:
        if not _is_arithmetic(symbol):
            raise _refused(path, f"holds an expression that is not arithmetic: {symbol[:60]}")


def _strings(value: Any) -> Iterator[tuple[str, str]]:
    """Every (key, string) inside a JSON value, without recursion: graphs nest deeply."""
    stack: list[tuple[str, Any]] = [("", value)]
    while stack:
        key, value = stack.pop()
        if isinstance(value, str):
            yield key, value
        elif isinstance(value, dict):
            stack.extend(value.items())
        elif isinstance(value, list):
            stack.extend((key, item) for item in value)


def _looks_like_code(target: str) -> bool:
    """Whether a target is that of a node: the graph signature also has a key "target", for parameter names."""
    return target.startswith(("torch", "_operator", "math", "#"))


def _is_operator(target: str) -> bool:
    parts = target.split(".")
    if any(part.startswith("__") for part in parts):
        return False
    if parts[0] == "_operator":
        return len(parts) == 2 and _OPERATORS.fullmatch(parts[1]) is not None
    if parts[0] == "math":
        return len(parts) == 2 and callable(getattr(math, parts[1], None))
    if parts[0] != "torch":
        return target.startswith("#")
    if len(parts) == 2:
        return parts[1].startswith(("sym_", "_sym_"))
    if parts[1] != "ops":
        return False
    found: Any = torch.ops
    for part in parts[2:]:
        if not hasattr(found, part):
            return True  # an operator that is not installed: torch names it when it loads the program
        found = getattr(found, part)
    if is_operator(found):
        return found._schema.name.split("::")[1] not in _FORBIDDEN
    return is_higher_order(found)


def _is_arithmetic(text: str) -> bool:
    """Whether sympy, which evaluates text as Python, would only build a formula from it."""
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    functions = formula_functions()

    def known(name: str) -> bool:
        return _FORMULA.fullmatch(name) is not None or name in functions

    # Strings may name a symbol or spell a number; anywhere else sympy would evaluate them in turn.
    texts = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if not isinstance(node.func, ast.Name) or not known(node.func.id):
                return False
            if node.func.id in ("Symbol", "Integer", "Float", "Rational"):
                texts.update(id(a) for a in node.args if isinstance(a, ast.Constant) and _plain(a.value))
        elif isinstance(node, ast.Name):
            if not known(node.id) and not _SYMBOL.fullmatch(node.id):
                return False
        elif isinstance(node, ast.Constant):
            if not isinstance(node.value, (int, float)) and id(node) not in texts:
                return False
        elif not isinstance(node, _SYNTAX):
            return False
    return True


def _plain(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[\w.+-]{1,64}", value) is not None


def _is_plain_tree(text: str) -> bool:
    """Structures may name containers; not modules to import (defaultdict factories, enum classes)."""
    if "__enum__" in text:
        return False
    return all(m == "builtins" for m in re.findall(r'default_factory_module\\*"\s*:\s*\\*"([^"\\]*)', text))


def _json(data: bytes, path: Path, name: str) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except ValueError as error:
        raise UsageError(f"{path} is damaged: {name} is not valid JSON") from error
    if not isinstance(found, dict):
        raise UsageError(f"{path} is damaged: {name} is not a JSON object")
    return found


def _refused(path: Path, why: str) -> UsageError:
    return UsageError(
        f"{path} {why}; loading it could run code from the file, so it is refused",
        hint="give the network as code instead: file.py:factory",
    )
