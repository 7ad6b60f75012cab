"""Rules for LSTM, GRU and plain RNN: one canonical layer per layer of the stack."""

from __future__ import annotations

from typing import Any

import torch

from twinnet.layers.fx.call import Call, Const, Form, Operand, Out, Result, rules

__all__: list[str] = []

_GATES = {
    "lstm": (0, 3, 1, 2),
    "gru": (1, 0, 2),
}  # torch stacks i f g o and r z n; canonical are i o f g and z r n


@rules.add("lstm", "gru", "rnn_tanh", "rnn_relu")
def _recurrent(call: Call) -> Result:
    if "input" not in call or "params" not in call or (call["train"] and call["dropout"]):
        return None  # packed sequences, or dropout between the layers
    directions, biased = 2 if call["bidirectional"] else 1, bool(call["has_biases"])
    depth, per_cell = call["num_layers"], 4 if biased else 2
    if len(call.values("params")) != depth * directions * per_cell:
        return None  # projections
    states = call.values("hx") if call.op == "lstm" else (call.value("hx"),)
    x: Operand = call.value("input")
    if call["batch_first"]:
        x = Form("transpose", [x], {"perm": (1, 0, 2)})
    steps, batch = _steps_and_batch(call)
    finals: list[list[Out]] = [[] for _ in states]
    for layer in range(depth):
        cells = [
            [call.constant("params", (layer * directions + d) * per_cell + i) for i in range(per_cell)]
            for d in range(directions)
        ]
        form = _layer(call, x, cells, layer, states)
        if form is None:
            return None
        for i, final in enumerate(finals):
            final.append(form[i + 1])
        hidden = cells[0][1].shape[1]  # type: ignore[union-attr]
        x = Form("transpose", [form[0]], {"perm": (0, 2, 1, 3)})
        x = Form("reshape", [x], {"shape": (steps, batch, directions * hidden), "allowzero": True})
    if call["batch_first"]:
        x = Form("transpose", [x], {"perm": (1, 0, 2)})
    assert isinstance(x, Form)
    return [x, *(Form("concat", final, {"axis": 0}) for final in finals)]


def _steps_and_batch(call: Call) -> tuple[int, int]:
    first, second = call.shape("input")[:2]
    return (second, first) if call["batch_first"] else (first, second)


def _layer(
    call: Call, x: Operand, cells: list[list[torch.Tensor | None]], layer: int, states: tuple[str | None, ...]
) -> Form | None:
    """One layer of the stack, with weights in canonical gate order; None if they are not constant."""
    weights = [[tensor for tensor in cell if tensor is not None] for cell in cells]
    if any(len(found) != len(cell) for found, cell in zip(weights, cells)):
        return None
    order = _GATES.get(call.op, (0,))

    def reordered(tensor: torch.Tensor) -> torch.Tensor:
        parts = tensor.chunk(len(order))
        return torch.cat([parts[gate] for gate in order])

    def stacked(index: int) -> torch.Tensor:
        return torch.stack([reordered(cell[index]) for cell in weights])

    directions = len(cells)
    bias = None
    if len(weights[0]) == 4:
        bias = Const(torch.cat([stacked(2), stacked(3)], dim=1), f"b{layer}")
    attrs: dict[str, Any] = {"direction": "bidirectional" if directions == 2 else "forward"}
    if call.op == "gru":
        attrs["linear_before_reset"] = True
    if call.op.startswith("rnn"):
        attrs["activations"] = (call.op.removeprefix("rnn_"),) * directions
    window = {"starts": (layer * directions,), "ends": ((layer + 1) * directions,), "axes": (0,)}
    first: list[Operand] = [Form("slice", [state], window) for state in states]
    operands: list[Operand] = [
        x,
        Const(stacked(0), f"w{layer}"),
        Const(stacked(1), f"r{layer}"),
        bias,
        None,
        *first,
    ]
    return Form(call.op.split("_")[0], operands, attrs, outputs=1 + len(states))
