"""LSTM, GRU and plain recurrent layers, in ONNX layout. Floor: by jitter, width = inputs + hidden units."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from twinnet.layers.kinds import ints
from twinnet.layers.kinds._base import Attrs, Error, Errors, Kind, Tensors, register
from twinnet.layers.kinds._jitter import jitter_error

Act = Callable[[torch.Tensor], torch.Tensor]
Cell = Callable[..., list[torch.Tensor]]
"""One step: from the projected input and the states to the new states."""


def _activation(name: str, alpha: float | None, beta: float | None) -> Act:
    name = name.lower()
    if name in ("sigmoid", "tanh", "relu", "softsign", "softplus"):
        return {"softsign": F.softsign, "softplus": F.softplus}.get(name) or getattr(torch, name)
    if name == "hardsigmoid":
        a, b = 0.2 if alpha is None else alpha, 0.5 if beta is None else beta
        return lambda x: (a * x + b).clamp(0, 1)
    if name == "leakyrelu":
        return lambda x: F.leaky_relu(x, 0.01 if alpha is None else alpha)
    if name == "elu":
        return lambda x: F.elu(x, 1.0 if alpha is None else alpha)
    if name == "affine":
        return lambda x: (1.0 if alpha is None else alpha) * x + (0.0 if beta is None else beta)
    if name == "scaledtanh":
        return lambda x: (1.0 if alpha is None else alpha) * torch.tanh((1.0 if beta is None else beta) * x)
    if name == "thresholdedrelu":
        return lambda x: F.threshold(x, 1.0 if alpha is None else alpha, 0.0)
    raise ValueError(f"unknown activation {name!r} of a recurrent layer")


def _activations(attrs: Attrs, default: tuple[str, ...], directions: int) -> list[list[Act]]:
    names = list(attrs.get("activations") or default * directions)
    alphas, betas = list(attrs.get("activation_alpha") or ()), list(attrs.get("activation_beta") or ())
    made = [
        _activation(n, alphas[i] if i < len(alphas) else None, betas[i] if i < len(betas) else None)
        for i, n in enumerate(names)
    ]
    per = len(default)
    return [made[i * per : (i + 1) * per] for i in range(directions)]


class _Run:
    """One evaluation: directions, state, sequence lengths and layout, which all three kinds share."""

    def __init__(self, attrs: Attrs, inputs: Tensors, gates: int, activations: tuple[str, ...]) -> None:
        self.given = [*inputs, *[None] * (8 - len(inputs))]
        x, w, r, b = self.given[:4]
        self.attrs = attrs
        self.batch_first = bool(attrs.get("layout", 0))
        self.x = x.transpose(0, 1) if self.batch_first else x
        self.steps, self.batch = self.x.shape[:2]
        self.hidden = r.shape[-1]
        self.directions = w.shape[0]
        self.w, self.r = w, r
        size = gates * self.hidden
        self.wb = [None if b is None else b[d, :size] for d in range(self.directions)]
        self.rb = [None if b is None else b[d, size:] for d in range(self.directions)]
        self.activations = _activations(attrs, activations, self.directions)
        self.lengths = ints(self.given[4])
        self.clip = attrs.get("clip")
        self.backwards = {"forward": [False], "reverse": [True]}.get(
            attrs.get("direction", "forward"), [False, True]
        )

    def start(self, place: int, direction: int) -> torch.Tensor:
        """The initial state that the operand at `place` gives; zeros if it is absent."""
        given = self.given[place]
        if given is None:
            return torch.zeros(self.batch, self.hidden, dtype=self.x.dtype)
        return (given.transpose(0, 1) if self.batch_first else given)[direction]

    def limit(self, t: torch.Tensor) -> torch.Tensor:
        return t if self.clip is None else t.clamp(-self.clip, self.clip)

    def total(self, direction: int, xw: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        """What goes into the gates: the projected input, the projected state and its bias."""
        total, bias = xw + h @ self.r[direction].t(), self.rb[direction]
        return total if bias is None else total + bias

    def live(self, step: int) -> torch.Tensor | None:
        """Which sequences of the batch reach this step."""
        if self.lengths is None or min(self.lengths, default=self.steps) > step:
            return None
        return torch.tensor([step < n for n in self.lengths]).reshape(-1, 1)

    def walk(self, direction: int, cell: Cell, states: int) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """All steps of one direction: the outputs, and the last states."""
        projected = torch.matmul(self.x, self.w[direction].t())
        bias = self.wb[direction]
        if bias is not None:
            projected = projected + bias
        last = [self.start(5 + k, direction) for k in range(states)]
        out = torch.zeros(self.steps, self.batch, self.hidden, dtype=self.x.dtype)
        steps = range(self.steps)
        for step in reversed(steps) if self.backwards[direction] else steps:
            fresh = cell(projected[step], *last)
            live = self.live(step)
            if live is not None:
                fresh = [torch.where(live, new, old) for new, old in zip(fresh, last)]
                out[step] = torch.where(live, fresh[0], torch.zeros_like(fresh[0]))
            else:
                out[step] = fresh[0]
            last = list(fresh)
        return out, last

    def finish(self, outs: Tensors, states: Sequence[Tensors]) -> tuple[torch.Tensor, ...]:
        y = torch.stack(list(outs), 1)
        finals = [torch.stack(s, 0) for s in zip(*states)]
        if self.batch_first:
            y = y.permute(2, 0, 1, 3)
            finals = [f.transpose(0, 1) for f in finals]
        return (y.contiguous(), *finals)


def _lstm(run: _Run, d: int) -> Cell:
    f, g, h_act = run.activations[d]
    peep = None if run.given[7] is None else run.given[7][d].chunk(3)

    def cell(xw: torch.Tensor, h: torch.Tensor, c: torch.Tensor) -> list[torch.Tensor]:
        i, o, forget, c_new = run.total(d, xw, h).chunk(4, -1)
        if peep is not None:
            i, forget = i + peep[0] * c, forget + peep[2] * c
        i = f(run.limit(i))
        forget = 1 - i if run.attrs.get("input_forget") else f(run.limit(forget))
        c = forget * c + i * g(run.limit(c_new))
        if peep is not None:
            o = o + peep[1] * c
        return [f(run.limit(o)) * h_act(c), c]

    return cell


def _gru(run: _Run, d: int) -> Cell:
    f, g = run.activations[d]
    size, bias = run.hidden, run.rb[d]
    gates, new = run.r[d][: 2 * size].t(), run.r[d][2 * size :].t()
    zero = torch.zeros(3 * size, dtype=run.x.dtype) if bias is None else bias

    def cell(xw: torch.Tensor, h: torch.Tensor) -> list[torch.Tensor]:
        z, r = f(run.limit(xw[:, : 2 * size] + h @ gates + zero[: 2 * size])).chunk(2, -1)
        if run.attrs.get("linear_before_reset"):
            n = g(run.limit(xw[:, 2 * size :] + r * (h @ new + zero[2 * size :])))
        else:
            n = g(run.limit(xw[:, 2 * size :] + (r * h) @ new + zero[2 * size :]))
        return [(1 - z) * n + z * h]

    return cell


def _rnn(run: _Run, d: int) -> Cell:
    (f,) = run.activations[d]
    return lambda xw, h: [f(run.limit(run.total(d, xw, h)))]


def _with_state(errors: Errors, r: torch.Tensor, y: torch.Tensor) -> Errors:
    """The error of the bias, with what half a step of the state's own 255 moves the gates by."""
    half = float(y.max().clamp(min=0) - y.min().clamp(max=0)) / 510
    moved = (r.abs().sum(-1) * half).to(torch.float32)
    own = torch.cat([torch.zeros_like(moved), moved], -1)
    return (*errors[:3], own if errors[3] is None else errors[3] + own, *errors[4:])


def _recurrent(
    name: str, cell: Callable[[_Run, int], Cell], gates: int, activations: tuple[str, ...], states: int = 1
) -> None:
    """Register a recurrent layer; `cell` makes the function that computes one step of a direction."""

    def evaluate(attrs: Attrs, *inputs: Any) -> tuple[torch.Tensor, ...]:
        run = _Run(attrs, inputs, gates, activations)
        return run.finish(*zip(*(run.walk(d, cell(run, d), states) for d in range(run.directions))))

    def error(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error, ...]:
        width = inputs[1].shape[-1] + inputs[2].shape[-1]
        if attrs.get("rounds_state") and u:
            errors = _with_state(errors, inputs[2], outputs[0])
        return jitter_error(lambda *xs: evaluate(attrs, *xs), inputs, errors, outputs, u, width)

    register(Kind(name, evaluate, error))


_recurrent("lstm", _lstm, 4, ("Sigmoid", "Tanh", "Tanh"), states=2)
_recurrent("gru", _gru, 3, ("Sigmoid", "Tanh"))
_recurrent("rnn", _rnn, 1, ("Tanh",))
