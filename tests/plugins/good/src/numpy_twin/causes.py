"""One family of causes: a ReLU that is computed as a steep softplus."""

from __future__ import annotations

from twinnet.blame.causes import Candidate
from twinnet.report.sentences import sayings
from twinnet.result import fact

sayings({"numpy_twin.smooth": "softplus of steepness {beta} instead of {network}"})


def propose(problem):
    for i, layer in enumerate(problem.layers):
        if layer.kind == "relu":
            yield Candidate(
                kind="activation",
                fact=fact("numpy_twin.smooth", network="ReLU", twin="softplus, beta 8", beta=8.0),
                change=lambda p, i=i: p.become(i, "softplus", beta=8.0),
            )
