"""Runs LiteRT in a process of its own, where it may abort.

As a program (`twinnet.programs`) it answers one JSON request per line; tensors travel as .npz files, by their index. It
needs numpy and ai-edge-litert.
"""

from __future__ import annotations

from typing import Any

from twinnet.programs.lines import answer_lines

__all__ = ["KERNELS", "make_interpreter"]

KERNELS = {
    "xnnpack": "AUTO",
    "builtin": "BUILTIN_WITHOUT_DEFAULT_DELEGATES",
    "reference": "BUILTIN_REF",
}
_UNTOUCHED = 0x5B


def make_interpreter(file: str, settings: dict[str, Any]) -> Any:
    """An interpreter of a file.

    `settings`: kernels, threads, delegate (path or None), preserve (keep all tensors), shapes (by input tensor).
    """
    from ai_edge_litert import interpreter as litert

    delegates = [litert.load_delegate(settings["delegate"])] if settings.get("delegate") else None
    made = litert.Interpreter(
        model_path=file,
        num_threads=settings.get("threads") or 1,
        experimental_delegates=delegates,
        experimental_op_resolver_type=getattr(litert.OpResolverType, KERNELS[settings["kernels"]]),
        experimental_preserve_all_tensors=bool(settings.get("preserve")),
    )
    known = {d["index"]: tuple(int(n) for n in d["shape"]) for d in made.get_input_details()}
    for tensor, shape in (settings.get("shapes") or {}).items():
        if known.get(int(tensor)) != tuple(shape):
            made.resize_tensor_input(int(tensor), shape)
    made.allocate_tensors()
    return made


class Loaded:
    """An interpreter and what it may show."""

    def __init__(self, file: str, settings: dict[str, Any]) -> None:
        self.interpreter = make_interpreter(file, settings)
        self.delegated = settings["kernels"] == "xnnpack" or bool(settings.get("delegate"))
        self.preserves = bool(settings.get("preserve"))

    def run(self, feeds: dict[int, Any], wanted: list[int]) -> dict[str, Any]:
        """The tensors that were computed; one that a delegate kept to itself is left out."""
        import numpy

        inner, ends = self.interpreter, {d["index"] for d in self.interpreter.get_output_details()}
        if not self.preserves:
            wanted = [t for t in wanted if t in ends]  # the memory of any other is used again
        for tensor, array in feeds.items():
            inner.set_tensor(tensor, array)
        inner.reset_all_variables()
        marked = self._mark([t for t in wanted if t not in feeds]) if self.delegated else set()
        inner.invoke()
        found = {}
        for tensor in wanted:
            try:
                array = inner.get_tensor(tensor)
            except ValueError:  # it has no memory of its own
                continue
            if (
                tensor in marked
                and array.nbytes
                and bool((array.reshape(-1).view(numpy.uint8) == _UNTOUCHED).all())
            ):
                continue
            if array.dtype != object and array.dtype.kind not in "SU":
                found[str(tensor)] = array
        return found

    def _mark(self, tensors: list[int]) -> set[int]:
        """Fill tensors with a pattern that shows whether they are written.

        Not those of sizes and indices: some are computed before the network runs, for the memory of others.
        """
        import numpy

        marked = set()
        for tensor in tensors:
            try:
                held = self.interpreter.tensor(tensor)()
                fits = held.dtype.kind == "f" or held.dtype.itemsize < 4
                if fits and held.nbytes and held.flags.writeable and held.flags.c_contiguous:
                    held.reshape(-1).view(numpy.uint8)[:] = _UNTOUCHED
                    marked.add(tensor)
                del held
            except ValueError:
                continue
        return marked

    def time(self, feeds: dict[int, Any], repeats: int) -> dict[str, list[float]]:
        """Seconds of each of these runs, by the clock and of the CPU."""
        import time

        times: dict[str, list[float]] = {"seconds": [], "cpu": []}
        for _ in range(repeats):
            for tensor, array in feeds.items():
                self.interpreter.set_tensor(tensor, array)
            self.interpreter.reset_all_variables()
            cpu, start = time.process_time(), time.perf_counter()
            self.interpreter.invoke()
            times["seconds"].append(time.perf_counter() - start)
            times["cpu"].append(time.process_time() - cpu)
        return times

    def steps(self) -> list[dict[str, Any]]:
        """All operators, those that a delegate added behind the others."""
        found = self.interpreter._get_ops_details()
        return [
            {
                "op": op["op_name"],
                "inputs": [int(t) for t in op["inputs"]],
                "outputs": [int(t) for t in op["outputs"]],
            }
            for op in found
        ]


def _answer(asked: dict[str, Any], loaded: dict[int, Loaded]) -> dict[str, Any]:
    import numpy

    do = asked["do"]
    if do == "load":
        loaded[asked["session"]] = Loaded(asked["model"], asked["settings"])
        return {}
    if do == "drop":
        loaded.pop(asked["session"], None)
        return {}
    if do == "steps":
        return {"steps": loaded[asked["session"]].steps()}
    with numpy.load(asked["feeds"], allow_pickle=False) as data:
        feeds = {int(name): data[name] for name in data.files}
    if do == "time":
        return loaded[asked["session"]].time(feeds, asked["repeats"])
    found = loaded[asked["session"]].run(feeds, asked["tensors"])
    numpy.savez(asked["results"], **found)
    return {"tensors": [int(t) for t in found]}


if __name__ == "__main__":
    answer_lines(_answer)
