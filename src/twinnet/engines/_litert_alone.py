"""Run LiteRT without twinnet, as `repro.py` does.

The source of this function is copied into `repro.py`, so it must not use twinnet.
"""

from __future__ import annotations

from typing import Any

__all__ = ["run_litert"]


def run_litert(model: Any, options: dict[str, str], feeds: dict[str, Any]) -> dict[str, Any]:
    """Outputs of a TFLite file (a path or its bytes), by tensor name, under the kernels of the options."""
    import numpy
    from ai_edge_litert import interpreter as litert

    sets = {"builtin": "BUILTIN_WITHOUT_DEFAULT_DELEGATES", "reference": "BUILTIN_REF"}
    resolver = getattr(litert.OpResolverType, sets.get(options.get("kernels", "xnnpack"), "AUTO"))
    delegates = [litert.load_delegate(options["delegate"])] if "delegate" in options else None
    source: dict[str, Any] = (
        {"model_content": model} if isinstance(model, bytes) else {"model_path": str(model)}
    )
    made = litert.Interpreter(
        **source,
        num_threads=int(options.get("threads", 1)),
        experimental_op_resolver_type=resolver,
        experimental_delegates=delegates,
    )
    for given in made.get_input_details():
        if given["name"] in feeds and tuple(given["shape"]) != feeds[given["name"]].shape:
            made.resize_tensor_input(given["index"], feeds[given["name"]].shape)
    made.allocate_tensors()
    for given in made.get_input_details():
        if given["name"] in feeds:
            made.set_tensor(given["index"], numpy.ascontiguousarray(feeds[given["name"]], given["dtype"]))
    made.invoke()
    return {d["name"]: made.get_tensor(d["index"]) for d in made.get_output_details()}
