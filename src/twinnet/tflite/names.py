"""Module paths from tensor names.

litert-torch writes where a tensor comes from as `pkg.Root/pkg.Class_attribute/...;1`, several joined by `;;`.
TensorFlow writes scopes, `model/block/conv2d/Conv2D`, which are not paths of modules.
"""

from __future__ import annotations

import re
from collections.abc import Collection

__all__ = ["module_of"]

_SEGMENT = re.compile(r"[A-Za-z_][\w.]*")


def module_of(name: str, known: Collection[str] = ()) -> str:
    """The path of the module that made a tensor; empty if its name does not tell.

    `known` are the paths there are: names of classes may hold underscores, which makes a name ambiguous.

    >>> module_of("net.Net/torch.nn.modules.container.Sequential_features/net.MB_2/torch.nn.modules.conv.Conv2d_conv;2")
    'features.2.conv'
    >>> module_of("net.Net/net.My_Block_head;1", {"head"}), module_of("StatefulPartitionedCall:0")
    ('head', '')
    """
    # Of operators that were fused, the last one is named first.
    for place in name.split(";"):
        for path in _paths(place) if "/" in place else ():
            if not known or path in known:
                return path
    return ""


def _paths(place: str) -> list[str]:
    """Possible paths of a place, likely ones first."""
    _, *segments = place.split("/")
    options: list[list[str]] = []
    for segment in segments:
        if not segment:
            continue
        if "." not in segment or not _SEGMENT.fullmatch(segment):
            return []
        pieces = segment.rpartition(".")[2].split("_")
        options.append(["_".join(pieces[i:]) for i in range(1, len(pieces))])
    if not options or not all(options) or len(options) > 64:
        return []
    first = ".".join(o[0] for o in options)
    # One ambiguous segment at a time is enough: all at once would be too many.
    others = [
        ".".join(o[0] if j != i else choice for j, o in enumerate(options))
        for i, several in enumerate(options)
        for choice in several[1:]
    ]
    every = ".".join(o[-1] for o in options)
    return list(dict.fromkeys([first, *others, every]))
