"""Stated shapes."""

from __future__ import annotations

import pytest

from twinnet.errors import UsageError
from twinnet.network import apply_shapes, parse_shape, parse_shapes
from twinnet.signature import Signature, TensorSpec

SIG = Signature(
    (TensorSpec("x", "float32", ("n", 3, "h", "w")), TensorSpec("m", "bool", ("n", "?"))),
    (TensorSpec("y", "float32", ("n", "h")),),
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x=1x3x640x640", ("x", (1, 3, 640, 640))),
        ("1x3x640x640", ("", (1, 3, 640, 640))),
        ("Iterator:0=1X2", ("Iterator:0", (1, 2))),
        ("x=5", ("x", (5,))),
        ("x=1,3,8", ("x", (1, 3, 8))),
        ("sr=scalar", ("sr", ())),
        ("x=0x3", ("x", (0, 3))),
    ],
)
def test_text_forms(text, expected):
    assert parse_shape(text) == expected


@pytest.mark.parametrize("text", ["", "x=", "=1x2", "x=1xax3", "x=1x-2", "x=1.5", "x=1xx2"])
def test_unreadable_text_says_how_to_write_it(text):
    with pytest.raises(UsageError, match="--shape x=1x3x640x640"):
        parse_shape(text)


def test_the_same_input_twice():
    with pytest.raises(UsageError, match="twice"):
        parse_shapes(["x=1", "x=2"])


def test_named_dimensions_are_filled_everywhere():
    changed = apply_shapes(SIG, {"x": (2, 3, 8, 9)})
    assert changed.inputs[0].shape == (2, 3, 8, 9)
    assert changed.inputs[1].shape == (2, "?")
    assert changed.outputs[0].shape == (2, 8)


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        ({"x": (1, 3, 8)}, "has 4 dimensions"),
        ({"x": (1, 4, 8, 8)}, "dimension 1 is fixed at 3"),
        ({"z": (1,)}, "no input 'z'"),
        ({"": (1, 3, 8, 8)}, "a shape needs a name"),
        ({"x": (1, 3, 8, 8), "m": (2, 4)}, "dimension n is given as 1 and, in input m, as 2"),
    ],
)
def test_shapes_that_do_not_fit(shapes, words):
    with pytest.raises(UsageError, match=words):
        apply_shapes(SIG, shapes)


def test_a_single_input_needs_no_name():
    single = Signature((TensorSpec("x", "float32", ("n",)), TensorSpec("o", "float32", None, optional=True)))
    assert apply_shapes(single, {"": (4,)}).inputs[0].shape == (4,)
