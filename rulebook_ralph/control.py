"""The control socket of a running Ralph: where it is, who is at the other end, one bounded message each way.

A message is JSON and ends where its sender stops writing. The address follows from the repository's private folder and
the process id in its lock, so that nothing has to be written down. On Linux it is an abstract name, which has no length
of a path and vanishes with its process; elsewhere a file in a folder of the user's own.
"""

import hashlib
import os
import socket
import stat
import struct
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from rulebook_ralph.core.orders import Situation
from rulebook_ralph.core.problem import Fault
from rulebook_ralph.errors import RalphError

MOST_BYTES = 1024 * 1024
"""The longest message, in bytes."""

_SOL_LOCAL, _LOCAL_PEERCRED, _LOCAL_PEERPID = 0, 1, 2
_XUCRED = 76
_BLOCK = 64 * 1024


class Peer(NamedTuple):
    """The process at the other end as it was when it connected; `pid` is 0 in another PID namespace."""

    pid: int
    uid: int


class Answer(msgspec.Struct, frozen=True):
    """What the running Ralph says. With `refused` nothing was changed; `faults` are all that is wrong with an edit.

    `situation` is where the run stood when an order came.
    """

    text: str
    refused: bool = False
    faults: tuple[Fault, ...] = ()
    situation: Situation | None = None


class NoAnswerError(RalphError):
    """The run was reached and did not answer in time: whether it did what it was asked is not known."""


def address(private: Path, pid: int, *, abstract: bool = sys.platform == "linux") -> str:
    """Where the process of that id listens for the project whose private git folder that is."""
    name = f"{hashlib.sha256(os.fsencode(private.resolve())).hexdigest()[:24]}-{pid}"
    return f"\0ralph-{name}" if abstract else f"/tmp/ralph-{os.getuid()}/{name}"  # noqa: S108 - checked in `listen`


def listen(place: str) -> socket.socket:
    """A listening socket. Raises OSError."""
    if not place.startswith("\0"):
        _own_folder(Path(place).parent)
        Path(place).unlink(missing_ok=True)  # of a dead process with the same id
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(place)
        listener.listen()
    except OSError:
        listener.close()
        raise
    return listener


def stop_listening(listener: socket.socket, place: str) -> None:
    """Close it and remove what `listen` made."""
    listener.close()
    if not place.startswith("\0"):
        with suppress(OSError):
            Path(place).unlink()


def peer_of(connection: socket.socket) -> Peer:
    """Who is at the other end, from the kernel. Raises OSError."""
    if sys.platform == "linux":
        pid, uid, _ = struct.unpack("iII", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return Peer(pid, uid)
    (pid,) = struct.unpack("i", connection.getsockopt(_SOL_LOCAL, _LOCAL_PEERPID, 4))
    _, uid = struct.unpack_from("II", connection.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED))
    return Peer(pid, uid)


def receive(connection: socket.socket, *, seconds: float) -> bytes:
    """The whole message of the other end. Raises RalphError where it is too long or takes more than `seconds`."""
    deadline = time.monotonic() + seconds
    blocks: list[bytes] = []
    size = 0
    while size <= MOST_BYTES:
        left = deadline - time.monotonic()
        if left <= 0:
            break
        connection.settimeout(left)
        try:
            block = connection.recv(_BLOCK)
        except TimeoutError:
            break
        except ConnectionError:
            block = b""
        if not block:
            return b"".join(blocks)
        blocks.append(block)
        size += len(block)
    problem = f"is longer than {MOST_BYTES // 1024} KB" if size > MOST_BYTES else f"did not come within {seconds:.0f} s"
    raise RalphError(f"the message {problem}")


def send(connection: socket.socket, message: bytes, *, seconds: float) -> None:
    """Send the whole message and its end. Raises OSError."""
    connection.settimeout(seconds)
    connection.sendall(message)
    connection.shutdown(socket.SHUT_WR)


def ask(place: str, message: bytes, *, server: int, seconds: float) -> Answer | None:
    """The answer of the process `server` to a message; None where nobody listens. Raises RalphError."""
    if len(message) > MOST_BYTES:
        raise RalphError(
            f"this edit is longer than {MOST_BYTES // 1024} KB; make it with an editor, when no run goes on"
        )
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(seconds)
        try:
            connection.connect(place)
            peer = peer_of(connection)
        except OSError:
            return None
        if peer.uid != os.getuid() and peer.pid in (0, server):
            raise RalphError(
                f"the running Ralph (process {server}) is another user's (user id {peer.uid}) and answers only that one"
            )
        if peer.uid != os.getuid() or (peer.pid and peer.pid != server):
            raise RalphError(
                f"process {peer.pid} answers in place of the running Ralph (process {server}); end it first"
            )
        with suppress(OSError):  # it may refuse before it has read all; what it says is still to be read
            send(connection, message, seconds=seconds)
        try:
            return msgspec.json.decode(receive(connection, seconds=seconds), type=Answer)
        except (RalphError, OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            unknown = "whether the edit was made is not known; look with: ralph task list"
            raise NoAnswerError(f"the running Ralph (process {server}) gave no answer; {unknown}") from None


def _own_folder(folder: Path) -> None:
    """Make the folder for the user alone. Raises OSError where it is another's, or open to others."""
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise PermissionError(f"{folder} is not a folder of this user's alone")
