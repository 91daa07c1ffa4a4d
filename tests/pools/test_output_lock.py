"""One process writes an output; the lock says who, and is free when its owner is gone (issue 14, item 10)."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sureenough.errors import EngineError, TraceError, UsageError
from sureenough.pools import OutputLock
from sureenough.pools.durable import is_system_file, own_file, resumable, write_file

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
            UsageError, match=f"p.parquet is being written by process {owner.pid} on {socket.gethostname()}"
        ):
            OutputLock(file, tmp_path / "p.parquet")
        owner.kill()
    assert file.exists()
    with OutputLock(file):
        assert json.loads(file.read_text())["pid"] == os.getpid()
    assert not file.exists()


def test_14_10_an_owner_on_another_host_keeps_it(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    file.write_text(json.dumps({"pid": 1, "host": "elsewhere"}))
    with pytest.raises(UsageError, match=f"process 1 on elsewhere; .*remove {file}"):
        OutputLock(file)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": "x", "host": 3}', "\x00" * 50, "[" * 1000])
def test_14_10_a_lock_that_names_nobody_is_free(tmp_path: Path, text: str) -> None:
    (tmp_path / "lock").write_text(text)  # an older version left an empty file
    OutputLock(tmp_path / "lock").release()


def test_14_10_without_system_locks_the_process_id_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sureenough.pools.durable.fcntl", None)
    file = tmp_path / "lock"
    for pid, free in ((1, False), (2**22 + 1, True), (2**70, False)):
        file.write_text(json.dumps({"pid": pid, "host": socket.gethostname()}))
        if free:
            OutputLock(file).release()
        else:
            with pytest.raises(UsageError, match=f"process {pid}"):
                OutputLock(file)


def test_a_folder_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="cannot write"):
        OutputLock(tmp_path / "none" / "lock")


class WindowsLocks:
    """Locks of single bytes, as msvcrt has them, on locks of Linux."""

    LK_NBLCK = 2

    def __init__(self) -> None:
        self.at: list[int] = []

    def locking(self, descriptor: int, mode: int, count: int) -> None:
        self.at.append(os.lseek(descriptor, 0, os.SEEK_CUR))
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_on_windows_a_byte_is_locked_and_no_process_receives_ctrl_c(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks = WindowsLocks()
    for name, value in (("fcntl", None), ("msvcrt", locks), ("WINDOWS", True)):
        monkeypatch.setattr(f"sureenough.pools.durable.{name}", value)
    monkeypatch.setattr(os, "kill", lambda *_: pytest.fail("os.kill(…, 0) would send Ctrl-C"))
    file = tmp_path / "lock"
    file.write_text(json.dumps({"pid": 2**22 + 1, "host": socket.gethostname()}))
    with OutputLock(file):
        assert json.loads(file.read_text())["pid"] == os.getpid()
        with pytest.raises(UsageError, match=f"process {os.getpid()}"):
            OutputLock(file)
    assert not file.exists()
    assert locks.at == [1 << 30, 1 << 30], "beyond the owner's name, which others read"


def test_on_windows_a_file_that_another_process_has_opened_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sureenough.pools.durable.WINDOWS", True)
    lock = OutputLock(tmp_path / "lock")
    closed = []

    def unlink(self: Path, missing_ok: bool = False) -> None:
        closed.append(lock._handle.closed)
        raise PermissionError(13, "being used by another process")

    monkeypatch.setattr(Path, "unlink", unlink)
    lock.release()
    assert closed == [True], "Windows does not remove open files"


def test_a_link_that_another_user_made_does_not_lead_to_a_file_of_ours(tmp_path: Path) -> None:
    precious, output = tmp_path / "precious", tmp_path / "ranking"
    precious.write_text("kept")
    for ending in ("lock", "part"):
        own_file(output, ending).symlink_to(precious)
    with pytest.raises(TraceError, match="choose another place with -o"):
        OutputLock(own_file(output, "lock"), output)
    with pytest.raises(OSError, match="symbolic link"):
        write_file(output, b"new")
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
