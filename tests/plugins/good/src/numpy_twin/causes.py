"""One family of causes: a ReLU that is computed as a steep softplus."""

from __future__ import annotations

from twinnet.blame.causes import Candidate


def propose(problem):
    for i, layer in enumerate(problem.layers):
        if layer.kind == "relu":
            yield Candidate(
                "activation",
                "softplus of steepness 8 instead of ReLU",
                lambda p, i=i: p.become(i, "softplus", beta=8.0),
                "ReLU",
                "softplus, beta 8",
            )
