"""Runs a plan of tables where only Python and numpy are: the main program of the archive that `board.py` describes.

It answers one JSON request per line; arrays travel as .npz files.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from twinnet.lut.executors import Executor, make
from twinnet.lut.serial import plan_from_dict
from twinnet.programs.lines import answer_lines

__all__: list[str] = []


def _answer(asked: dict[str, Any], loaded: dict[int, Executor]) -> dict[str, Any]:
    do = asked["do"]
    if do == "load":
        with np.load(asked["model"], allow_pickle=False) as data:
            told = json.loads(bytes(data["told"]).decode())
            arrays = {name: data[str(i)] for i, name in enumerate(told["arrays"])}
        loaded[asked["session"]] = make(plan_from_dict(told["plan"], arrays), asked["executor"])
        return {}
    if do == "drop":
        loaded.pop(asked["session"], None)
        return {}
    runner = loaded[asked["session"]]
    with np.load(asked["feeds"], allow_pickle=False) as data:
        feeds = {name: data[str(i)] for i, name in enumerate(asked["names"])}
    names, made = [], []

    def keep(name: str, array: np.ndarray) -> None:
        names.append(name)
        made.append(np.array(array))

    if do == "run":
        keep("output", runner.run(feeds["planes"]))
    elif do == "record":
        keep("output", runner.record(feeds["planes"], keep))
    else:
        stage = next(s for s in runner.plan.stages if s.name == asked["stage"])
        keep("output", runner.record_stage(stage, feeds, keep))
    np.savez(asked["results"], **{str(i): a for i, a in enumerate(made)})
    return {"names": names}


if __name__ == "__main__":
    answer_lines(_answer)
