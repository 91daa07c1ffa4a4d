"""`sureenough record` as a user types it: whole, killed, resumed, refused."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from sureenough.pools import Pool
from tests.engines.misbehaving import Manner, serving
from tests.in_thread import in_thread
from tests.processes import sureenough

CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(("SUREENOUGH", "OPENAI"))}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    command = [sys.executable, "-m", "tests.engines.serve", "tokens=30", "delay=0.0005"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.kill()


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    file = tmp_path / "sums.jsonl"
    rows = [{"id": f"q{n}", "question": f"{n} + 1?", "gold": str(n + 1), "level": 1} for n in range(6)]
    file.write_text("\n".join(map(json.dumps, rows)) + "\n")
    return file


def words(url: str, dataset: Path, output: Path, *more: str) -> list[str]:
    fixed = ["record", str(dataset), "-o", str(output), "--url", url, "--model", "tiny", "--paths", "8"]
    return [*fixed, *more]


def command(url: str, dataset: Path, output: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "sureenough", *words(url, dataset, output, *more)]


def record(url: str, dataset: Path, output: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return sureenough(*words(url, dataset, output, *more), env=CLEAN)


def rows(pool: Path) -> list[tuple[str, int | None, str | None, list[float], int | None]]:
    return [(q.id, p.number, p.answer, list(np.asarray(p.conf)), p.seed) for q in Pool(pool) for p in q.paths]


def test_a_pool_that_replay_reads(url: str, dataset: Path, tmp_path: Path) -> None:
    pool = tmp_path / "pool.parquet"
    done = record(url, dataset, pool, "--window", "8")
    assert (done.returncode, done.stdout) == (0, f"{pool}: 6 questions, 48 paths.\n")
    assert not list(tmp_path.glob("*.journal"))
    read = Pool(pool)
    assert (read.info.model, read.info.window, read.info.k, read.info.sampling["temperature"]) == ("tiny", 8, 20, 0.6)
    first = next(iter(read))
    assert (first.id, first.gold, first.level, len(first.paths), first.paths[0].tokens) == ("q0", "1", 1, 8, 33)
    assert first.paths[0].text is not None
    again = record(url, dataset, pool)
    assert again.returncode == 2
    assert "exists and is complete" in again.stderr


def test_the_window_of_a_pool_follows_its_paths(url: str, dataset: Path, tmp_path: Path) -> None:
    pool = tmp_path / "pool.parquet"
    assert record(url, dataset, pool).returncode == 0
    assert Pool(pool).info.window == 16  # the paths have 33 tokens


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_other_forms_of_questions_with_other_names(url: str, tmp_path: Path, form: str) -> None:
    file, pool = tmp_path / f"sums.{form}", tmp_path / "pool.parquet"
    table = pa.table({"name": ["a", "b"], "problem": ["1 + 1?", "A or B?"], "truth": ["2", "B"]})
    pq.write_table(table, file) if form == "parquet" else pa_csv.write_csv(table, file)
    done = record(url, file, pool, "--map", "id=name,question=problem,gold=truth")
    assert done.returncode == 0, done.stderr
    assert [(q.id, q.gold, len(q.paths)) for q in Pool(pool)] == [("a", "2", 8), ("b", "B", 8)]
    wrong = record(url, file, tmp_path / "other.parquet", "--map", "gold=solution")
    assert wrong.returncode == 2
    assert "has no column 'solution'; it has name, problem, truth" in wrong.stderr


def test_a_row_may_have_a_kind_of_its_own(url: str, tmp_path: Path) -> None:
    file, pool = tmp_path / "mixed.jsonl", tmp_path / "pool.parquet"
    file.write_text('{"id": "m", "question": "?"}\n{"id": "c", "question": "?", "kind": "choice"}\n')
    assert record(url, file, pool).returncode == 0
    answers = {q.id: {path.answer for path in q.paths} for q in Pool(pool)}
    assert answers == {"m": {"7", "8"}, "c": {None}}  # a boxed number is not a choice


def test_killed_at_any_moment_it_goes_on(url: str, dataset: Path, tmp_path: Path) -> None:
    whole, pool = tmp_path / "whole.parquet", tmp_path / "pool.parquet"
    assert record(url, dataset, whole).returncode == 0
    journal = tmp_path / "pool.parquet.journal"
    for enough in (3, 11, 30):
        running = subprocess.Popen(command(url, dataset, pool, "--parallel", "2"), env=CLEAN, stderr=subprocess.DEVNULL)
        while running.poll() is None and (not journal.exists() or journal.read_bytes().count(b"\n") <= enough):
            pass
        running.kill()
        running.wait(30)
        with open(journal, "ab") as torn:  # a line that was being written
            torn.write(b'{"question": "q1", "pa')
    done = record(url, dataset, pool)
    assert done.returncode == 0, done.stderr
    assert rows(pool) == rows(whole)


def test_the_same_command_means_the_same_terms(url: str, dataset: Path, tmp_path: Path) -> None:
    pool = tmp_path / "pool.parquet"
    (tmp_path / "pool.parquet.journal").write_text('{"terms": {"model": "other"}}\n')
    done = record(url, dataset, pool)
    assert done.returncode == 2
    assert "was begun with" in done.stderr


def test_fewer_paths_than_an_earlier_command_wanted(url: str, dataset: Path, tmp_path: Path) -> None:
    pool, journal = tmp_path / "pool.parquet", tmp_path / "pool.parquet.journal"
    assert record(url, dataset, pool).returncode == 0
    whole = rows(pool)
    pool.unlink()
    with subprocess.Popen(
        command(url, dataset, pool), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=CLEAN
    ) as one:
        while not journal.exists() or journal.read_bytes().count(b"\n") < 20:
            time.sleep(0.001)
        one.kill()
    done = record(url, dataset, pool, "--paths", "2")
    assert (done.returncode, done.stdout) == (0, f"{pool}: 6 questions, 12 paths.\n")
    assert [row for row in rows(pool) if (row[1] or 0) < 2] == [row for row in whole if (row[1] or 0) < 2]


@pytest.mark.parametrize("option", ["--window", "--limit"])
def test_numbers_below_one(option: str, url: str, dataset: Path, tmp_path: Path) -> None:
    done = record(url, dataset, tmp_path / "pool.parquet", option, "0")
    assert (done.returncode, f"Invalid value for '{option}'" in done.stderr) == (2, True)


def test_a_negative_seed_is_refused(url: str, dataset: Path, tmp_path: Path) -> None:
    done = record(url, dataset, tmp_path / "pool.parquet", "--seed", "-5")
    assert (done.returncode, done.stderr) == (2, "sureenough: --seed is -5; it must be a whole number of at least 0\n")
    assert list(tmp_path.glob("pool*")) == []


def test_a_full_disk_leaves_what_was_written(url: str, dataset: Path, tmp_path: Path) -> None:
    pool = tmp_path / "pool.parquet"
    full = subprocess.run(
        command(url, dataset, pool), capture_output=True, text=True, timeout=60, check=False, env=CLEAN,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000)),
    )  # fmt: skip
    assert full.returncode == 2, full
    assert "paths are safe in it; make room and give the same command again" in full.stderr
    assert "Traceback" not in full.stderr
    safe = (tmp_path / "pool.parquet.journal").read_text().splitlines()
    assert len(safe) > 2
    assert all(json.loads(line) for line in safe)
    assert record(url, dataset, pool).returncode == 0
    assert len(rows(pool)) == 48


def test_an_estimate_first(url: str, dataset: Path, tmp_path: Path) -> None:
    done = record(url, dataset, tmp_path / "pool.parquet", "--dry-run", "--price-in", "1000", "--price-out", "1000")
    assert done.returncode == 0, done.stderr
    assert "6 questions, 48 paths. Estimated from 4 sampled paths:" in done.stdout
    assert "about 1,584 tokens (33 per path) and 432 prompt tokens" in done.stdout
    assert "about 2.02 at the given prices" in done.stdout
    assert list(tmp_path.glob("pool*")) == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "holds no questions"),
        ('{"question": "?"}\n{"id": "1", "question": "?"}', "the id '1' is used twice"),
        ("[1]", "line 1 is not a question"),
        ("{", "line 1 is not a question"),
    ],
)
def test_bad_datasets(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_text(text)
    done = record("http://127.0.0.1:9/v1", file, tmp_path / "pool.parquet")
    assert done.returncode == 2
    assert says in done.stderr


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("none/pool.parquet", "No such file or directory; choose another place with -o"),
        ("sums.jsonl/pool.parquet", "Not a directory"),
        ("/sys/pool.parquet", "Permission denied"),  # for root too
        ("", "is a folder; name the file to write"),
        (".", "is a folder; name the file to write"),
    ],
)
def test_a_target_that_cannot_be_written(url: str, dataset: Path, tmp_path: Path, place: str, says: str) -> None:
    done = record(url, dataset, tmp_path / place if place else Path())
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert "Traceback" not in done.stderr


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
    again = command(url, dataset, pool, "--parallel", "2")
    with subprocess.Popen(again, env=CLEAN, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        while running.poll() is None and (not journal.exists() or journal.read_bytes().count(b"\n") <= 11):
            time.sleep(0.001)
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


def test_no_server_is_exit_code_3(dataset: Path, tmp_path: Path) -> None:
    done = record("http://127.0.0.1:9/v1", dataset, tmp_path / "pool.parquet", "--parallel", "1")
    assert done.returncode == 3
    assert "no response from" in done.stderr


def test_14_10_two_recordings_of_one_output(url: str, dataset: Path, tmp_path: Path) -> None:
    pool = tmp_path / "pool.parquet"
    journal = tmp_path / "pool.parquet.journal"
    with subprocess.Popen(command(url, dataset, pool, "--parallel", "1"), env=CLEAN, stdout=subprocess.PIPE) as first:
        while not journal.exists():
            time.sleep(0.001)
        second = record(url, dataset, pool)
        assert second.returncode == 2, second
        assert f"{pool} is being written by process {first.pid} on " in second.stderr
        assert first.wait(60) == 0
    assert Pool(pool).rows == 48
    assert sorted(file.name for file in tmp_path.iterdir()) == ["pool.parquet", "sums.jsonl"]


def test_14_22_a_negative_seed_is_refused(url: str, dataset: Path, tmp_path: Path) -> None:
    done = record(url, dataset, tmp_path / "pool.parquet", "--seed", "-5")
    assert (done.returncode, "--seed is -5" in done.stderr) == (2, True)


MATH = "{question}\n\nPlease reason step by step, and put your final answer within \\boxed{{}}."
"""The default template of mathematics."""


def grown(dataset: Path, questions: int) -> Path:
    """The same questions with more after them."""
    rows = [{"id": f"q{n}", "question": f"{n} + 1?", "gold": str(n + 1), "level": 1} for n in range(questions)]
    dataset.write_text("\n".join(map(json.dumps, rows)) + "\n")
    return dataset


def test_a_finished_pool_is_extended_by_paths_and_by_questions(dataset: Path, tmp_path: Path) -> None:
    whole, pool = tmp_path / "whole.parquet", tmp_path / "pool.parquet"
    with in_thread(serving(Manner(tokens=8))) as server:
        assert record(server.url, dataset, pool, "--paths", "3").returncode == 0
        before = rows(pool)
        done = record(server.url, dataset, pool, "--paths", "8")
        assert (done.returncode, done.stdout) == (0, f"{pool}: 6 questions, 48 paths.\n"), done.stderr
        assert len(server.requests) == 48, "no path is paid for twice"
        assert all(row in rows(pool) for row in before)
        assert record(server.url, grown(dataset, 7), pool).returncode == 0
        assert len(server.requests) == 56
        assert record(server.url, dataset, whole).returncode == 0
        assert rows(pool) == rows(whole)
        assert not (tmp_path / "pool.parquet.journal").exists()
        # A part of the questions: the others stay in the pool.
        assert record(server.url, dataset, pool, "--limit", "2", "--paths", "9").returncode == 0
        assert [(q.id, len(q.paths)) for q in Pool(pool)][-2:] == [("q0", 9), ("q1", 9)]
        assert sum(len(q.paths) for q in Pool(pool)) == 58
        complete = record(server.url, dataset, pool)
        assert (complete.returncode, "exists and is complete; more --paths" in complete.stderr) == (2, True)


@pytest.mark.parametrize("enough", [0, 49, 60])
def test_an_extension_that_is_killed_goes_on(url: str, dataset: Path, tmp_path: Path, enough: int) -> None:
    whole, pool = tmp_path / "whole.parquet", tmp_path / "pool.parquet"
    assert record(url, dataset, whole, "--paths", "16").returncode == 0
    assert record(url, dataset, pool).returncode == 0
    before, journal = pool.read_bytes(), tmp_path / "pool.parquet.journal"
    extend = command(url, dataset, pool, "--paths", "16", "--parallel", "2")
    running = subprocess.Popen(extend, env=CLEAN, stderr=subprocess.DEVNULL)
    while running.poll() is None and not (list(tmp_path.glob("*.part")) if not enough else journal.exists()):
        pass
    while enough and running.poll() is None and journal.read_bytes().count(b"\n") <= enough:
        pass
    running.kill()
    running.wait(30)
    assert pool.read_bytes() == before or running.returncode == 0
    done = record(url, dataset, pool, "--paths", "16")
    assert done.returncode == 0 or "is complete" in done.stderr, done.stderr
    assert rows(pool) == rows(whole)
    assert not journal.exists()


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--temperature", "1.5"), "it was recorded with sampling"),
        (("--seed", "7"), "it was recorded with seed 0, not 7"),
        (("--template", "Really: {question}"), "it was recorded with prompt"),
        (("--kind", "choice"), "it was recorded with kind 'math', not 'choice'"),
        (("--kind", "choice", "--template", MATH), "it was recorded with kind 'math', not 'choice'"),
    ],
)
def test_only_the_same_recording_is_extended(
    url: str, dataset: Path, tmp_path: Path, more: tuple[str, ...], says: str
) -> None:
    pool = tmp_path / "pool.parquet"
    assert record(url, dataset, pool, "--paths", "1").returncode == 0
    before = pool.read_bytes()
    done = record(url, dataset, pool, *more)
    assert (done.returncode, says in done.stderr) == (2, True), done.stderr
    assert pool.read_bytes() == before
    assert not list(tmp_path.glob("*.journal"))


def test_questions_that_changed_are_not_extended(url: str, dataset: Path, tmp_path: Path) -> None:
    pool = tmp_path / "pool.parquet"
    assert record(url, dataset, pool, "--paths", "1").returncode == 0
    text = dataset.read_text()
    dataset.write_text(text.replace("0 + 1?", "0 plus 1?"))
    assert "question 'q0' has another text in it" in record(url, dataset, pool).stderr
    dataset.write_text(text.replace('"gold": "1"', '"gold": "11"'))
    assert "question 'q0' has another gold answer in it" in record(url, dataset, pool).stderr
