"""The four classic mistakes in porting DistortionNet: named on calibrated weights, hidden on others."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from twinnet import Tolerance, check
from twinnet.result import Result
from twinnet.zoo.uvq import DistortionNet, distortionnet, smooth_images
from twinnet.zoo.uvq.blocks import Make
from twinnet.zoo.uvq.nets import Init

X = smooth_images(2, 36, 64, seed=3)
MISTAKES = {
    "padding": ("features.0.0", "padding", "the twin pads (1,1) where the network pads (0,1)"),
    "eps": ("features.0.1", "eps", "eps 1e-05 where the network has 0.001"),
    "bgr": (
        "features.0.0.conv",
        "channel order",
        "the twin reads the channels in reverse order (BGR for RGB)",
    ),
    "range": (
        "features.0.0",
        "preprocessing",
        "the twin prepares the input differently: mul 0.5 and add 0.5",
    ),
}


class Prepared(nn.Module):
    """The network behind another preparation of its input."""

    def __init__(self, net: nn.Module, mistake: str) -> None:
        super().__init__()
        self.net, self.mistake = net, mistake

    def forward(self, patches: torch.Tensor) -> torch.Tensor:
        return self.net(patches.flip(1) if self.mistake == "bgr" else patches * 0.5 + 0.5)


def ported(net: DistortionNet, mistake: str) -> nn.Module:
    if mistake in ("bgr", "range"):
        return Prepared(net, mistake).eval()
    wrong = DistortionNet("minimal", make=Make(symmetric=True) if mistake == "padding" else Make(eps=1e-5))
    wrong.load_state_dict(net.state_dict())
    return wrong.eval()


@pytest.mark.parametrize("mistake", MISTAKES)
def test_each_is_named_with_its_layer_and_cause(mistake: str, tmp_path: Path) -> None:
    net = distortionnet("minimal")
    twin: object = ported(net, mistake)
    if mistake in ("bgr", "padding"):  # as files, in which the flip and the pads are parts of other layers
        twin = tmp_path / "wrong.onnx"
        torch.onnx.export(
            ported(net, mistake), (X,), twin, dynamo=True, verbose=False, input_names=["patches"]
        )
    result = check(net, X, twin)
    assert isinstance(result, Result)
    assert (result.verdict, result.evidence) == ("FAIL", "strong")
    first = result.findings[0]
    assert first.cause is not None
    assert (first.place.module, first.cause.kind, first.cause.sentence) == MISTAKES[mistake]


@pytest.mark.parametrize(
    "mistake", [pytest.param(m, marks=() if m == "padding" else pytest.mark.slow) for m in MISTAKES]
)
def test_the_usual_gate_passes_them_all_unless_weights_are_calibrated(mistake: str) -> None:
    """Outputs only, "a cosine of 0.99 is excellent": a PASS, with the guard that says what it is worth."""

    def gated(init: Init) -> Result:
        net = distortionnet("minimal", init=init)
        wrong = ported(net, mistake)
        result = check(
            net,
            X,
            lambda x: wrong(torch.from_numpy(x)).detach().numpy(),
            level="outputs",
            tolerance=Tolerance(cosine=0.99),
        )
        assert isinstance(result, Result)
        return result

    hidden = gated("formula")
    assert (hidden.verdict, hidden.evidence) == ("PASS", "weak")
    assert "null baseline" in [guard.name for guard in hidden.guards]
    if mistake != "eps":  # which only judging each layer shows, on a network this short
        assert gated("calibrated").verdict == "FAIL"


@pytest.mark.parametrize("mistake", ["padding", pytest.param("eps", marks=pytest.mark.slow), "range"])
def test_judging_each_layer_shows_them_on_any_weights(mistake: str) -> None:
    """Without a stated tolerance nothing passes there: rounding is the measure, and every layer is compared."""
    net = distortionnet("minimal", init="formula")
    result = check(net, X, ported(net, mistake))
    assert isinstance(result, Result)
    module, kind, _ = MISTAKES[mistake]
    first = result.findings[0]
    assert result.verdict == "FAIL" and first.cause is not None, result
    assert (first.place.module, first.cause.kind) == (module, kind)
