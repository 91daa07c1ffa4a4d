"""Files that appear whole or not at all, and stay after a power failure; and a lock for who may write them."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator, Sized
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final
from zlib import crc32

from sureenough.errors import EngineError, TraceError, UsageError

fcntl: Any = None
msvcrt: Any = None
try:
    import fcntl
except ImportError:  # Windows
    with suppress(ImportError):
        import msvcrt

WINDOWS: Final = os.name == "nt"
LONGEST_NAME: Final = 230
"""Bytes of a file's name that can be part of another one; most file systems allow 255."""
LOCKED_BYTE: Final = 1 << 30
"""Windows locks bytes, which others cannot read then: one far beyond the owner's name."""


def sync_folder(folder: Path) -> None:
    """Make renamed and new files of a folder durable; systems that cannot open a folder need no such call."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass  # some network file systems refuse
    finally:
        os.close(descriptor)


def own_file(file: Path, ending: str) -> Path:
    """A hidden file of ours beside another one: `X.part` and `X.lock` may be the user's."""
    name = os.fsencode(file.name)
    return file.with_name(f".{file.name if len(name) <= LONGEST_NAME else crc32(name)}.sureenough-{ending}")


def is_system_file(file: Path) -> bool:
    """Whether a file is in /dev or /proc, as /dev/stdout is, open or not: none may lie beside it or take its place."""
    parts = file.absolute().parts[1:3]
    return parts[:1] in (("dev",), ("proc",)) and parts != ("dev", "shm")


def open_own(file: str, flags: int) -> int:
    """Open such a file; a link in its place, which another user of the folder could have made, is refused."""
    return os.open(file, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


def check_writable(file: Path) -> None:
    """Raise the OSError now that would otherwise meet the finished file; nothing remains of the attempt."""
    part = own_file(file, "part")
    os.close(open_own(str(part), os.O_WRONLY | os.O_CREAT))
    part.unlink()


def publish(part: Path, file: Path) -> None:
    """Rename a finished temporary file to its final name; its bytes and its name are on disk when this returns."""
    with open(part, "rb+") as handle:
        os.fsync(handle.fileno())
    os.replace(part, file)
    sync_folder(file.parent)


def write_file(file: Path, data: bytes) -> None:
    """Write a whole file durably; a reader sees the old content or the new, never half of it."""
    part = own_file(file, "part")
    with open(part, "wb", opener=open_own) as handle:
        handle.write(data)
    publish(part, file)


@contextmanager
def resumable(kept_in: Path, done: Sized | None = None) -> Iterator[None]:
    """Add to an engine's error where that which was done until then is kept, unless `done` is empty."""
    try:
        yield
    except EngineError as error:
        if done is not None and not len(done):
            raise
        sentence = str(error) if str(error).endswith(("?", "!", ".")) else f"{error}."
        error.args = (f"{sentence} What was done is kept in {kept_in}; the same command goes on",)
        raise  # not a new one: errors of other packages' engines may be made in another way


HELD_ELSEWHERE: Final = "if that process has ended, remove {file}"


class OutputLock(AbstractContextManager["OutputLock"]):
    """Held by the one process that writes an output. The file names its owner by process id and host.

    An operating-system lock on the file decides, so the lock of a killed process is free at once. On file systems
    without such locks the owner's process id decides, and an owner on another host keeps the lock.
    """

    def __init__(self, file: Path, output: Path | None = None) -> None:
        self.file = file
        self._output = output or file
        self._handle: IO[str] = self._acquire()

    def _acquire(self) -> IO[str]:
        while True:
            try:
                handle = open(self.file, "a+", encoding="utf-8", opener=open_own)  # noqa: SIM115  # held until release()
            except OSError as error:
                raise TraceError(
                    f"cannot write {self.file}: {error.strerror or error}; choose another place with -o"
                ) from None
            locked = _lock(handle)
            owner = _owner(handle)
            if locked is False or (owner and not _is_gone(owner, locked)):
                handle.close()
                raise UsageError(self._busy(owner))
            if _is_same_file(handle, self.file):
                owner = {"pid": os.getpid(), "host": socket.gethostname()}
                with suppress(OSError):  # on a full disk the lock holds without a name
                    handle.truncate(0)
                    os.write(handle.fileno(), json.dumps(owner).encode())
                return handle
            handle.close()  # the owner removed the file while it was being opened: there is a new one to lock

    def _busy(self, owner: dict[str, Any]) -> str:
        who = f"process {owner['pid']} on {owner['host']}" if owner else "another process"
        remove = HELD_ELSEWHERE.format(file=self.file)
        return f"{self._output} is being written by {who}; wait for it, or name another output ({remove})"

    def release(self) -> None:
        """Remove the file and let others write."""
        if not self._handle.closed:
            if WINDOWS:  # it removes no open files, this one or that of a new owner
                self._handle.close()
            with suppress(*[PermissionError] if WINDOWS else []):
                self.file.unlink(missing_ok=True)
            self._handle.close()

    def __exit__(self, *_: object) -> None:
        self.release()


def is_lock(file: Path) -> bool:
    """Whether a file may be an output's lock: it names an owner, or is blank, as after a power failure."""
    try:
        with open(file, encoding="utf-8", errors="replace") as handle:
            text = handle.read(1000)
            return not text.strip("\0 \n") or bool(_owner(handle))
    except OSError:
        return False


def _lock(handle: IO[str]) -> bool | None:
    """Whether the operating system's lock is ours; None if it has no such locks for this file."""
    if fcntl is None:
        return None if msvcrt is None else _lock_byte(handle.fileno())
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _lock_byte(descriptor: int) -> bool:
    os.lseek(descriptor, LOCKED_BYTE, os.SEEK_SET)
    try:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    except OSError:
        return False
    return True


def _owner(handle: IO[str]) -> dict[str, Any]:
    """Who wrote the lock file; empty if it does not say."""
    try:
        handle.seek(0)
        owner = json.loads(handle.read(1000))
        return owner if isinstance(owner["pid"], int) and isinstance(owner["host"], str) else {}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}


def _is_gone(owner: dict[str, Any], locked: bool | None) -> bool:
    if owner["host"] != socket.gethostname():
        return False
    if locked or owner["pid"] == os.getpid():
        return True
    if WINDOWS:
        return False  # there, os.kill(…, 0) does not ask: it sends Ctrl-C
    try:
        os.kill(owner["pid"], 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


def _is_same_file(handle: IO[str], file: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle.fileno()), file.stat())
    except FileNotFoundError:
        return False
