"""Control flow, and layers without a canonical form."""

from __future__ import annotations

import math
from typing import Any

import torch

from twinnet.layers.kinds._base import Attrs, Error, Errors, Kind, Tensors, UnknownLayer, register
from twinnet.layers.kinds._jitter import fourier_error, jitter_error

# ---- if: the branch that is taken, with its own running error ------------------------------------


def _branch(attrs: Attrs, condition: torch.Tensor) -> Any:
    return attrs["then"] if bool(condition.reshape(-1)[0]) else attrs["orelse"]


def _if(attrs: Attrs, condition: torch.Tensor, *captured: Any) -> tuple[Any, ...]:
    from twinnet.layers.evaluate import evaluate

    graph = _branch(attrs, condition)
    found = evaluate(graph, _known(attrs, captured))
    return tuple(found[name] for name in graph.outputs)


def _known(attrs: Attrs, captured: Tensors) -> dict[str, Any]:
    return {name: value for name, value in zip(attrs["names"], captured) if value is not None}


def _if_error(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error, ...]:
    from twinnet.layers.floor import evaluate_with_error

    if errors[0] is not None and float(errors[0].max()) > 0:
        return tuple(torch.full(y.shape, math.inf) for y in outputs)  # the other branch may have been taken
    graph = _branch(attrs, inputs[0])
    found = evaluate_with_error(graph, _known(attrs, inputs[1:]), _known(attrs, errors[1:]), unit=u)
    return tuple(found[name][1] for name in graph.outputs)


register(Kind("if", _if, _if_error))


# ---- loop ----------------------------------------------------------------------------------------


def _loop_runs(
    attrs: Attrs, inputs: Tensors, errors: Errors, u: float | None
) -> tuple[list[Any], list[Error]]:
    from twinnet.layers.evaluate import evaluate
    from twinnet.layers.floor import evaluate_with_error

    body, count = attrs["body"], attrs["states"]
    trips = math.inf if inputs[0] is None else int(inputs[0].reshape(-1)[0])
    go = True if inputs[1] is None else bool(inputs[1].reshape(-1)[0])
    states, state_errors = list(inputs[2 : 2 + count]), list(errors[2 : 2 + count])
    known, known_errors = _known(attrs, inputs[2 + count :]), _known(attrs, errors[2 + count :])
    scans: list[list[Any]] = [[] for _ in body.outputs[1 + count :]]
    scan_errors: list[list[Error]] = [[] for _ in scans]
    step = 0
    while go and step < trips:
        names = body.inputs[: 2 + count]
        values = {**known, **dict(zip(names, [torch.tensor(step), torch.tensor(go), *states]))}
        if u is None:
            found = {n: (v, None) for n, v in evaluate(body, values).items()}
        else:
            given = {n: e for n, e in zip(names[2:], state_errors) if e is not None}
            found = evaluate_with_error(body, values, {**known_errors, **given}, unit=u)
        go = bool(found[body.outputs[0]][0].reshape(-1)[0])
        states = [found[n][0] for n in body.outputs[1 : 1 + count]]
        state_errors = [found[n][1] for n in body.outputs[1 : 1 + count]]
        for i, name in enumerate(body.outputs[1 + count :]):
            scans[i].append(found[name][0])
            scan_errors[i].append(found[name][1])
        step += 1
    stacked = [torch.stack(s) if s else torch.zeros(0) for s in scans]
    stacked_errors: list[Error] = []
    for values, bounds in zip(scans, scan_errors):
        if all(b is None for b in bounds):
            stacked_errors.append(None)
        else:
            stacked_errors.append(
                torch.stack([torch.zeros(v.shape) if b is None else b for v, b in zip(values, bounds)])
            )
    return [*states, *stacked], [*state_errors, *stacked_errors]


def _loop(attrs: Attrs, *inputs: Any) -> tuple[Any, ...]:
    return tuple(_loop_runs(attrs, inputs, (None,) * len(inputs), None)[0])


def _loop_error(
    attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float
) -> tuple[Error, ...]:
    return tuple(_loop_runs(attrs, inputs, errors, u)[1])


register(Kind("loop", _loop, _loop_error))


# ---- opaque --------------------------------------------------------------------------------------


def _opaque(attrs: Attrs, *inputs: Any) -> tuple[Any, ...]:
    run = attrs.get("run")
    if run is None:
        raise UnknownLayer(attrs.get("unknown") or "a layer without a canonical form")
    return tuple(run(*inputs))


def _opaque_error(
    attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float
) -> tuple[Error, ...]:
    if "lengths" in attrs:
        return fourier_error(attrs, lambda *xs: _opaque(attrs, *xs), inputs, errors, outputs, u)
    width = max((x.shape[-1] for x in inputs if isinstance(x, torch.Tensor) and x.dim()), default=1)
    return jitter_error(lambda *xs: _opaque(attrs, *xs), inputs, errors, outputs, u, width)


register(Kind("opaque", _opaque, _opaque_error))
