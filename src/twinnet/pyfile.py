"""Load the user's own Python code by reference: `path/to/file.py:name` or `package.module:name`.

Factories, sample generators, preprocessing functions, metrics and callables are all loaded here, so that their errors
look the same: the user's file and line and the exception's own text, never a stack trace of twinnet.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from twinnet.errors import UsageError, foreign_as

__all__ = ["call_user", "is_reference", "kind_words", "load_attribute", "split_reference"]

# Files already imported: path -> (modification time, size, module). A factory and a generator of one file
# must see the same classes, so a file is imported again only when it changed.
_loaded: dict[Path, tuple[int, int, ModuleType]] = {}


def split_reference(reference: str) -> tuple[str, str]:
    """The part before and after the last colon; a path that exists as a file has no attribute.

    >>> split_reference("models/net.py:build")
    ('models/net.py', 'build')
    """
    if Path(reference).is_file():
        return reference, ""
    place, colon, name = reference.rpartition(":")
    if not colon or "/" in name or "\\" in name:
        return reference, ""
    return place, name


def is_reference(text: str) -> bool:
    """Whether `text` reads as `file.py:name` or `package.module:name`.

    >>> is_reference("net.py:build"), is_reference("net.onnx")
    (True, False)
    """
    place, name = split_reference(text)
    dotted = place.replace(".", "_").isidentifier()
    return bool(name) and name.replace(".", "_").isidentifier() and (place.endswith(".py") or dotted)


def load_attribute(reference: str, what: str = "factory") -> Any:
    """Import the file or module of `reference` and return its attribute; `what` names it in error messages.

    >>> load_attribute("math:hypot", what="metric")(3, 4)
    5.0
    """
    place, name = split_reference(str(reference))
    if not name:
        raise UsageError(
            f"{reference!r} does not say which {what} to use",
            hint=f"write it as {place if place.endswith('.py') else 'file.py'}:NAME",
        )
    path = Path(place)
    if path.is_file():
        module = _import_file(path, what)
    elif place.endswith(".py") or "/" in place or "\\" in place:
        raise UsageError(f"no such file: {place} (the {what} was given as {reference})")
    else:
        module = _import_module(place, what)
    return _attribute(module, name, place, what)


def call_user(
    function: Callable[..., Any], *args: Any, what: str = "function", name: str = "", **kwargs: Any
) -> Any:
    """Call the user's function; what it raises becomes a `UsageError` with its file, line and text.

    >>> call_user(int, "x", what="metric", name="int")
    Traceback (most recent call last):
    ...
    twinnet.errors.UsageError: metric int raised ValueError: invalid literal for int() with base 10: 'x'
    """
    title = f"{what} {name or getattr(function, '__name__', '') or type(function).__name__}"
    source = _source_file(function)

    def refused(error: BaseException) -> UsageError:
        return UsageError(f"{_place(error, source)}{title} raised {_text(error)}")

    with _importable(source.parent if source else None), foreign_as(refused):
        return function(*args, **kwargs)


def _import_file(path: Path, what: str) -> ModuleType:
    path = path.resolve()
    stamp = (path.stat().st_mtime_ns, path.stat().st_size)
    known = _loaded.get(path)
    if known and known[:2] == stamp:
        return known[2]
    root, dotted = _package_root(path)
    with _importable(root):
        _forget_namesakes(root)
        if "." in dotted and known:
            sys.modules.pop(dotted, None)
        with _imports(path, what, path):
            module = importlib.import_module(dotted) if "." in dotted else _exec(path, dotted)
    _loaded[path] = (*stamp, module)
    return module


def _exec(path: Path, stem: str) -> ModuleType:
    """Run a file as a module under its own name, or under a private one when that name is taken."""
    name = stem
    taken = sys.modules.get(name)
    if taken is not None or _elsewhere(name, path):
        name = f"{stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path.name} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(name)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        if before is not None:
            sys.modules[name] = before
        raise
    return module


def _import_module(place: str, what: str) -> ModuleType:
    with _importable(Path.cwd()):
        absent = UsageError(
            f"no module named {place!r} (for the {what})",
            hint="a file is named by its path, as in models/net.py:build",
        )

        def refused(error: BaseException) -> UsageError:
            if isinstance(error, ModuleNotFoundError):
                itself = error.name is not None and f"{place}.".startswith(f"{error.name}.")
                return absent if itself else UsageError(f"{place} could not be imported: {_text(error)}")
            return UsageError(f"{_place(error, None)}{place} could not be imported: {_text(error)}")

        with foreign_as(refused):  # it imports the packages above
            found = importlib.util.find_spec(place)
        if found is None:
            raise absent
        with _imports(place, what, None):
            return importlib.import_module(place)


def _attribute(module: ModuleType, name: str, place: str, what: str) -> Any:
    value: Any = module
    for part in name.split("."):
        if not hasattr(value, part):
            names = [n for n in vars(value) if not n.startswith("_")]
            close = difflib.get_close_matches(part, names, n=3)
            own = [n for n in names if callable(getattr(value, n)) and _defined_in(getattr(value, n), module)]
            offer = (
                f"did you mean {' or '.join(close)}?"
                if close
                else f"it defines: {', '.join(own) or 'nothing'}"
            )
            raise UsageError(f"{place} has no {part!r} (the {what})", hint=offer)
        value = getattr(value, part)
    if not callable(value) and what != "samples":
        raise UsageError(f"{place}:{name} is {kind_words(value)}, not a {what} that can be called")
    return value


def _defined_in(value: Any, module: ModuleType) -> bool:
    return getattr(value, "__module__", None) == module.__name__


def kind_words(value: Any) -> str:
    """The type of a value as words.

    >>> kind_words(3)
    'an int'
    """
    text = type(value).__name__
    return f"{'an' if text[0].lower() in 'aeiou' else 'a'} {text}"


def _package_root(path: Path) -> tuple[Path, str]:
    """The folder to import from, and the dotted name: a file inside a package keeps its relative imports."""
    parts, folder = [path.stem], path.parent
    while (folder / "__init__.py").is_file() and folder.name.isidentifier():
        parts.insert(0, folder.name)
        folder = folder.parent
    return folder, ".".join(parts)


def _elsewhere(name: str, path: Path) -> bool:
    """Whether `import name` means something else (a file called types.py must not replace the library's)."""
    if name in sys.stdlib_module_names:
        return True
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return False
    return spec is not None and spec.origin is not None and Path(spec.origin).resolve() != path


def _forget_namesakes(root: Path) -> None:
    """Drop modules of another user folder that carry the name of a file here (two utils.py)."""
    others = {path.parent for path in _loaded} - {root}
    for entry in root.iterdir() if others else ():
        name = entry.stem if entry.suffix == ".py" else entry.name
        origin = getattr(sys.modules.get(name), "__file__", None)
        if origin is None or Path(origin).resolve().is_relative_to(root):
            continue
        if any(Path(origin).resolve().is_relative_to(folder) for folder in others):
            del sys.modules[name]


@contextlib.contextmanager
def _importable(folder: Path | None) -> Iterator[None]:
    if folder is None:
        yield
        return
    entry = str(folder)
    sys.path.insert(0, entry)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(entry)


def _imports(shown: str | Path, what: str, source: Path | None) -> contextlib.AbstractContextManager[None]:
    name = shown.name if isinstance(shown, Path) else shown

    def refused(error: BaseException) -> UsageError:
        return UsageError(f"{_place(error, source)}importing {name} for its {what} raised {_text(error)}")

    return foreign_as(refused)


def _text(error: BaseException) -> str:
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _place(error: BaseException, source: Path | None) -> str:
    """`file:line: ` of the innermost line of the user's own code, or an empty string."""
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return f"{_short(Path(error.filename))}:{error.lineno}: "
    ours = str(Path(__file__).parent)
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((ours, "<")) and "importlib" not in frame.filename
    ]
    if source is not None:
        own = [f for f in frames if Path(f.filename).resolve().is_relative_to(source.parent)]
        frames = [f for f in own if "site-packages" not in f.filename] or own or frames
    else:
        frames = [f for f in frames if "site-packages" not in f.filename] or frames
    return f"{_short(Path(frames[-1].filename))}:{frames[-1].lineno}: " if frames else ""


def _short(path: Path) -> str:
    """Relative to the working folder where that is shorter."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _source_file(function: Any) -> Path | None:
    try:
        source = inspect.getsourcefile(inspect.unwrap(function))
    except (TypeError, ValueError):
        return None
    return Path(source).resolve() if source else None
