"""One process writes an output; the lock says who, and is free when its owner is gone (issue 14, item 10)."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sureenough.errors import EngineError, TraceError, UsageError
from sureenough.pools import OutputLock
from sureenough.pools.durable import is_system_file, lock_owner, own_file, resumable, write_file

HOLD = "import sys, pathlib; from sureenough.pools import OutputLock; lock = OutputLock(pathlib.Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"  # noqa: E501


def holder(file: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_14_10_the_second_is_told_who_has_it_and_a_dead_owner_loses_it(tmp_path: Path) -> None:
    file = tmp_path / "pool.parquet.lock"
    with holder(file) as owner:
        with pytest.raises(
            UsageError,
            match=f"p.parquet is being written by process {owner.pid} on {socket.gethostname()}; wait for it",
        ):
            OutputLock(file, tmp_path / "p.parquet")
        owner.kill()
    assert file.exists()
    with OutputLock(file):
        assert lock_owner(file) == f"process {os.getpid()} on {socket.gethostname()}"
        with pytest.raises(UsageError, match=f"lock is being written by process {os.getpid()} on "):
            OutputLock(file)
    assert not file.exists()


@pytest.mark.parametrize("text", ["", "{", "process x on y", "process 1 on elsewhere", "\x00" * 50])
def test_14_10_a_lock_that_no_process_holds_is_free(tmp_path: Path, text: str) -> None:
    file = tmp_path / "lock"
    file.write_text(text)  # an owner that was killed, perhaps with the machine
    lock = OutputLock(file)
    lock.release()
    lock.release()
    assert not file.exists()


@pytest.mark.parametrize(
    ("text", "owner"),
    [("", "another process"), ("\x00" * 50, "another process"), ("process 1 on a.b-c", "process 1 on a.b-c"),
     ("my lock", None), ("process 1 on a\nb", None)],
)  # fmt: skip
def test_files_that_are_locks(tmp_path: Path, text: str, owner: str | None) -> None:
    (tmp_path / "lock").write_text(text)
    assert lock_owner(tmp_path / "lock") == owner


@pytest.mark.filterwarnings("ignore:flock not supported")
def test_without_locks_of_the_file_system_the_second_is_refused_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "flock", flock)
    file = tmp_path / "lock"
    with OutputLock(file), pytest.raises(UsageError, match="lock is being written by another process"):
        OutputLock(file)
    assert not file.exists()
    file.write_text(f"{2**22 + 1}\n{socket.gethostname()}\n")
    OutputLock(file).release()


def test_a_folder_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="cannot write"):
        OutputLock(tmp_path / "none" / "lock")


def test_a_link_that_another_user_made_does_not_lead_to_a_file_of_ours(tmp_path: Path) -> None:
    precious, output = tmp_path / "precious", tmp_path / "ranking"
    precious.write_text("kept")
    for ending in ("lock", "part"):
        own_file(output, ending).symlink_to(precious)
    with pytest.raises(TraceError, match="choose another place with -o"):
        OutputLock(own_file(output, "lock"), output)
    for _ in range(2):
        with pytest.raises(OSError, match="symbolic link"):
            write_file(output, [b"new"])
    assert precious.read_text() == "kept"


@pytest.mark.parametrize(
    ("file", "is_one"),
    [("/dev/stdout", True), ("/dev/fd/99", True), ("/proc/self/fd/1", True), ("/dev/shm/r", False), ("/dev", True),
     ("/tmp/dev/r", False), ("dev/stdout", False), ("r", False), ("/", False)],
)  # fmt: skip
def test_files_of_the_system_are_known_whether_they_are_open_or_not(file: str, is_one: bool) -> None:
    assert is_system_file(Path(file)) is is_one


class QuotaError(EngineError):
    """An error of another package's engine, made in its own way."""

    def __init__(self, left: int) -> None:
        super().__init__(f"{left} requests left")


@pytest.mark.parametrize(("done", "says"), [([], "0 requests left"), ([1], "0 requests left. What was done is kept")])
def test_errors_of_other_packages_also_say_where_the_rest_is_kept(tmp_path: Path, done: list[int], says: str) -> None:
    with pytest.raises(QuotaError) as caught, resumable(tmp_path / "journal", done):
        raise QuotaError(0)
    assert str(caught.value).startswith(says)
    assert ("the same command goes on" in str(caught.value)) is bool(done)
