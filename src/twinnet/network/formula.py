"""Sizes in exported programs are formulas as text. sympy evaluates that text as Python, so it is checked first."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from twinnet.torch_versions import formula_functions

__all__ = ["checked_formula"]

_LONGEST = 20_000
_MOST_NODES = 4_000
_DEEPEST = 100
_LARGEST_DEGREE = 128
_MOST_TERMS = 5_000
_SYMBOL = re.compile(r"[a-z]{1,4}\d{1,6}")
_SYMBOL_NAME = re.compile(r"[A-Za-z_]\w{0,63}", re.ASCII)
_NUMBER = re.compile(r"[+-]?[\d.]{1,40}(e[+-]?\d{1,3})?", re.ASCII)
_FORMULA = re.compile(
    "Symbol|Integer|Float|Rational|Add|Mul|Pow|Max|Min|Mod|Abs|Eq|Ne|Lt|Le|Gt|Ge|And|Or|Not|Equality|Unequality|"
    "LessThan|StrictLessThan|GreaterThan|StrictGreaterThan|Piecewise|ExprCondPair|floor|ceiling|oo|true|false|"
    "BooleanTrue|BooleanFalse"
)
_OPERATORS = (
    *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.BitAnd, ast.BitOr),
    *(ast.UAdd, ast.USub, ast.Not, ast.Invert, ast.And, ast.Or),
    *(ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE),
)
_POWERS = ("Pow", "PowByNatural", "FloatPow", "LShift", "RShift")


class _Refused(Exception):
    """The text is not a formula of bounded size."""


def checked_formula(text: object) -> str | None:
    """The formula again, written from its parsed form; None unless it is arithmetic that ends soon.

    Calls may only build formulas, strings may only name a symbol or spell a number, and powers are bounded: `9**9**9`
    would be computed as soon as it is read.

    >>> checked_formula("2*s0 + FloorDiv(s1, 3)")
    '2 * s0 + FloorDiv(s1, 3)'
    >>> checked_formula("open('x')"), checked_formula("9**9**9"), checked_formula("2^s0")
    (None, None, None)
    """
    if not isinstance(text, str) or not text.isascii() or len(text) > _LONGEST or _depth(text) > _DEEPEST:
        return None
    try:
        tree = ast.parse(text.strip(), mode="eval")
        if sum(1 for _ in ast.walk(tree)) > _MOST_NODES:
            return None
        _measure(tree.body)
        return ast.unparse(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError, _Refused):
        return None


def _depth(text: str) -> int:
    """The nesting of brackets, counted before anything is parsed."""
    deepest = depth = 0
    for char in text:
        depth += (char in "([{") - (char in ")]}")
        deepest = max(deepest, depth)
    return deepest


def _measure(node: ast.expr) -> tuple[int, int]:
    """Check a part of a formula; return its degree and its number of terms when multiplied out."""
    degree, terms = _sizes(node)
    if degree > _LARGEST_DEGREE or terms > _MOST_TERMS:
        raise _Refused
    return degree, terms


def _sizes(node: ast.expr) -> tuple[int, int]:
    match node:
        case ast.Constant(value=bool()):
            return 1, 1
        case ast.Constant(value=float()):
            return 1, 1
        case ast.Constant(value=int() as number) if abs(number) < 2**64:
            return 1, 1
        case ast.Name(id=name) if _SYMBOL.fullmatch(name) or _known(name):
            return 1, 1
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return _power(left, right)
        case ast.BinOp(left=left, op=op, right=right) if isinstance(op, _OPERATORS):
            return _joined([_measure(left), _measure(right)], product=not isinstance(op, (ast.Add, ast.Sub)))
        case ast.UnaryOp(op=op, operand=operand) if isinstance(op, _OPERATORS):
            return _measure(operand)
        case ast.BoolOp(values=values):
            return _joined([_measure(v) for v in values], product=False)
        case ast.Compare(left=left, ops=ops, comparators=others) if all(
            isinstance(o, _OPERATORS) for o in ops
        ):
            return _joined([_measure(v) for v in (left, *others)], product=False)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords) if _known(name):
            if any(k.arg is None or not _is_setting(k.value) for k in keywords):
                raise _Refused
            return _call(name, args)
    raise _Refused


def _is_setting(node: ast.expr) -> bool:
    """True, False, or the precision of a Float."""
    return isinstance(node, ast.Constant) and isinstance(node.value, int) and 0 <= node.value <= 1000


def _call(name: str, args: list[ast.expr]) -> tuple[int, int]:
    if name in ("Symbol", "Integer", "Float", "Rational"):
        allowed = _SYMBOL_NAME if name == "Symbol" else _NUMBER
        for value in _texts(args):
            if not allowed.fullmatch(value):
                raise _Refused
        plain = [a for a in args if not (isinstance(a, ast.Constant) and isinstance(a.value, str))]
        return _joined([_measure(a) for a in plain], product=False)
    if name in _POWERS:
        if len(args) != 2:
            raise _Refused
        return _power(*args)
    return _joined([_measure(a) for a in args], product=name == "Mul")


def _power(base: ast.expr, exponent: ast.expr) -> tuple[int, int]:
    """Only a number may be an exponent, or a symbol: what sympy cannot compute it leaves as it is."""
    degree, terms = _measure(base)
    value = _number(exponent)
    if value is None:
        if not _is_symbol(exponent):
            raise _Refused
        return degree, 1
    if abs(value) > _LARGEST_DEGREE:
        raise _Refused
    power = max(1, round(abs(value)))
    return degree * power, min(terms**power, _MOST_TERMS + 1)


def _number(node: ast.expr) -> float | None:
    match node:
        case ast.Constant(value=(int() | float()) as number):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            found = _number(inner)
            return None if found is None else -found
        case ast.Call(func=ast.Name(id="Integer"), args=[inner], keywords=[]):
            return _number(inner)
        case ast.Call(func=ast.Name(id="Rational"), args=[top, bottom], keywords=[]):
            a, b = _number(top), _number(bottom)
            return a / b if a is not None and b else None
        case ast.Call(func=ast.Name(id="Float"), args=[ast.Constant(value=str() as text), *_]) if (
            _NUMBER.fullmatch(text)
        ):
            return float(text)
    return None


def _is_symbol(node: ast.expr) -> bool:
    match node:
        case ast.Name(id=name):
            return _SYMBOL.fullmatch(name) is not None
        case ast.Call(func=ast.Name(id="Symbol")):
            _measure(node)
            return True
    return False


def _joined(parts: list[tuple[int, int]], *, product: bool) -> tuple[int, int]:
    degree, terms = 1, 1 if product else 0
    for d, t in parts:
        degree = degree + d if product else max(degree, d)
        terms = min(terms * t if product else terms + t, _MOST_TERMS + 1)
    return degree, max(1, terms)


def _texts(args: list[ast.expr]) -> Iterator[str]:
    return (a.value for a in args if isinstance(a, ast.Constant) and isinstance(a.value, str))


def _known(name: str) -> bool:
    return _FORMULA.fullmatch(name) is not None or name in formula_functions()
