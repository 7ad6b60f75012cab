"""ExecuTorch's own flow, as its tutorial shows it, and what its own Inspector says: run as a program.

`python -m tests.executorch.example DIR` writes a.pte, a.etrecord, a.etdp, a.bin and said.json into DIR/none and
DIR/xnnpack.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch

from tests.executorch.nets import small


def main(folder: Path, delegate: str) -> None:
    from executorch.devtools import Inspector
    from executorch.exir import to_edge_transform_and_lower
    from executorch.runtime import Runtime

    net, image = small()
    partitioner: Any = None
    if delegate == "xnnpack":
        from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

        partitioner = [XnnpackPartitioner()]
    program = torch.export.export(net, (image,))
    edge = to_edge_transform_and_lower(program, partitioner=partitioner, generate_etrecord=True)
    made = edge.to_executorch()
    made.save(str(folder / "a.pte"))
    made.get_etrecord().save(str(folder / "a.etrecord"))
    loaded = Runtime.get().load_program(folder / "a.pte", enable_etdump=True, debug_buffer_size=1 << 20)
    method = loaded.load_method("forward")
    for _ in range(3):
        method.execute([image])
    loaded.write_etdump_result_to_file(str(folder / "a.etdp"), str(folder / "a.bin"))
    theirs = Inspector(
        etdump_path=str(folder / "a.etdp"),
        etrecord=str(folder / "a.etrecord"),
        debug_buffer_path=str(folder / "a.bin"),
    )
    said = [
        {
            "name": block.name,
            "output": [_plain(t) for t in block.run_output or []],
            "events": [_event(e) for e in block.events],
        }
        for block in theirs.event_blocks
    ]
    (folder / "said.json").write_text(json.dumps(said))


def _event(event: Any) -> dict[str, Any]:
    times = event.perf_data
    handles = event.debug_handles
    return {
        "name": event.name,
        "raw": times and list(times.raw),
        **{n: times and float(getattr(times, n)) for n in ("p10", "p50", "p90", "avg", "min", "max")},
        "op_types": event.op_types,
        "identifier": event.delegate_debug_identifier,
        "handles": [handles] if isinstance(handles, int) else handles,
        "stack_traces": event.stack_traces,
        "modules": {n: list((m or {}).values()) for n, m in event.module_hierarchy.items()},
        "delegated": bool(event.is_delegated_op),
        "backend": event.delegate_backend_name or "",
        "start": event.start_time,
        "data": [_plain(t) for t in event.debug_data],
    }


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value


if __name__ == "__main__":
    for name in ("none", "xnnpack"):
        place = Path(sys.argv[1], name)
        place.mkdir(parents=True)
        main(place, name)
