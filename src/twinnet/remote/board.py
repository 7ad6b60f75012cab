"""A board as a place: its programs, the files they need, and a folder of their own for each run."""

from __future__ import annotations

import hashlib
import itertools
import re
import shlex
import tarfile
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from importlib import resources
from pathlib import Path, PurePosixPath

from twinnet.errors import EngineError, undoing
from twinnet.programs.place import Place, Room
from twinnet.progress import Report, silent
from twinnet.remote.address import Address, read_address
from twinnet.remote.lease import Lease
from twinnet.remote.shell import Shell, fits
from twinnet.remote.ssh import Connection, Lost
from twinnet.scratch import scratch_folder

__all__ = ["Board", "Copied", "board_at"]

_LOCK = "/tmp/twinnet-lock"
_SLOWEST = 50_000
"""Bytes a second below which a copy is given up."""
_MOST = 1 << 34
"""Bytes that are accepted from a board at once."""


_WORDS = {
    "take": "give us the lease",
    "renew": "renew the lease",
    "begin": "make a folder for the run",
    "end": "clean up",
    "have": "look for files",
    "put": "take copies of files",
    "place": "place files",
    "fetch": "send files back",
    "clear": "clean up",
    "stop": "stop a program",
}
"""What the verbs of the board's script do."""


@dataclass(slots=True)
class Copied:
    """How many files a board was sent, and their bytes; files that it had already are not sent."""

    files: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class _Home:
    """Where a board keeps its files, as it told."""

    folder: str
    lock: str
    script: str
    machine: str


@dataclass
class Board(Place):
    """A board. It is reached, and its lease taken, with the first room; both are given up with the last."""

    address: Address
    report: Report = silent
    copied: Copied = field(default_factory=Copied)

    def __post_init__(self) -> None:
        self.name = self.address.text
        self.connection = Connection(self.address)
        self.run = ""
        self._users = 0
        self._lock = threading.RLock()
        self._lease: Lease | None = None
        self._sent: set[str] = set()
        self._shell: Shell | None = None
        self._shell_of = 0
        self._shell_lock = threading.Lock()
        self._versions: dict[tuple[str, ...], Mapping[str, str]] = {}
        self._keys = itertools.count()

    # -- coming and going ------------------------------------------------------------------------------------------

    @property
    def machine(self) -> str:
        return self.home.machine

    def room(self, purpose: str) -> Room:
        from twinnet.remote.room import BoardRoom

        return BoardRoom(self, purpose)

    def versions(self, packages: Sequence[str]) -> Mapping[str, str]:
        from twinnet.remote.facts import require

        key = tuple(packages)
        if key not in self._versions:
            self._versions[key] = require(self, packages).packages
        return self._versions[key]

    @contextmanager
    def kept(self) -> Iterator[Board]:
        """In this block the board is ours."""
        self.enter()
        try:
            yield self
        finally:
            self.leave()

    def enter(self) -> None:
        """Use the board; every call is matched by a `leave`."""
        with self._lock:
            if self._users == 0:
                self._begin()
            self._users += 1

    def leave(self) -> None:
        """Use the board no longer."""
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._end()

    def _begin(self) -> None:
        self.report(f"connecting to {self.name}", None)
        with undoing(self._end):
            self.connection.connect()
            self._lease = Lease(
                self.call, self.name, seconds=self.address.lease, wait=self.address.wait, report=self.report
            )
            self.run = f"{self._lease.number}-{uuid.uuid4().hex[:12]}"
            self.call("begin", self.run)

    def _end(self) -> None:
        lease, self._lease = self._lease, None
        try:
            if lease is not None:
                lease.stop()
            if lease is not None and not self.connection.gone:
                keep = str(self.address.store * 1_000_000)
                self.call("end", self.run or "none", str(lease.number), lease.owner, keep)
        except EngineError:
            pass  # the board is out of reach: the lease ends by itself, and the next run clears up
        finally:
            self.run = ""
            self._sent.clear()
            self._versions.clear()
            if self._shell is not None:
                self._shell.close()
                self._shell = None
            self.connection.close()

    def key(self) -> str:
        """A word that no other file or program of this run has."""
        return str(next(self._keys))

    # -- its script ------------------------------------------------------------------------------------------------

    @cached_property
    def home(self) -> _Home:
        """The folders that the board uses, made if need be."""
        body = (resources.files("twinnet.remote") / "board.sh").read_text(encoding="utf-8")
        name = f"board-{hashlib.sha256(body.encode()).hexdigest()[:16]}.sh"
        folder = (
            shlex.quote(self.address.folder)
            if self.address.folder
            else '"${XDG_CACHE_HOME:-$HOME/.cache}/twinnet-board"'
        )
        script = f"""umask 077
f={folder}
mkdir -p "$f/store" "$f/runs" && f=$(cd "$f" && pwd -P) || exit 71
[ -O "$f" ] || {{ echo "$f belongs to somebody else" >&2; exit 71; }}
cat >"$f/.{name}.$$" <<'TWINNET-END'
{body}TWINNET-END
mv -f "$f/.{name}.$$" "$f/{name}" || exit 71
printf '%s\\n' "home $f" "machine $(uname -m)"
"""
        code, out, log = self.connection.call(["sh", "-s"], "answer", source=script.encode())
        told = dict(line.split(" ", 1) for line in out.splitlines() if line.startswith(("home ", "machine ")))
        if code or not told.get("home", "").startswith("/"):
            said = (log.strip() or out.strip() or f"exit code {code}").splitlines()[-1][:300]
            raise EngineError(
                f"{self.name} has no folder for twinnet: {said}",
                stage="connect",
                log=log,
                hint="name another one: ssh://host/folder",
            )
        place = told["home"]
        lock = f"{place}/lock" if self.address.folder else _LOCK
        return _Home(place, lock, f"{place}/{name}", told.get("machine", "")[:40])

    def words(self, *words: str) -> list[str]:
        """The command that calls a verb of the board's script."""
        home = self.home
        return ["sh", home.script, home.folder, home.lock, *words]

    def call(
        self, *words: str, source: bytes | Path | None = None, target: Path | None = None, limit: float = 60.0
    ) -> str:
        """Call a verb of the board's script; what it printed, unless it went to `target`."""
        if not isinstance(source, Path) and target is None and fits(words, source):
            code, data, log = self.connection.retried(lambda: self._quick(words, source, limit))
            out = data.decode(errors="replace")
        else:
            code, out, log = self.connection.call(
                self.words(*words), _WORDS[words[0]], source=source, target=target, limit=limit
            )
        if code:
            raise self._failed(words[0], code, log)
        return out

    def _failed(self, verb: str, code: int, log: str) -> EngineError:
        said = (log.strip() or f"exit code {code}").splitlines()[-1][:300]
        return EngineError(f"{self.name} could not {_WORDS[verb]}: {said}", stage="run", log=log)

    def _quick(self, words: Sequence[str], source: bytes | None, limit: float) -> tuple[int, bytes, str]:
        with (
            self._shell_lock
        ):  # not the other one: whoever ends the lease holds that, and waits for its thread
            if self._shell is None or not self._shell.alive or self._shell_of != self.connection.made:
                if self._shell is not None:
                    self._shell.close()
                line = self.connection.command(self.words("serve"))
                self._shell, self._shell_of = Shell(line, self._lost), self.connection.made
            shell = self._shell
        return shell.call(words, source, limit)

    def _lost(self, verb: str, log: str) -> Lost:
        return self.connection.lost(_WORDS[verb], log)

    def check(self) -> None:
        """Raise an error if the board is not ours any more."""
        if self._lease is not None:
            self._lease.check()

    # -- files -----------------------------------------------------------------------------------------------------

    def give(self, files: Iterable[Path]) -> list[str]:
        """Put files into the board's store, under a name made from their content; those it has are not copied."""
        self.check()
        named = [(stored_name(file), file) for file in files]
        new = {name: file for name, file in named if name not in self._sent}
        if new:
            asked = [f"{name}:{file.stat().st_size}" for name, file in new.items()]
            missing = [m for part in _parts(asked, 200) for m in self.call("have", *part).split()]
            self._put({name: new[name] for name in missing if name in new})
            self._sent.update(new)
        return [name for name, _ in named]

    def _put(self, files: dict[str, Path]) -> None:
        if not files:
            return
        with scratch_folder("board") as folder:
            packed = folder / "files.tar"
            with tarfile.open(
                packed, "w", format=tarfile.USTAR_FORMAT if _small(files) else tarfile.GNU_FORMAT
            ) as tar:
                for name, file in files.items():
                    info = tarfile.TarInfo(name)
                    info.size, info.mode = file.stat().st_size, 0o600
                    with file.open("rb") as data:
                        tar.addfile(info, data)
            size = packed.stat().st_size
            self.report(f"copying {size / 1e6:.1f} MB to {self.name}", None)
            small = packed.read_bytes() if size < 1 << 20 else packed
            self.call("put", self.key(), source=small, limit=60.0 + size / _SLOWEST)
        self.copied.files += len(files)
        self.copied.bytes += sum(file.stat().st_size for file in files.values())

    def place_files(self, folders: Sequence[str], files: dict[str, Path]) -> None:
        """Make folders in the run's folder, and put files there, by their paths in it."""
        lines = [f"- {path}" for path in folders]
        for path in (*folders, *files):
            if re.search(r"[\x00-\x1f\x7f\\]|^\s|\s$", path) or PurePosixPath(path).is_absolute():
                raise EngineError(f"a file cannot be called {path!r} on a board", stage="run")
        names = self.give(files.values())
        lines += [f"{name} {path}" for name, path in zip(names, files, strict=True)]
        self.call("place", self.run, source="".join(f"{line}\n" for line in lines).encode())

    def fetch(self, path: str, target: Path) -> None:
        """Copy a file or folder of the run's folder to `target`; nothing happens if there is none."""
        with scratch_folder("board") as folder:
            packed = folder / "files.tar"
            words = ["fetch", self.run, path, "900"]
            code, data, log = 75, b"", ""
            if fits(words, None):
                code, data, log = self.connection.retried(lambda: self._quick(words, None, 60.0))
            if code == 75:  # too large for this way
                self.call(*words[:3], "0", target=packed, limit=600.0)
            elif code:
                raise self._failed("fetch", code, log)
            else:
                packed.write_bytes(data)
            if packed.stat().st_size:
                self._unpack(packed, path, target)

    def _unpack(self, packed: Path, path: str, target: Path) -> None:
        """Only plain files and folders, below the path that was asked for, are accepted."""
        total = 0
        try:
            with tarfile.open(packed, "r:") as tar:
                for member in tar:
                    inner = PurePosixPath(member.name.removeprefix("./")).relative_to(path)
                    total += member.size
                    if ".." in inner.parts or total > _MOST:
                        raise ValueError(member.name)
                    place = target / inner
                    if member.isdir():
                        place.mkdir(parents=True, exist_ok=True)
                    elif member.isreg():
                        place.parent.mkdir(parents=True, exist_ok=True)
                        held = tar.extractfile(member)
                        assert held is not None
                        with place.open("wb") as out:
                            while block := held.read(1 << 20):
                                out.write(block)
        except (tarfile.TarError, ValueError, EOFError) as error:
            raise EngineError(
                f"{self.name} sent something other than a copy of {path}", stage="run", log=str(error)
            ) from None


def stored_name(file: Path) -> str:
    """The name of a file in a store: the sha256 of its content, and its suffix."""
    with file.open("rb") as data:
        digest = hashlib.file_digest(data, "sha256").hexdigest()
    suffix = file.suffix if re.fullmatch(r"\.[A-Za-z0-9]{1,12}", file.suffix) else ""
    return digest + suffix


def _small(files: dict[str, Path]) -> bool:
    return all(file.stat().st_size < 1 << 33 for file in files.values())


def _parts(items: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


_BOARDS: dict[str, Board] = {}


def board_at(text: str, report: Report = silent) -> Board:
    """The board of an address; all who use it in this process share its connection and its lease."""
    board = _BOARDS.get(text)
    if board is None:
        board = _BOARDS[text] = Board(read_address(text))
    board.report = report
    return board
