"""Rules for resizing and grid sampling."""

from __future__ import annotations

from typing import Any

from twinnet.layers.fx.call import Call, Form, Result, rules

__all__: list[str] = []

_LINEAR = {"mode": "linear"}
_SMOOTH = {"antialias": True, "exclude_outside": True}
_CUBIC = {"mode": "cubic", "cubic_a": -0.75}
_MODES: dict[str, dict[str, Any]] = {
    **{f"upsample_nearest{n}d": {"coordinates": "asymmetric", "nearest": "floor"} for n in (1, 2, 3)},
    **{f"_upsample_nearest_exact{n}d": {"nearest": "round_prefer_ceil"} for n in (1, 2, 3)},
    "upsample_linear1d": _LINEAR,
    "upsample_bilinear2d": _LINEAR,
    "upsample_trilinear3d": _LINEAR,
    "upsample_bicubic2d": _CUBIC,
    "_upsample_bilinear2d_aa": {**_LINEAR, **_SMOOTH},
    "_upsample_bicubic2d_aa": {"mode": "cubic", "cubic_a": -0.5, **_SMOOTH},
}


@rules.add(*_MODES)
def _resize(call: Call) -> Result:
    """torch takes coordinates from a scale factor where one is given, else from the ratio of the sizes."""
    attrs = {"mode": "nearest", "coordinates": "half_pixel", **_MODES[call.op]}
    if call.get("align_corners"):
        attrs["coordinates"] = "align_corners"
    sizes = call.shape()[2:]
    attrs |= {"sizes": sizes, "axes": tuple(range(2, 2 + len(sizes)))}
    scales = _scales(call, len(sizes))
    if scales is not None and attrs["coordinates"] != "align_corners":
        attrs["scales_used"] = scales
    return Form("resize", [call.value("input" if "input" in call else "self")], attrs)


def _scales(call: Call, count: int) -> tuple[float, ...] | None:
    if "scale_factors" in call:
        found = call["scale_factors"]
    elif "scales" in call:
        found = [call["scales"]]
    else:
        found = [call[f"scales_{axis}"] for axis in ("d", "h", "w")[3 - count :]]
    return None if found is None or any(scale is None for scale in found) else tuple(found)


@rules.add("grid_sampler", "grid_sampler_2d", "grid_sampler_3d")
def _grid_sample(call: Call) -> Result:
    attrs = {
        "mode": ("linear", "nearest", "cubic")[call["interpolation_mode"]],
        "padding": ("zeros", "border", "reflection")[call["padding_mode"]],
        "align_corners": call["align_corners"],
    }
    return Form("grid_sample", [call.value("input"), call.value("grid")], attrs)


@rules.add("affine_grid_generator")
def _affine_grid(call: Call) -> Result:
    attrs = {"size": tuple(call["size"]), "align_corners": call["align_corners"]}
    return Form("affine_grid", [call.value("theta")], attrs)
