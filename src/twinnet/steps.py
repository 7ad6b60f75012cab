"""The step at which a case could not go on, from the stage that an engine names."""

from __future__ import annotations

from typing import Literal, get_args

__all__ = ["STEPS", "Step", "step_of"]

Step = Literal["export", "import", "compile", "load", "run", "compare"]
STEPS: tuple[Step, ...] = get_args(Step)

_FIRST_WORDS: dict[str, Step] = {
    "export": "export",
    "make": "export",
    "onnx": "export",
    "read": "import",
    "import": "import",
    "infer": "import",
    "take": "import",
    "cut": "import",
    "compile": "compile",
    "convert": "compile",
    "quantise": "compile",
    "optimise": "compile",
    "tabulate": "compile",
    "edit": "compile",
    "load": "load",
    "start": "load",
    "connect": "load",
    "run": "run",
    "profile": "run",
    "memory": "run",
    "say": "load",
}


def step_of(stage: str) -> Step:
    """The step of an engine's stage; whatever comes after both sides ran is "compare".

    >>> step_of("compile the network"), step_of("convert to ONNX"), step_of("pair")
    ('compile', 'export', 'compare')
    """
    words = stage.split()
    if words and words[0] == "convert" and "ONNX" in words:
        return "export"
    return _FIRST_WORDS.get(words[0] if words else "", "compare")
