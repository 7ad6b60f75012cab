"""Load samples that fit the network from `--inputs`, from Python objects, or make synthetic ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from twinnet.errors import UsageError
from twinnet.inputs.fit import fit_sample
from twinnet.inputs.images import ImageSource
from twinnet.inputs.reader import Reader
from twinnet.inputs.samples import Joined, Made
from twinnet.inputs.sources import FunctionSource, Source, describe_shapes
from twinnet.inputs.synthetic import Bounds
from twinnet.network.shapes import apply_shapes
from twinnet.pyfile import load_attribute
from twinnet.result import InputsInfo
from twinnet.signature import Signature, dims

__all__ = ["Inputs", "load_inputs"]

_MOST = 1_000_000
Preprocess = str | Callable[[Any], Any]


@dataclass(frozen=True)
class Inputs:
    """The samples of a check. `samples` can be indexed and iterated repeatedly; each is made on access.

    `notes` are for the report: casts, NaN, stretched images. `signature` has the shapes of the data in place of dynamic
    dimensions, if all samples agree.
    """

    samples: Sequence[dict[str, np.ndarray]]
    info: InputsInfo
    signature: Signature
    notes: tuple[str, ...] = ()


def load_inputs(
    signature: Signature,
    sources: Any = (),
    *,
    shapes: Mapping[str, Iterable[int]] | None = None,
    preprocess: Preprocess | None = None,
    seed: int = 0,
    samples: int | None = None,
    bounds: Bounds | None = None,
) -> Inputs:
    """Load the samples from `sources`, checked against `signature`.

    `sources` are strings (a folder of images, an image, .npy, .npz, .safetensors, `file.py:samples`, each of
    them also as `NAME=...`, or `NAME=NUMBER`), or a Python object: an array, a dict, a tuple of arguments, a
    list or generator of samples. Without sources the samples are synthetic, made from `seed`, with integers
    inside `bounds`. `samples` is how many to take, or to make.

    >>> from twinnet.signature import TensorSpec
    >>> inputs = load_inputs(Signature((TensorSpec("x", "float32", (1, 3, 8, 8)),)))
    >>> inputs.info.description, len(inputs.samples)
    ('2 synthetic samples, seed 0, 1x3x8x8', 2)
    """
    if samples is not None and samples < 1:
        raise UsageError(f"{samples} samples are not enough for a check", hint="at least 1 is needed")
    if samples is not None and samples > _MOST:
        raise UsageError(f"{samples} samples are too many for a check", hint=f"at most {_MOST}")
    if seed < 0:
        raise UsageError(f"the seed {seed} is negative", hint="a seed is 0 or more")
    if shapes:
        signature = apply_shapes(signature, shapes)
    function = _preprocess(preprocess)
    notes: dict[str, None] = {}
    found = Reader(signature, function, samples, notes).read(sources)
    if all(source.constant for source in found):
        if function is not None:
            raise UsageError("--preprocess needs --inputs: there is nothing to preprocess")
        values = {name: value for source in found for name, value in source.get(0).items()}
        stated = replace(signature, inputs=tuple(s for s in signature.inputs if s.name in values))
        fixed = fit_sample(stated, values, "--inputs", notes)
        return _synthetic(Made(signature, fixed, seed, samples or 2, bounds), tuple(notes))
    made = Joined(signature, found, samples)
    return _inputs(signature, made, found, notes)


def _synthetic(made: Made, notes: tuple[str, ...]) -> Inputs:
    first = made[0]
    what = "sample" if len(made) == 1 else "samples"
    given = "".join(f", {name} given" for name in made.fixed)
    info = InputsInfo(
        len(made),
        f"seed {made.seed}",
        True,
        {name: dims(array.shape) for name, array in first.items()},
        "",
        f"{len(made)} synthetic {what}, seed {made.seed}, {describe_shapes(first)}{given}",
    )
    return Inputs(made, info, _concrete(made.signature, first), notes)


def _inputs(signature: Signature, made: Joined, found: Sequence[Source], notes: dict[str, None]) -> Inputs:
    # Arrays are all checked; of pictures only the headers and the first sample.
    eager = not any(isinstance(source, (ImageSource, FunctionSource)) for source in found)
    seen = [_shapes(made.fitted(i, notes)) for i in range(len(made) if eager else 1)]
    shapes = {
        name: dims(shape) if all(s.get(name) == shape for s in seen) else "varies"
        for name, shape in seen[0].items()
    }
    pictures = next((s for s in found if isinstance(s, ImageSource)), None)
    prepared = next((s for s in found if isinstance(s, FunctionSource)), None)
    used = made.fitted(0, {})
    if pictures is not None:
        if len(made) * pictures.per_sample < len(pictures.paths):
            pictures = replace(pictures, paths=pictures.paths[: len(made) * pictures.per_sample])
        description = pictures.describe(shapes[pictures.spec.name])
        preprocessing = pictures.preprocessing
    else:
        what = "sample" if len(made) == 1 else "samples"
        several = "several shapes" if "varies" in shapes.values() else describe_shapes(used)
        description = f"{len(made)} {what} from {_labels(found)}, {several}"
        preprocessing = f"by {prepared.name}" if prepared is not None else ""
    info = InputsInfo(len(made), _labels(found), False, shapes, preprocessing, description)
    concrete = _concrete(signature, used) if "varies" not in shapes.values() else signature
    return Inputs(made, info, concrete, tuple(notes))


def _shapes(sample: Mapping[str, np.ndarray]) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in sample.items()}


def _labels(found: Sequence[Source]) -> str:
    labels = list(dict.fromkeys(source.label for source in found))
    return ", ".join(labels[:3]) + (f" and {len(labels) - 3} more" if len(labels) > 3 else "")


def _concrete(signature: Signature, first: Mapping[str, np.ndarray]) -> Signature:
    inputs = tuple(
        replace(
            spec,
            shape=first[spec.name].shape,
            dtype=first[spec.name].dtype.name if spec.dtype != "str" else "str",
        )
        if spec.name in first
        else spec
        for spec in signature.inputs
    )
    return replace(signature, inputs=inputs)


def _preprocess(preprocess: Preprocess | None) -> Callable[[Any], Any] | None:
    if isinstance(preprocess, str):
        return load_attribute(preprocess, what="preprocessing function")
    if preprocess is not None and not callable(preprocess):
        raise UsageError(f"the preprocessing is a {type(preprocess).__name__}, not a function")
    return preprocess
