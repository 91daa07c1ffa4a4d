"""The live runs of one dataset on one model: one engine for all strategies, and what is left when it dies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sureenough.bench.estimate import ProgressMeter
from sureenough.bench.live import Key, read_runs, run_live
from sureenough.core.events import Token
from sureenough.core.options import RunOptions
from sureenough.drivers.record import RecordQuestion, in_process
from sureenough.engines import Engine, Prompt
from sureenough.errors import EngineError, EngineUnavailable, TraceError
from sureenough.pools.journal import JsonLinesFile, read_lines, write_lines

STRATEGIES = ("sc", "ac", "esc")


class Mortal(Engine):
    """Dies after so many paths, and comes back if it is asked to."""

    def __init__(self) -> None:
        self.left, self.opened, self.closed = 1000, list[int](), 0

    @asynccontextmanager
    async def open(self, *, parallel: int) -> AsyncIterator[Engine]:
        self.opened.append(parallel)
        yield self
        self.closed += 1

    async def stream(self, prompt: Prompt, *, seed: int) -> AsyncGenerator[Sequence[Token], None]:
        self.left -= 1
        if self.left < 0:
            raise EngineUnavailable("no answer from the engine")
        yield [Token(r"\boxed{4}", 0.5, 9.0)]


def run(engine: Engine, file: Path, *, at_once: int = 1, strategies: Sequence[str] = STRATEGIES) -> list[Any]:
    """Three questions with four paths each; returns which strategy and question is on disk."""
    questions = [RecordQuestion(f"q{n}", Prompt.user(f"{n}?"), "4") for n in range(3)]
    jobs = {Key("sums", "mortal", name, question.id, 0): question for name in strategies for question in questions}
    options = RunOptions(paths=4, window=4, parallel=2)
    try:
        with JsonLinesFile(file, {}, "runs") as lines:
            asyncio.run(run_live("sums", partial(in_process, engine), jobs, lines, options, at_once, ProgressMeter()))
    finally:
        found = [(one.strategy, one.question) for one in read_runs(file)]
    return found


def test_one_engine_for_all_strategies_and_none_if_all_is_done(tmp_path: Path) -> None:
    engine = Mortal()
    found = run(engine, tmp_path / "runs.jsonl", at_once=2)
    assert sorted(found) == sorted((strategy, f"q{n}") for strategy in STRATEGIES for n in range(3))
    assert (engine.opened, engine.closed) == ([4], 1)
    assert run(engine, tmp_path / "runs.jsonl") == found
    assert engine.opened == [4], "nothing was missing"
    run(engine, tmp_path / "more.jsonl", at_once=1000)
    assert engine.opened == [4, 3 * 2], "no more questions at once than there are"


def test_what_was_done_before_the_engine_died_is_kept_and_not_run_again(tmp_path: Path) -> None:
    engine, file = Mortal(), tmp_path / "runs.jsonl"
    engine.left = 3 * 4 + 5  # in the second question of the second strategy
    with pytest.raises(EngineError, match="no answer from the engine"):
        run(engine, file)
    before = [(one.strategy, one.question) for one in read_runs(file)]
    assert before[:4] == [("sc", "q0"), ("sc", "q1"), ("sc", "q2"), ("ac", "q0")]
    assert {strategy for strategy, _ in before} == {"sc", "ac"}
    assert len(before) < 6
    engine.left = 1000
    found = run(engine, file)
    assert found[: len(before)] == before
    assert sorted(found) == sorted((strategy, f"q{n}") for strategy in STRATEGIES for n in range(3))


@pytest.mark.parametrize(
    "change", [{"init_seconds": 10**400}, {"outcome": {"steps": 10**400}}, {"outcome": {"tokens": {"total": -1}}}]
)
def test_numbers_that_no_run_has_are_refused(change: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    run(Mortal(), file, strategies=["sc"])
    line = next(line for offset, line in read_lines(file) if offset)
    line |= {name: line[name] | value if isinstance(value, dict) else value for name, value in change.items()}
    write_lines(file, {}, [line])
    with pytest.raises(TraceError, match="has a line that is not a live run"):
        read_runs(file)
