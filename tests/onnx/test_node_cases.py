"""The node cases that come with onnx: every operator with a canonical form gives the expected outputs."""

from __future__ import annotations

import re
import warnings
from functools import cache
from typing import Any

import onnx
import pytest
import torch

from twinnet.layers import evaluate_with_error, kinds
from twinnet.layers.kinds import UnknownLayer
from twinnet.onnx.operators._tensors import array_to_torch, tensor_from_onnx
from twinnet.onnx.read import read_onnx

GROUPS = 8
NOT_OURS = {
    # the expected outputs use an output size that is not whole; onnxruntime, torch and we use the whole one
    "test_resize_downsample_scales_linear_align_corners",
    "test_resize_downsample_scales_cubic_align_corners",
    # extremes of no elements at all, of type bool
    "test_reduce_max_empty_set_bool",
    # bounds are infinite there
    "test_loop16_seq_none",
}
COARSE = re.compile(
    "string|sequence|_seq|_opt|optional|strnorm|E[0-9]M[0-9]|e[0-9]m[0-9]|INT[24]|int[24]", re.I
)


@cache
def cases() -> list[Any]:
    """All single-operator cases on tensors that have a torch type."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = collect_testcases(None)
    return [
        c for c in found if c.model is not None and "_expanded" not in c.name and not COARSE.search(c.name)
    ]


def _tensor(value: Any) -> Any:
    return tensor_from_onnx(value) if isinstance(value, onnx.TensorProto) else array_to_torch(value)


@cache
def group(number: int) -> dict[str, tuple[str, str]]:
    """Operator and outcome ("ok", "opaque", "unknown" or what is wrong) of each case of one group."""
    outcome: dict[str, tuple[str, str]] = {}
    for case in cases()[number::GROUPS]:
        name = case.name
        op = case.model.graph.node[-1].op_type
        if name in NOT_OURS:
            continue
        try:
            outcome[name] = (op, _check(case))
        except UnknownLayer:
            outcome[name] = (op, "unknown")
        except Exception as error:
            outcome[name] = (op, f"{type(error).__name__}: {error}")
    return outcome


def _check(case: Any) -> str:
    graph = read_onnx(case.model)
    for inputs, outputs in case.data_sets:
        names = [i.name for i in case.model.graph.input]
        values = {n: _tensor(v) for n, v in zip(names, inputs) if v is not None and not isinstance(v, list)}
        found = evaluate_with_error(graph, values, {}, unit=2.0**-24)
        for name, wanted in zip(graph.outputs, map(_tensor, outputs)):
            value, bound = found[name]
            assert tuple(value.shape) == tuple(wanted.shape), (
                f"shape {tuple(value.shape)}, not {tuple(wanted.shape)}"
            )
            if bound is not None:
                assert bound.shape == value.shape
                assert not bool(torch.isnan(bound).any())
                assert bool((bound >= 0).all())
            if wanted.is_floating_point():
                relative = (
                    5e-2
                    if wanted.dtype == torch.bfloat16
                    else max(case.rtol, torch.finfo(wanted.dtype).eps * 4)
                )
                absolute = max(case.atol, 1e-3 if wanted.dtype == torch.float16 else 1e-6)
                close = torch.allclose(value, wanted.to(torch.float64), relative, absolute, equal_nan=True)
                assert close, f"off by {float((value - wanted.to(torch.float64)).abs().max())}"
                continue
            assert value.dtype == wanted.dtype
            same = value == wanted
            if bound is not None:  # a tie of float32 that float64 does not have
                same |= (value.to(torch.float64) - wanted.to(torch.float64)).abs() <= bound
            assert bool(same.all())
    return "opaque" if any(layer.kind == "opaque" for layer in graph) else "ok"


@pytest.mark.parametrize("number", range(GROUPS))
def test_expected_outputs(number: int) -> None:
    wrong = {n: why for n, (op, why) in group(number).items() if why not in ("ok", "opaque", "unknown")}
    wrong = {n: why for n, why in wrong.items() if not _only_reference(n)}
    assert not wrong


def _only_reference(name: str) -> bool:
    """Cases of operators without a canonical form, where onnx.reference itself cannot compute in float64."""
    return any(
        name.startswith(f"test_{op}") for op in ("ai_onnx_ml", "image_decoder", "bernoulli", "nllloss", "sce")
    )


def test_most_operators_have_a_canonical_form(capsys: pytest.CaptureFixture[str]) -> None:
    every = [result for number in range(GROUPS) for result in group(number).values()]
    ok = {op for op, why in every if why == "ok"}
    opaque = {op for op, why in every if why == "opaque"} - ok
    with capsys.disabled():
        print(f"\n  {len(every)} node cases; with a canonical form {len(ok)}, by reference {len(opaque)}")
    assert len(ok) > 140


def test_every_kind_is_in_a_table() -> None:
    """In that of the canonical kinds, or of the room that brings it."""
    from twinnet.tables import kinds as of_tables

    listed = set()
    for page in (kinds, of_tables):
        rows = [line.split("|")[1] for line in (page.__doc__ or "").splitlines() if line.startswith("| ")]
        listed |= set(" ".join(rows).replace(",", " ").split())
    assert not set(kinds.kinds()) - listed
