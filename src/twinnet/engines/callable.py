"""Any Python function as a twin.

A twin in five lines (`--twin callable:my_twin.py:run`, or `twin=run` in Python)::

    def run(x):                                   # the network's inputs, in order, as numpy arrays
        features = my_library.encode(x)
        return {"output": my_library.decode(features),   # the network's outputs by name (or just the array)
                "encoder": features}                     # and, optionally, what a module or site should hold

A function that preprocesses its input may return the result under the input's name; it is then compared first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from twinnet.engines.base import Abilities, Engine, Session, read_options
from twinnet.errors import EngineError, UsageError, failed, foreign_as
from twinnet.job import Arrays, Job
from twinnet.precision import dtype_class
from twinnet.signature import Signature, TensorSpec
from twinnet.site import Site
from twinnet.trace import Trace, TraceBuilder

if TYPE_CHECKING:
    from twinnet.network import Network

__all__ = ["CallableEngine", "CallableSession"]


class CallableEngine(Engine):
    """Calls a function and compares what it returns."""

    name: ClassVar[str] = "callable"
    summary: ClassVar[str] = "any Python function"
    abilities: ClassVar[Abilities] = Abilities(capture=True, note="shows what the function returns by name")
    suffixes: ClassVar[tuple[str, ...]] = (".py",)
    repeatable: ClassVar[bool] = False
    options: ClassVar[Mapping[str, str]] = {"precision": "float64|float32|float16|bfloat16 (default float32)"}

    def version(self) -> str:
        import platform

        return f"Python {platform.python_version()}"

    def open(
        self, network: Network | None, options: Mapping[str, str], file: str | None, job: Job
    ) -> Session:
        from twinnet.precision import UNITS
        from twinnet.pyfile import load_attribute

        chosen = read_options(self, options, precision=lambda text: UNITS[text] and text)
        if file is None:
            raise UsageError("the callable engine needs a function", hint="callable:FILE.py:FUNCTION")
        function = load_attribute(file, what="function")
        return CallableSession(function, network, job, precision=chosen.get("precision", "float32"))


class CallableSession(Session):
    """A session that calls a function."""

    engine = "callable"
    loose_outputs = True

    def __init__(
        self, function: Callable[..., Any], network: Network | None, job: Job, precision: str = "float32"
    ) -> None:
        self.version = CallableEngine().version()
        self.precision = precision
        self._function = function
        self._job = job
        self._outputs = tuple(o.name for o in network.signature.outputs) if network else ()
        self.signature = Signature(
            network.signature.inputs if network else (), tuple(TensorSpec(n) for n in self._outputs)
        )
        # What the function shows is known only after a call.
        self._prepared: dict[str, np.ndarray] = {}
        first = self._call(job.inputs)
        self._first: dict[str, np.ndarray] | None = first
        self._outputs = self._outputs or tuple(first)
        self._output_order = self._output_names(first)
        outputs = set(self._output_order)
        self._sites = tuple(
            Site(name, name, role="output") if name in outputs else Site(name, name, module=name)
            for name in first
        )

    def _output_names(self, results: Mapping[str, np.ndarray]) -> tuple[str, ...]:
        named = tuple(n for n in self._outputs if n in results)
        return named or tuple(results)[: max(len(self._outputs), 1)]

    @property
    def inputs(self) -> dict[str, str]:
        return {name: name for name in self._job.inputs}

    @property
    def output_tensors(self) -> tuple[str, ...]:
        return self._output_order

    @property
    def sites(self) -> tuple[Site, ...]:
        return self._sites

    def _call(self, inputs: Arrays) -> dict[str, np.ndarray]:
        name = getattr(self._function, "__name__", "the function")
        given = [np.array(a) for a in inputs.values()]

        def refused(error: BaseException) -> EngineError:
            return failed(f"run {name}()", "callable", error, hint=_about_arrays(error))

        with self._job.step("run"), foreign_as(refused):
            results = self._function(*given)
        self.overwritten = self.overwritten | {n for n, a in zip(inputs, given) if not _same(inputs[n], a)}
        if isinstance(results, Mapping):
            named = dict(results)
        else:
            several = results if isinstance(results, list | tuple) else [results]
            names = self._outputs if len(self._outputs) == len(several) else None
            named = dict(zip(names or (f"output_{i}" for i in range(len(several))), several, strict=True))
            if names is None and len(several) == 1:
                named = {"output": several[0]}
        found = {str(name): _array(name, value) for name, value in named.items()}
        # What is named like an input is that input as the function prepared it.
        shown = [name for name in inputs if name in found and name not in self._outputs]
        self._prepared = {name: found.pop(name) for name in shown} if len(shown) < len(found) else {}
        return found

    def prepared(self, inputs: Arrays) -> Arrays:
        return self._prepared

    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        # The first call is a run as well: what is wrong only when cold must not be lost.
        first, self._first = self._first, None
        same = first is not None and all(
            _same(a, inputs[n]) for n, a in self._job.inputs.items() if n in inputs
        )
        results = first if first is not None and same else self._call(inputs)
        return {n: results[n] for n in self._output_names(results)}

    def trace(self, inputs: Arrays, watch: Collection[str], builder: TraceBuilder) -> Trace:
        for name, array in inputs.items():
            builder.add(name, np.asarray(array))
        for name, array in self._call(inputs).items():
            builder.add(name, array)
        return builder.done()


def _same(given: np.ndarray, after: np.ndarray) -> bool:
    return np.array_equal(given, after, equal_nan=dtype_class(after.dtype) == "float")


def _array(name: Any, value: Any) -> np.ndarray:
    if hasattr(value, "detach"):
        from twinnet.network.arrays import to_numpy

        return np.array(to_numpy(value))  # a copy: the next call may write over it
    array = np.array(value)
    if dtype_class(array.dtype) == "other":
        raise EngineError(
            f"the function returned something that is not a tensor as {name!r}: {type(value).__name__}"
        )
    return array


def _about_arrays(error: BaseException) -> str | None:
    """A hint if the function expected PyTorch tensors."""
    said = str(error)
    if "numpy.ndarray" not in said and "'numpy" not in said:
        return None
    return "a function is called with numpy arrays: torch.from_numpy(x) makes a tensor; or give the module itself"
