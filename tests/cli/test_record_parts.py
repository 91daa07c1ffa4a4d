"""`sureenough record --rows-per-part`: what lies beside or in the folder stays, and refusals come before sampling."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sureenough.pools import Pool, write_pool
from tests.cli.recording import record, rows, write_sums
from tests.engines.misbehaving import Manner, serving
from tests.in_thread import in_thread

PARTS = ("--rows-per-part", "10")


def make(folder: Path) -> Path:
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")
    return folder / "mine.txt"


def test_files_of_the_user_stay(url: str, dataset: Path, tmp_path: Path) -> None:
    pool, single = tmp_path / "pool", tmp_path / "single.parquet"
    mine = [make(tmp_path / name) for name in ("pool.older", "pool.part", "res.older")]
    (tmp_path / "single.parquet.older").write_text("mine")
    assert record(url, dataset, pool, *PARTS, "--limit", "2").returncode == 0
    assert record(url, dataset, pool, *PARTS, "--limit", "3").returncode == 0
    assert record(url, dataset, tmp_path / "res", *PARTS, "--limit", "1").returncode == 0
    assert record(url, dataset, single, "--limit", "1").returncode == 0
    assert (len(rows(pool)), len(rows(tmp_path / "res")), len(rows(single))) == (24, 8, 8)
    for file in (*mine, tmp_path / "single.parquet.older"):
        assert file.read_text() == "mine"


@pytest.mark.parametrize("name", ["README.txt", "_SUCCESS", ".notes", "part-3.parquet.journal", "link.parquet"])
def test_a_folder_that_holds_other_files_is_refused_before_sampling(dataset: Path, tmp_path: Path, name: str) -> None:
    pool = tmp_path / "pool"
    with in_thread(serving(Manner(tokens=8))) as server:
        assert record(server.url, dataset, pool, *PARTS, "--limit", "1").returncode == 0
        other = pool / name
        if name == "link.parquet":
            other.symlink_to(pool / "part-00000.parquet")
        else:
            other.write_text("mine")
        requests = len(server.requests)
        done = record(server.url, dataset, pool, *PARTS)
        assert (done.returncode, f"holds {name}, which is not a part of the pool" in done.stderr) == (2, True)
        assert len(server.requests) == requests
    assert sorted(file.name for file in pool.iterdir()) == sorted([name, "part-00000.parquet"])
    assert not list(tmp_path.glob("pool.*"))


def test_a_link_to_a_folder_stays_a_link(url: str, dataset: Path, tmp_path: Path) -> None:
    pool, link = tmp_path / "disk" / "pool", tmp_path / "link"
    pool.parent.mkdir()
    assert record(url, dataset, pool, *PARTS, "--limit", "1").returncode == 0
    link.symlink_to(pool)
    done = record(url, dataset, link, *PARTS, "--limit", "2")
    assert (done.returncode, done.stdout) == (0, f"{pool}: 2 questions, 16 paths.\n"), done.stderr
    assert (link.is_symlink(), len(rows(pool))) == (True, 16)
    assert [file.name for file in pool.parent.iterdir()] == ["pool"]


def test_a_folder_that_cannot_be_written_names_the_journal(url: str, dataset: Path, tmp_path: Path) -> None:
    """The name with the ending of the hidden folder is too long for the file system, that of the journal is not."""
    pool = tmp_path / ("p" * 245)
    done = record(url, dataset, pool, *PARTS, "--limit", "1")
    assert (done.returncode, f"All paths are safe in {pool}.journal" in done.stderr) == (2, True), done.stderr
    assert (tmp_path / f"{pool.name}.journal").exists()


@pytest.mark.parametrize("more", [(), PARTS])
def test_the_texts_of_other_questions_stay(url: str, dataset: Path, tmp_path: Path, more: tuple[str, ...]) -> None:
    pool = tmp_path / "pool"
    assert record(url, dataset, pool, *more, "--limit", "3").returncode == 0
    assert record(url, dataset, pool, *more, "--limit", "1", "--paths", "9").returncode == 0
    assert {question.id: question.text for question in Pool(pool)} == {f"q{n}": f"{n} + 1?" for n in range(3)}


def test_a_part_that_was_added_after_a_recording_was_killed(url: str, dataset: Path, tmp_path: Path) -> None:
    """The journal lacks its paths, so replacing the folder would lose them."""
    pool, other = tmp_path / "pool", tmp_path / "other"
    assert record(url, dataset, pool, *PARTS, "--limit", "1").returncode == 0
    failing = record("http://127.0.0.1:9/v1", dataset, pool, *PARTS, "--limit", "2", "--parallel", "1")
    assert failing.returncode == 3
    assert record(url, write_sums(dataset, 7), other, *PARTS).returncode == 0
    part = next(file for file in other.iterdir() if "q6" in pq.read_table(file)["question"].to_pylist())
    added = [question for question in Pool(part) if question.id == "q6"]
    optional = ("seed", "tokens", "question_text", "text")
    write_pool(pool / "added.parquet", added, Pool(part).info, optional=optional)
    done = record(url, dataset, pool, *PARTS, "--limit", "2")
    assert (done.returncode, "it holds paths that" in done.stderr) == (2, True), done.stderr
    assert {question.id for question in Pool(pool)} == {"q0", "q6"}
