"""A board to test with: a real sshd on loopback, with keys, configuration and known hosts of its own."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tests.needs import absent

__all__ = ["SshBoard", "start_board"]

_SERVER = """
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host
PidFile none
AuthorizedKeysFile {folder}/user.pub
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
MaxSessions 50
MaxStartups 50
ForceCommand sh {folder}/login.sh
"""
_LOGIN = """
PATH="{path}" XDG_CACHE_HOME="{folder}/cache" export PATH XDG_CACHE_HOME
exec sh -c "$SSH_ORIGINAL_COMMAND"
"""
_CLIENT = """
Host board
    HostName 127.0.0.1
    Port {port}
    User {user}
    IdentityFile {folder}/user
    IdentitiesOnly yes
    UserKnownHostsFile {folder}/known_hosts
    GlobalKnownHostsFile none
"""


@dataclass
class SshBoard:
    """A running sshd. `home` is the folder that the board uses; `config` is for the client."""

    folder: Path
    port: int
    server: subprocess.Popen[bytes]

    @property
    def config(self) -> Path:
        return self.folder / "config"

    @property
    def home(self) -> Path:
        return self.folder / "board home"

    def address(self, **settings: object) -> str:
        """The board's address; its Python is the one of the tests."""
        query = "&".join(f"{k}={v}" for k, v in settings.items())
        return f"ssh://board{self.folder}/board%20home{'?' if query else ''}{query}"

    def connections(self) -> list[int]:
        """The processes of sshd that serve a connection."""
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            try:
                parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue
            if parent == self.server.pid:
                found.append(int(place.name))
        return found

    def cut(self) -> int:
        """Kill all connections; how many there were."""
        found = self.connections()
        for pid in [p for one in found for p in (*_children(one), one)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return len(found)

    def stop(self) -> None:
        """End the server and its connections, once."""
        if self.server.poll() is not None:
            return
        self.server.send_signal(signal.SIGSTOP)  # it takes no new ones
        self.cut()
        self.server.kill()
        self.server.wait()


def _children(pid: int) -> list[int]:
    """The children of a connection that are sshd as well: it divides its work."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            head, _, rest = (place / "stat").read_text().rpartition(")")
        except OSError:
            continue
        if int(rest.split()[1]) == pid and "sshd" in head:
            found.append(int(place.name))
    return found


def start_board(folder: Path, *, busybox: bool = False) -> SshBoard:
    """Start a board, or skip the test if there is no sshd here.

    With `busybox` its shell and all its programs but Python are those of busybox.
    """
    server = shutil.which("sshd", path=os.environ.get("PATH", "") + os.pathsep + "/usr/sbin")
    if server is None or shutil.which("ssh") is None or shutil.which("ssh-keygen") is None:
        absent("OpenSSH is not installed (openssh-server, openssh-client): no board to test with")
    if os.name != "posix" or not Path("/proc/self").exists():
        absent("the board of the tests needs /proc")
    folder.mkdir(parents=True, exist_ok=True)
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    path = f"{Path(sys.executable).parent}:$PATH"
    if busybox:
        path = str(_busybox(folder / "bin"))
    for name in ("host", "user"):
        line = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(folder / name)]
        subprocess.run(line, check=True)
    while True:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        values = {"port": port, "folder": folder, "user": getpass.getuser()}
        (folder / "server").write_text(_SERVER.format(**values))
        (folder / "login.sh").write_text(_LOGIN.format(path=path, **values))
        (folder / "config").write_text(_CLIENT.format(**values))
        key = " ".join((folder / "host.pub").read_text().split()[:2])
        (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {key}\n")
        with (folder / "log").open("wb") as log:
            line = [server, "-D", "-e", "-f", str(folder / "server")]
            running = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        while running.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return SshBoard(folder, port, running)
            except OSError:
                time.sleep(0.02)
        said = (folder / "log").read_text()
        if "Address already in use" not in said:  # otherwise somebody else was quicker
            absent(f"sshd does not start: {said[-500:]}")


def _busybox(folder: Path) -> Path:
    """A folder for PATH with the programs of busybox, Python, and nothing else."""
    program = shutil.which("busybox")
    if program is None:
        absent("busybox is not installed: no small board to test with")
    folder.mkdir()
    subprocess.run([program, "--install", "-s", str(folder)], check=True)
    (folder / "python3").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (folder / "python3").chmod(0o755)
    return folder
