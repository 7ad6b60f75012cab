"""Pair sites by tensor names, module paths and calls."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from twinnet.site import Site

__all__ = ["by_module", "by_name", "module_in_name"]

_SAME_OP = {
    "linear": {"gemm", "matmul", "add", "fusedmatmul", "fusedgemm", "fullyconnected"},
    "addmm": {"gemm"},
    "view": {"reshape"},
    "_unsafe_view": {"reshape"},
    "convolution": {"conv", "fusedconv"},
    "conv1d": {"conv"},
    "conv2d": {"conv", "fusedconv"},
    "conv3d": {"conv"},
    "conv_transpose2d": {"convtranspose"},
    "silu": {"mul", "swish"},
    "clamp": {"clip", "relu6"},
    "hardtanh": {"clip", "relu6"},
    "clip": {"relu6"},
    "sigmoid": {"logistic"},
    "gemm": {"fullyconnected"},
    "matmul": {"fullyconnected", "batchmatmul"},
    "cat": {"concat"},
    "permute": {"transpose"},
    "t": {"transpose"},
    "bmm": {"matmul"},
    "mm": {"matmul"},
}


def _plain(op: str) -> str:
    """An operator's bare name; of several in one ("CONV_2D+RELU") the last, which makes the value."""
    return op.lower().split("::")[-1].split("+")[-1].replace("_", "")


def _alike(a: Site, b: Site) -> bool:
    one, other = _plain(a.op), _plain(b.op)
    if one == other or not one or not other or one in other or other in one:
        return True
    return other in _SAME_OP.get(a.op.lower(), ()) or one in _SAME_OP.get(b.op.lower(), ())


def by_name(
    sites: Sequence[Site], twin_sites: Sequence[Site], *, derived: bool
) -> Iterator[tuple[str, str, float]]:
    """Sites with the same tensor name. Names of a twin made elsewhere count only where the operators agree too."""
    twins = {s.tensor: s for s in twin_sites}
    for site in sites:
        twin = twins.get(site.tensor)
        if twin is not None and (derived or _alike(site, twin)):
            yield site.tensor, twin.tensor, 1.0 if derived else 0.95


def module_in_name(tensor: str) -> str:
    """The module path that older exporters write into tensor names.

    >>> module_in_name("/features/4/block/conv/Conv_output_0")
    'features.4.block.conv'
    """
    match = re.fullmatch(r"/(.+)/[A-Za-z]+(?:_\d+)?_output_\d+", tensor)
    if match is None:
        return ""
    # Sequential containers repeat their path inside each part ("features/features.0"): keep the longest form.
    parts: list[str] = []
    for part in match.group(1).split("/"):
        if parts and part.startswith(".".join(parts) + "."):
            parts = part.split(".")
        elif parts and part.startswith(parts[-1] + "."):
            parts[-1:] = part.split(".")
        else:
            parts.append(part)
    return ".".join(parts)


def by_module(sites: Sequence[Site], twin_sites: Sequence[Site]) -> Iterator[tuple[str, str, float]]:
    """The last tensor a module makes in a call, where both sides name the module."""
    last: dict[tuple[str, int], Site] = {}
    for site in sites:
        if site.module:
            last[(site.module, site.call)] = site
    twin_last: dict[tuple[str, int], Site] = {}
    for site in twin_sites:
        module = site.module or module_in_name(site.tensor)
        if module:
            twin_last[(module, site.call)] = site
    for key, site in last.items():
        twin = twin_last.get(key)
        if twin is not None and _alike(site, twin):
            yield site.tensor, twin.tensor, 0.8
