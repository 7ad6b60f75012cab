"""LSTM, GRU and plain recurrent layers, in ONNX layout. Floor: by jitter, width = inputs + hidden units."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from twinnet.layers.kinds import ints
from twinnet.layers.kinds._base import Attrs, Error, Errors, Kind, Tensors, register
from twinnet.layers.kinds._jitter import jitter_error

Act = Callable[[torch.Tensor], torch.Tensor]


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
    raise ValueError(f"activation {name} of a recurrent layer")


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
    """What all three share: directions, initial state, sequence lengths, layout."""

    def __init__(self, attrs: Attrs, inputs: list[Any], gates: int) -> None:
        x, w, r, b = inputs[:4]
        self.batch_first = bool(attrs.get("layout", 0))
        self.x = x.transpose(0, 1) if self.batch_first else x
        self.steps, self.batch = self.x.shape[:2]
        self.hidden = r.shape[-1]
        self.directions = w.shape[0]
        self.w, self.r = w, r
        size = gates * self.hidden
        self.wb = [None if b is None else b[d, :size] for d in range(self.directions)]
        self.rb = [None if b is None else b[d, size:] for d in range(self.directions)]
        self.lengths = ints(inputs[4])
        self.clip = attrs.get("clip")
        self.backwards = {"forward": [False], "reverse": [True]}.get(
            attrs.get("direction", "forward"), [False, True]
        )

    def start(self, given: Any, direction: int) -> torch.Tensor:
        if given is None:
            return torch.zeros(self.batch, self.hidden, dtype=self.x.dtype)
        return (given.transpose(0, 1) if self.batch_first else given)[direction]

    def limit(self, t: torch.Tensor) -> torch.Tensor:
        return t if self.clip is None else t.clamp(-self.clip, self.clip)

    def order(self, backwards: bool) -> list[int]:
        return list(reversed(range(self.steps))) if backwards else list(range(self.steps))

    def live(self, step: int) -> torch.Tensor | None:
        """Which sequences of the batch reach this step."""
        if self.lengths is None or min(self.lengths, default=self.steps) > step:
            return None
        return torch.tensor([step < n for n in self.lengths]).reshape(-1, 1)

    def walk(
        self, direction: int, states: list[torch.Tensor], cell: Any
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        projected = torch.matmul(self.x, self.w[direction].t())
        bias = self.wb[direction]
        if bias is not None:
            projected = projected + bias
        out = torch.zeros(self.steps, self.batch, self.hidden, dtype=self.x.dtype)
        for step in self.order(self.backwards[direction]):
            fresh = cell(projected[step], *states)
            live = self.live(step)
            if live is not None:
                fresh = [torch.where(live, new, old) for new, old in zip(fresh, states)]
                out[step] = torch.where(live, fresh[0], torch.zeros_like(fresh[0]))
            else:
                out[step] = fresh[0]
            states = list(fresh)
        return out, states

    def finish(self, outs: list[torch.Tensor], states: list[list[torch.Tensor]]) -> tuple[torch.Tensor, ...]:
        y = torch.stack(outs, 1)
        finals = [torch.stack(s, 0) for s in zip(*states)]
        if self.batch_first:
            y = y.permute(2, 0, 1, 3)
            finals = [f.transpose(0, 1) for f in finals]
        return (y.contiguous(), *finals)


def _padded(inputs: tuple[Any, ...], count: int) -> list[Any]:
    return [*inputs, *[None] * (count - len(inputs))]


def _lstm(attrs: Attrs, *inputs: Any) -> tuple[torch.Tensor, ...]:
    given = _padded(inputs, 8)
    run = _Run(attrs, given, 4)
    acts = _activations(attrs, ("Sigmoid", "Tanh", "Tanh"), run.directions)
    outs, states = [], []
    for d in range(run.directions):
        f, g, h_act = acts[d]
        peep = None if given[7] is None else given[7][d].chunk(3)
        back, bias = run.r[d].t(), run.rb[d]

        def cell(
            xw: torch.Tensor,
            h: torch.Tensor,
            c: torch.Tensor,
            f: Act = f,
            g: Act = g,
            h_act: Act = h_act,
            peep: Any = peep,
            back: torch.Tensor = back,
            bias: Any = bias,
        ) -> list[torch.Tensor]:
            total = xw + h @ back
            if bias is not None:
                total = total + bias
            i, o, forget, c_new = total.chunk(4, -1)
            if peep is not None:
                i, forget = i + peep[0] * c, forget + peep[2] * c
            i = f(run.limit(i))
            forget = 1 - i if attrs.get("input_forget") else f(run.limit(forget))
            c = forget * c + i * g(run.limit(c_new))
            if peep is not None:
                o = o + peep[1] * c
            return [f(run.limit(o)) * h_act(c), c]

        out, last = run.walk(d, [run.start(given[5], d), run.start(given[6], d)], cell)
        outs.append(out)
        states.append(last)
    return run.finish(outs, states)


def _gru(attrs: Attrs, *inputs: Any) -> tuple[torch.Tensor, ...]:
    given = _padded(inputs, 6)
    run = _Run(attrs, given, 3)
    acts = _activations(attrs, ("Sigmoid", "Tanh"), run.directions)
    outs, states = [], []
    for d in range(run.directions):
        f, g = acts[d]
        size = run.hidden
        gates, new = run.r[d][: 2 * size].t(), run.r[d][2 * size :].t()
        bias = run.rb[d]
        zero = torch.zeros(3 * size, dtype=run.x.dtype) if bias is None else bias

        def cell(
            xw: torch.Tensor,
            h: torch.Tensor,
            f: Act = f,
            g: Act = g,
            gates: torch.Tensor = gates,
            new: torch.Tensor = new,
            zero: torch.Tensor = zero,
            size: int = size,
        ) -> list[torch.Tensor]:
            z, r = f(run.limit(xw[:, : 2 * size] + h @ gates + zero[: 2 * size])).chunk(2, -1)
            if attrs.get("linear_before_reset"):
                n = g(run.limit(xw[:, 2 * size :] + r * (h @ new + zero[2 * size :])))
            else:
                n = g(run.limit(xw[:, 2 * size :] + (r * h) @ new + zero[2 * size :]))
            return [(1 - z) * n + z * h]

        out, last = run.walk(d, [run.start(given[5], d)], cell)
        outs.append(out)
        states.append(last)
    return run.finish(outs, states)


def _rnn(attrs: Attrs, *inputs: Any) -> tuple[torch.Tensor, ...]:
    given = _padded(inputs, 6)
    run = _Run(attrs, given, 1)
    acts = _activations(attrs, ("Tanh",), run.directions)
    outs, states = [], []
    for d in range(run.directions):
        (f,) = acts[d]
        back, bias = run.r[d].t(), run.rb[d]

        def cell(
            xw: torch.Tensor, h: torch.Tensor, f: Act = f, back: torch.Tensor = back, bias: Any = bias
        ) -> list[torch.Tensor]:
            total = xw + h @ back
            return [f(run.limit(total if bias is None else total + bias))]

        out, last = run.walk(d, [run.start(given[5], d)], cell)
        outs.append(out)
        states.append(last)
    return run.finish(outs, states)


def _recurrent(name: str, run: Callable[..., tuple[torch.Tensor, ...]]) -> None:
    def error(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error, ...]:
        width = inputs[1].shape[-1] + inputs[2].shape[-1]
        return jitter_error(lambda *xs: run(attrs, *xs), inputs, errors, outputs, u, width)

    register(Kind(name, run, error))


_recurrent("lstm", _lstm)
_recurrent("gru", _gru)
_recurrent("rnn", _rnn)
