"""`sureenough record` that is killed, interrupted or out of room goes on with what it has."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from sureenough.pools import Pool
from tests.cli.recording import lines, record, rows, start_record, words
from tests.engines.misbehaving import Manner, serving
from tests.in_thread import in_thread, until
from tests.processes import CLEAN, sureenough


def test_killed_at_any_moment_it_goes_on(url: str, dataset: Path, tmp_path: Path) -> None:
    whole, pool = tmp_path / "whole.parquet", tmp_path / "pool.parquet"
    assert record(url, dataset, whole).returncode == 0
    journal = tmp_path / "pool.parquet.journal"
    for enough in (3, 11, 30):
        with start_record(url, dataset, pool, "--parallel", "2") as running:
            until(partial(lambda wanted: running.poll() is not None or lines(journal) > wanted, enough))
            running.kill()
        with open(journal, "ab") as torn:  # a line that was being written
            torn.write(b'{"question": "q1", "pa')
    done = record(url, dataset, pool)
    assert done.returncode == 0, done.stderr
    assert rows(pool) == rows(whole)


def test_fewer_paths_than_an_earlier_command_wanted(url: str, dataset: Path, tmp_path: Path) -> None:
    pool, journal = tmp_path / "pool.parquet", tmp_path / "pool.parquet.journal"
    assert record(url, dataset, pool).returncode == 0
    whole = rows(pool)
    pool.unlink()
    with start_record(url, dataset, pool) as running:
        until(lambda: lines(journal) >= 20)
        running.kill()
    done = record(url, dataset, pool, "--paths", "2")
    assert (done.returncode, done.stdout) == (0, f"{pool}: 6 questions, 12 paths.\n")
    assert [row for row in rows(pool) if (row[1] or 0) < 2] == [row for row in whole if (row[1] or 0) < 2]


def test_a_full_disk_leaves_what_was_written(url: str, dataset: Path, tmp_path: Path) -> None:
    pool = tmp_path / "pool.parquet"
    full = sureenough(*words(url, dataset, pool), env=CLEAN, largest_file=4000)
    assert full.returncode == 2, full
    assert "paths are safe in it; make room and give the same command again" in full.stderr
    assert "Traceback" not in full.stderr
    safe = (tmp_path / "pool.parquet.journal").read_text().splitlines()
    assert len(safe) > 2
    assert all(json.loads(line) for line in safe)
    assert record(url, dataset, pool).returncode == 0
    assert len(rows(pool)) == 48


def test_a_server_that_refuses_half_way(dataset: Path, tmp_path: Path) -> None:
    pool, journal = tmp_path / "pool.parquet", tmp_path / "pool.parquet.journal"
    with in_thread(serving(Manner())) as server:
        server.manner = lambda seed, again: Manner(status=200 if len(server.requests) <= 20 else 401)
        failed = record(server.url, dataset, pool, "--parallel", "1")
        assert failed.returncode == 3
        assert failed.stderr.endswith(f"What was done is kept in {journal}; the same command goes on\n")
        at_once = record(server.url, dataset, tmp_path / "other.parquet")
        assert "What was done" not in at_once.stderr, "nothing was"
        server.manner = lambda seed, again: Manner()
        assert record(server.url, dataset, pool).returncode == 0
    assert len(rows(pool)) == 48


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 kB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], capture_output=True, check=False)
    if made.returncode:
        pytest.skip("mounting a small disk takes root; a limit on the size of files is tried instead")
    yield disk
    subprocess.run(["umount", disk], check=True)


@pytest.mark.parametrize(("taken", "says"), [(54_000, "paths are safe in it"), (40_000, "All paths are safe in")])
def test_a_disk_that_is_full(url: str, dataset: Path, small: Path, taken: int, says: str) -> None:
    pool = small / "pool.parquet"
    (small / "other").write_bytes(bytes(taken))
    full = record(url, dataset, pool)
    assert full.returncode == 2
    assert "No space left on device" in full.stderr
    assert says in full.stderr
    assert "errno" not in full.stderr
    assert sorted(path.name for path in small.iterdir()) == ["other", "pool.parquet.journal"]
    (small / "other").unlink()
    assert record(url, dataset, pool).returncode == 0
    assert len(rows(pool)) == 48


def test_a_disk_that_is_read_only(url: str, dataset: Path, small: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", small], check=True)
    done = record(url, dataset, small / "pool.parquet")
    assert done.returncode == 2
    assert "Read-only file system; choose another place with -o" in done.stderr


def test_ctrl_c_leaves_a_pool_that_can_be_read_and_gone_on_with(url: str, dataset: Path, tmp_path: Path) -> None:
    whole, pool = tmp_path / "whole.parquet", tmp_path / "pool.parquet"
    assert record(url, dataset, whole).returncode == 0
    journal = tmp_path / "pool.parquet.journal"
    with start_record(url, dataset, pool, "--parallel", "2") as running:
        until(lambda: running.poll() is not None or lines(journal) > 11)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=30)
    assert (running.returncode, err) == (130, "")
    assert "paths are missing. The same command continues" in out
    some = rows(pool)
    assert 11 <= len(some) < 48
    assert record(url, dataset, pool).returncode == 0
    assert rows(pool) == rows(whole)
    assert all(row in rows(whole) for row in some)
    assert not journal.exists()


def test_ctrl_c_before_the_first_path_promises_no_pool(dataset: Path, tmp_path: Path) -> None:
    pool = tmp_path / "pool.parquet"
    with in_thread(serving(Manner(stall_after=2))) as server, start_record(server.url, dataset, pool) as running:
        until(lambda: running.poll() is not None or bool(server.requests))
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=30)
    assert (running.returncode, err) == (130, "")
    assert out == "48 paths are missing. The same command continues.\n"
    assert not pool.exists()


def test_14_10_two_recordings_of_one_output(url: str, dataset: Path, tmp_path: Path) -> None:
    pool = tmp_path / "pool.parquet"
    journal = tmp_path / "pool.parquet.journal"
    with start_record(url, dataset, pool, "--parallel", "1") as first:
        until(journal.exists)
        second = record(url, dataset, pool)
        assert second.returncode == 2, second
        assert f"{pool} is being written by process {first.pid} on " in second.stderr
        assert first.wait(60) == 0
    assert Pool(pool).rows == 48
    assert sorted(file.name for file in tmp_path.iterdir()) == ["pool.parquet", "sums.jsonl"]
