"""Rules for pooling."""

from __future__ import annotations

from typing import Any

from twinnet.layers.fx.call import Call, Form, Out, Result, rules
from twinnet.layers.fx.linear import batched, per_axis

__all__: list[str] = []


def _spatial(call: Call) -> int:
    return next(int(digit) for digit in call.op if digit.isdigit())


def _window(call: Call, spatial: int) -> dict[str, Any]:
    kernel = per_axis(call["kernel_size"], spatial)
    return {
        "kernel": kernel,
        "strides": per_axis(call["stride"], spatial) if call["stride"] else kernel,
        "pads": per_axis(call["padding"], spatial) * 2,
        "ceil_mode": call["ceil_mode"],
    }


def _unbatched(form: Form, alone: bool) -> list[Form | Out]:
    """All outputs of a form, without the batch axis that was put in front."""
    outputs = [form[i] for i in range(form.outputs)]
    return [Form("squeeze", [out], {"axes": (0,)}) for out in outputs] if alone else list(outputs)


@rules.add(
    "max_pool1d", "max_pool2d", "max_pool3d",
    "max_pool1d_with_indices", "max_pool2d_with_indices", "max_pool3d_with_indices",
)  # fmt: skip
def _max_pool(call: Call) -> Result:
    spatial = _spatial(call)
    x, alone = batched(call, "self", spatial)
    attrs = _window(call, spatial) | {"dilations": per_axis(call["dilation"], spatial), "index_base": "plane"}
    return _unbatched(Form("max_pool", [x], attrs, outputs=2 if "indices" in call.op else 1), alone)


@rules.add("avg_pool1d", "avg_pool2d", "avg_pool3d")
def _avg_pool(call: Call) -> Result:
    if call.get("divisor_override"):
        return None
    spatial = _spatial(call)
    x, alone = batched(call, "self", spatial)
    attrs = _window(call, spatial) | {"count_include_pad": call["count_include_pad"]}
    return _unbatched(Form("average_pool", [x], attrs), alone)


@rules.add(
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d",
    "_adaptive_avg_pool2d", "_adaptive_avg_pool3d",
    "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d",
)  # fmt: skip
def _adaptive_pool(call: Call) -> Result:
    spatial = _spatial(call)
    x, alone = batched(call, "self", spatial)
    kind = "max" if "max" in call.op else "average"
    size = per_axis(call["output_size"], spatial)
    if all(n == 1 for n in size):
        return _unbatched(Form(f"global_{kind}_pool", [x]), alone)
    return _unbatched(Form(f"adaptive_{kind}_pool", [x], {"output_size": size}), alone)
