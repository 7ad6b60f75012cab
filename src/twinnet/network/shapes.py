"""Shapes given by the user for dynamic inputs: parse them and apply them to a signature."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from twinnet.errors import UsageError
from twinnet.signature import Signature, TensorSpec, dims

__all__ = ["apply_shapes", "parse_shape", "parse_shapes", "unknown_input"]


def parse_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """The input's name ("" where none is given) and its dimensions.

    >>> parse_shape("x=1x3x640x640")
    ('x', (1, 3, 640, 640))
    >>> parse_shape("1x16000")
    ('', (1, 16000))
    """
    name, equals, sizes = text.rpartition("=")
    if sizes.strip().lower() in ("scalar", "()"):
        return name.strip(), ()
    if (equals and not name.strip()) or not re.fullmatch(r"\s*\d+\s*([x,×]\s*\d+\s*)*", sizes, re.IGNORECASE):
        raise UsageError(
            f"cannot read the shape {text!r}",
            hint="write NAME=DIMxDIMx..., for example --shape x=1x3x640x640",
        )
    return name.strip(), tuple(int(d) for d in re.split(r"[x,×]", sizes, flags=re.IGNORECASE))


def parse_shapes(texts: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """Several `--shape` values; one per input.

    >>> parse_shapes(["x=1x3x8x8", "h=2x1x4"])
    {'x': (1, 3, 8, 8), 'h': (2, 1, 4)}
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for text in texts:
        name, sizes = parse_shape(text)
        if name in shapes and shapes[name] != sizes:
            raise UsageError(
                f"--shape gives {name or 'the input'} twice, as {dims(shapes[name])} and {dims(sizes)}"
            )
        shapes[name] = sizes
    return shapes


def apply_shapes(
    signature: Signature, shapes: Mapping[str, Iterable[int]], *, force: bool = False
) -> Signature:
    """The signature with these shapes in place of its dynamic dimensions.

    The name "" stands for the only input. A dimension that the network fixes cannot be changed, unless
    `force` (a module's dimensions come from its example inputs only and are free). A named symbolic dimension
    is replaced wherever it occurs.

    >>> sig = Signature((TensorSpec("x", "float32", ("n", 3, "h", "w")), TensorSpec("m", "bool", ("n",))))
    >>> [str(s) for s in apply_shapes(sig, {"x": (2, 3, 8, 8)}).inputs]
    ['x: float32 2x3x8x8', 'm: bool 2']
    """
    known: dict[str, int] = {}
    given: dict[str, tuple[int, ...]] = {}
    for key, sizes in shapes.items():
        spec = _spec(signature, key)
        sizes = tuple(int(d) for d in sizes)
        given[spec.name] = sizes
        if force or spec.shape is None:
            continue
        if len(sizes) != len(spec.shape):
            raise UsageError(
                f"input {spec.name} has {len(spec.shape)} dimensions ({dims(spec.shape)}); "
                f"the shape {dims(sizes)} has {len(sizes)}"
            )
        for axis, (mine, theirs) in enumerate(zip(spec.shape, sizes)):
            if isinstance(mine, int) and mine != theirs:
                raise UsageError(
                    f"input {spec.name} is {dims(spec.shape)}: dimension {axis} is fixed at {mine}, "
                    f"the shape {dims(sizes)} has {theirs} there"
                )
            if isinstance(mine, str) and mine != "?" and known.setdefault(mine, theirs) != theirs:
                raise UsageError(
                    f"dimension {mine} is given as {known[mine]} and, in input {spec.name}, as {theirs}"
                )

    def filled(spec: TensorSpec) -> TensorSpec:
        if spec.shape is None:
            return spec
        return replace(spec, shape=tuple(known.get(d, d) if isinstance(d, str) else d for d in spec.shape))

    inputs = tuple(
        replace(spec, shape=given[spec.name]) if spec.name in given else filled(spec)
        for spec in signature.inputs
    )
    return replace(signature, inputs=inputs, outputs=tuple(filled(spec) for spec in signature.outputs))


def unknown_input(name: str, signature: Signature, *, where: str = "") -> UsageError:
    """The error for a name that is not an input of the network."""
    names = [spec.name for spec in signature.inputs]
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {close[0]}?" if close else f"its inputs are: {', '.join(names)}"
    return UsageError(f"{f'{where}: ' if where else ''}the network has no input {name!r}", hint=hint)


def _spec(signature: Signature, name: str) -> TensorSpec:
    if not name:
        needed = signature.required
        if len(needed) != 1:
            raise UsageError(
                f"a shape needs a name: the network has {len(needed)} inputs "
                f"({', '.join(s.name for s in needed)})",
                hint=f"for example --shape {needed[0].name if needed else 'x'}=1x3x640x640",
            )
        return needed[0]
    for spec in signature.inputs:
        if spec.name == name:
            return spec
    raise unknown_input(name, signature)
