"""Pools of others that are to be extended."""

from __future__ import annotations

from pathlib import Path

import pytest

from sureenough.drivers.record import PoolExtension, RecordQuestion, recorded_with
from sureenough.engines import Prompt
from sureenough.pools import PoolInfo, RecordedPath, write_pool
from sureenough.pools.path import Question

QUESTIONS = [RecordQuestion(f"q{n}", Prompt.user(f"{n}?")) for n in range(20)]


def info() -> PoolInfo:
    return PoolInfo(model="none", window=8, more=recorded_with({"seed": 0, "model": "none", "k": 20}, QUESTIONS))


@pytest.mark.parametrize("prompts", [5, [1], {"q0": 3}, "q0", None])
def test_damaged_checksums_of_prompts_do_not_count(tmp_path: Path, prompts: object) -> None:
    own = PoolInfo(model="none", window=8, more={"prompts": prompts})
    path = RecordedPath("1", [0.5], [9.0], number=0)
    write_pool(tmp_path / "pool.parquet", [Question("q0", None, None, [path])], own)
    extended = info()
    assert PoolExtension(tmp_path / "pool.parquet", QUESTIONS, extended).paths == {("q0", 0)}
    assert extended.more["prompts"] == info().more["prompts"]
