"""The names available at the prompt besides the program's own variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from twinnet.debugger.answer import Answer
from twinnet.debugger.commands import COMMANDS, Command
from twinnet.debugger.commands.lineage import inputs_of
from twinnet.debugger.stopped import Stopped
from twinnet.network import ModuleNetwork

__all__ = ["Inputs", "Tensors", "names_of"]


class Tensors(Mapping[str, np.ndarray]):
    """The current tensors of one side, by any name that `cmp` accepts."""

    def __init__(self, stopped: Stopped, side: str) -> None:
        self._stopped = stopped
        self._side = side

    @property
    def _trace(self) -> Mapping[str, np.ndarray]:
        return self._stopped.trace if self._side == "network" else self._stopped.twin_trace

    def __getitem__(self, name: str) -> np.ndarray:
        bare = name.removeprefix(".")
        if bare in self._trace:
            return np.asarray(self._trace[bare])
        row = self._stopped.row(name)
        return np.asarray(self._trace[(row.site if self._side == "network" else row.twin_site).tensor])

    def __iter__(self) -> Iterator[str]:
        return iter(self._trace)

    def __len__(self) -> int:
        return len(self._trace)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.removeprefix(".") in self._trace

    def __repr__(self) -> str:
        return f"{len(self)} tensors of the {self._side}: {', '.join(list(self)[:4])}, ..."


class Inputs(Mapping[str, np.ndarray]):
    """The sample, by input name; called with a site, the sites it is computed from."""

    def __init__(self, stopped: Stopped) -> None:
        self._stopped = stopped

    def __getitem__(self, name: str) -> np.ndarray:
        return np.asarray(self._stopped.inputs[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._stopped.inputs)

    def __len__(self) -> int:
        return len(self._stopped.inputs)

    def __call__(self, site: str) -> Answer:
        return inputs_of(self._stopped, site)

    def __repr__(self) -> str:
        sizes = (f"{n} {'x'.join(map(str, np.shape(a)))}" for n, a in self._stopped.inputs.items())
        return f"{', '.join(sizes) or 'no inputs'}; inputs(site): what a site is computed from"


def names_of(stopped: Stopped, given: Mapping[str, Any]) -> dict[str, Any]:
    """Commands, both sides, and the given names, which take precedence over commands.

    >>> sorted(names_of(Stopped(), {"x": 1}))[:4]
    ['at', 'born', 'cause', 'cmp']
    """
    found: dict[str, Any] = {name: Command(spec, stopped) for name, spec in COMMANDS.items()}
    found.update(given)
    if stopped.rows:
        found["trace"], found["twin_trace"] = Tensors(stopped, "network"), Tensors(stopped, "twin")
    found["inputs"] = Inputs(stopped) if stopped.inputs or "inputs" not in given else given["inputs"]
    held = stopped.held
    if held is not None:
        network = held.case.network
        found["network"] = network.module if isinstance(network, ModuleNetwork) else network
        found["twin"] = held.sides.twin
        if stopped.meaning is not None and stopped.meaning.aliases:
            ends = dict(zip(("output", "twin_output"), stopped.both(stopped.outputs[0]), strict=True))
            more = stopped.meaning.aliases.items()
            found.update({name: {**found, **ends}[of] for name, of in more if name not in given})
    else:
        for name in ("network", "twin"):
            found.setdefault(name, None)
        for name in ("trace", "twin_trace"):
            found.setdefault(name, {})
    return found
