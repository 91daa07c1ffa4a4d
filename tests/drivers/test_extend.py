"""Pools that are written from a journal in parts, and pools of others that are to be extended."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sureenough.drivers.record import PoolExtension, RecordQuestion, recorded_with, write_recorded_pool
from sureenough.engines import Prompt
from sureenough.pools import Journal, Pool, PoolInfo, RecordedPath, write_pool
from sureenough.pools.journal import JournalPaths, Key
from sureenough.pools.path import Question

QUESTIONS = [RecordQuestion(f"q{n}", Prompt.user(f"{n}?")) for n in range(20)]


def info() -> PoolInfo:
    return PoolInfo(model="none", window=8, more=recorded_with({"seed": 0}, QUESTIONS))


def test_parts_are_written_without_a_pass_over_the_journal_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes = 0
    every = JournalPaths.__iter__

    def counted(self: JournalPaths) -> Iterator[Key]:
        nonlocal passes
        passes += 1
        return every(self)

    with Journal(tmp_path / "journal", {}) as journal:
        for question in QUESTIONS:
            journal.add(question.id, RecordedPath("1", [0.5], [9.0], number=0))
        monkeypatch.setattr(JournalPaths, "__iter__", counted)
        write_recorded_pool(tmp_path / "pool", QUESTIONS, journal, info(), None, rows_per_part=1, keep_text=False)
    parts = Pool(tmp_path / "pool").parts
    assert [list(part.info().more["prompts"]) for part in parts] == [[question.id] for question in QUESTIONS]
    assert passes <= 1


@pytest.mark.parametrize("prompts", [5, [1], {"q0": 3}, "q0", None])
def test_damaged_checksums_of_prompts_do_not_count(tmp_path: Path, prompts: object) -> None:
    own = PoolInfo(model="none", window=8, more={"prompts": prompts})
    path = RecordedPath("1", [0.5], [9.0], number=0)
    write_pool(tmp_path / "pool.parquet", [Question("q0", None, None, [path])], own)
    extended = info()
    assert PoolExtension(tmp_path / "pool.parquet", QUESTIONS, extended).paths == {("q0", 0)}
    assert extended.more["prompts"] == info().more["prompts"]
