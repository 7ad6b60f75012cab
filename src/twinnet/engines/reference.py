"""The engine that runs the network itself, beside its twin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twinnet.engines.registry import engine_for_format, find_engine
from twinnet.engines.spec import Spec, parse_spec

if TYPE_CHECKING:
    from twinnet.network import Network

__all__ = ["reference_spec"]


def reference_spec(network: Network, twin: Any = None) -> Spec:
    """What runs the network when nobody says otherwise: what the twin's engine asks for, else its format's engine.

    The network runs as written, not as an optimiser would like it.
    """
    from twinnet.network import Network  # specs are read without it

    beside = None
    if isinstance(twin, Spec):
        beside = find_engine(twin.engine).reference(network)
    elif isinstance(twin, Network):
        beside = engine_for_format(twin.format)().reference(network)
    if beside is not None:
        return parse_spec(beside)
    engine = engine_for_format(network.format)
    return Spec(engine.name, engine.as_written)
