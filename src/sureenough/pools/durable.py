"""Files that appear whole or not at all, and stay after a power failure; and a lock for who may write them."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterable, Iterator, Sized
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final
from zlib import crc32

from filelock import FileLock, Timeout

from sureenough.errors import EngineError, TraceError, UsageError

LONGEST_NAME: Final = 230
"""Bytes of a file's name that can be part of another one; most file systems allow 255."""


def sync_folder(folder: Path) -> None:
    """Make renamed and new files of a folder durable; systems that cannot open a folder need no such call."""
    with suppress(OSError):  # and some network file systems refuse
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
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


def open_own(file: str, flags: int, mode: int = 0o666) -> int:
    """Open such a file; a link in its place, which another user of the folder could have made, is refused."""
    return os.open(file, flags | getattr(os, "O_NOFOLLOW", 0), mode)


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


def write_file(file: Path, lines: Iterable[bytes], *, ending: str = "part", mode: int = 0o666) -> None:
    """Write a whole file durably; a reader sees the old content or the new, never half of it."""
    part = own_file(file, ending)
    try:
        with open(part, "wb", opener=partial(open_own, mode=mode)) as handle:
            handle.writelines(lines)
        publish(part, file)
    except BaseException:  # what makes the lines may fail, too
        with suppress(OSError):
            if not part.is_symlink():  # a link in its place was refused, and stays
                part.unlink()  # it may have filled the disk
        raise


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


OWNER: Final = r"process \d+ on [\w.-]{1,255}"


class OutputLock(AbstractContextManager["OutputLock"]):
    """Held by the one process that writes an output; the file names it. When that process is killed, it is free."""

    def __init__(self, file: Path, output: Path | None = None) -> None:
        self.file = file
        self._lock = FileLock(file, blocking=False, thread_local=False)
        try:
            os.stat(os.path.join(file.parent, ""))  # a missing folder would be made
            self._lock.acquire()
        except Timeout:
            raise UsageError(
                f"{output or file} is being written by {lock_owner(file) or 'another process'}; wait for it, or name "
                f"another output (if that process has ended, remove {file})"
            ) from None
        except OSError as error:
            raise TraceError(f"cannot write {file}: {error.strerror or error}; choose another place with -o") from None
        if type(self._lock) is FileLock:  # on file systems without locks it has another class, and text of its own
            with suppress(OSError), open(file, "w", opener=open_own) as handle:  # a full disk holds no name
                handle.write(f"process {os.getpid()} on {socket.gethostname()}")

    def release(self) -> None:
        """Remove the file and let others write."""
        if self._lock.is_locked:
            with suppress(OSError):  # Windows removes no open files
                self.file.unlink()
            self._lock.release()

    def __exit__(self, *_: object) -> None:
        self.release()


def lock_owner(file: Path) -> str | None:
    """Who holds an output's lock; None if the file is not a lock. One is blank after a power failure."""
    try:
        with open(file, encoding="utf-8", errors="replace") as handle:
            text = handle.read(1000).strip("\0 \n")
    except OSError:
        return None
    return text if re.fullmatch(OWNER, text) else None if text else "another process"
