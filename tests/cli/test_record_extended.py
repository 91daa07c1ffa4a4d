"""`sureenough record` extends a finished pool, if it is the same recording."""

from __future__ import annotations

from pathlib import Path

import pytest

from sureenough.pools import Pool
from tests.cli.recording import lines, record, rows, start_record, write_sums
from tests.engines.misbehaving import Manner, serving
from tests.in_thread import in_thread, until

MATH = "{question}\n\nPlease reason step by step, and put your final answer within \\boxed{{}}."
"""The default template of mathematics."""


def test_a_finished_pool_is_extended_by_paths_and_by_questions(dataset: Path, tmp_path: Path) -> None:
    whole, pool = tmp_path / "whole.parquet", tmp_path / "pool.parquet"
    with in_thread(serving(Manner(tokens=8))) as server:
        assert record(server.url, dataset, pool, "--paths", "3").returncode == 0
        before = rows(pool)
        done = record(server.url, dataset, pool, "--paths", "8")
        assert (done.returncode, done.stdout) == (0, f"{pool}: 6 questions, 48 paths.\n"), done.stderr
        assert len(server.requests) == 48, "no path is paid for twice"
        assert all(row in rows(pool) for row in before)
        assert record(server.url, write_sums(dataset, 7), pool).returncode == 0
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

    def reached() -> bool:
        return lines(journal) > enough if enough else any(tmp_path.glob(".*.sureenough-part"))

    with start_record(url, dataset, pool, "--paths", "16", "--parallel", "2") as running:
        until(lambda: running.poll() is not None or reached(), pause=0)
        running.kill()
    assert pool.read_bytes() == before or running.returncode == 0
    done = record(url, dataset, pool, "--paths", "16")
    assert done.returncode == 0 or "is complete" in done.stderr, done.stderr
    assert rows(pool) == rows(whole)
    assert not journal.exists()


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--temperature", "1.5"), "it was recorded with temperature 0.6, not 1.5; name another output"),
        (("--seed", "7"), "it was recorded with seed 0, not 7"),
        (("--template", "Really: {question}"), "it was recorded with template"),
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
