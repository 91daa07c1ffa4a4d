"""All strategies on the same recorded paths, in the same orders: a paired comparison in one pass over the pool."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from zlib import crc32

import numpy as np

from sureenough import drive
from sureenough.answers import grade, grouped
from sureenough.api import DEFAULT_WINDOW
from sureenough.bench.score import Row, Run, Sheet, rows
from sureenough.core.gates import Calibrate, Gate
from sureenough.core.sizes import Count, refuse_bad_seed, refuse_bad_sizes
from sureenough.core.strategy import Strategy
from sureenough.core.windows import Windows
from sureenough.errors import UsageError
from sureenough.spec import render, resolve
from sureenough.traces import Pool, Question, RecordedPath

Progress = Callable[[int, int], None]
"""Told how many paths of how many have been looked at."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The table of one pool, and what it was made with."""

    pool: str
    rows: list[Row]
    paths: int  # the budget that was asked for, or the pool's own
    recorded: int  # most paths of any question
    window: int
    parallel: int
    repeats: int
    seed: int
    damaged: int  # rows left out
    notes: tuple[str, ...]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


def compare(
    pool: str | Path | Pool,
    strategies: Sequence[str | Strategy],
    *,
    paths: int | None = None,
    window: int | None = None,
    parallel: int = 1,
    repeats: int = 1,
    seed: int = 0,
    max_tokens: int | None = None,
    count: Count = "start",
    skip_damaged: bool = False,
    progress: Progress | None = None,
) -> Comparison:
    """Replay a pool under every strategy.

    Each repeat draws the order of every question's paths anew, the same order for every strategy.

    Args:
        pool: a Parquet file of recorded paths.
        strategies: specs such as "ddc:tau=0.99"; differences are to the first.
        paths: the budget; the pool's own size by default.
        window: tokens a window; what the pool suggests by default, else 2048.
        parallel: paths that run at once.
        repeats: orders to try.
        seed: of the orders and of the bootstrap.
        max_tokens: cap on the tokens of a question.
        count: the order in which votes are counted.
        skip_damaged: leave damaged rows out instead of refusing the pool.
        progress: called as questions are done.
    """
    plan = [resolve(strategy) for strategy in strategies]
    if not plan:
        raise UsageError("name at least one strategy to compare")
    if not isinstance(repeats, int) or repeats < 1:
        raise UsageError(f"repeats is {repeats!r}; it must be a whole number of at least 1")
    refuse_bad_seed(seed)
    source = pool if isinstance(pool, Pool) else Pool(pool, skip_damaged=skip_damaged)
    size = window if window is not None else source.info.window or DEFAULT_WINDOW
    for strategy in plan:
        refuse_bad_sizes(strategy, 10**9 if paths is None else paths, size, parallel, max_tokens, count)
    work = _Work(plan, paths, size, parallel, repeats, seed, max_tokens, count)
    seen = 0
    for question in source:
        work.question(question)
        seen += len(question.paths)
        if progress is not None:
            progress(seen, source.rows - source.damaged)
    return work.result(source)


class _Remembered:
    """Calibrations of one question: ablations of a strategy, on the same order, share theirs."""

    def __init__(self) -> None:
        self.gates: dict[tuple[Calibrate, tuple[int, ...]], Gate] = {}

    def around(self, strategy: Strategy) -> Strategy:
        """The strategy with a memory."""
        if not strategy.prunes:
            return strategy
        calibrate = strategy.calibrate

        def recall(paths: Sequence[Windows]) -> Gate:
            key = calibrate, tuple(map(id, paths))
            if key not in self.gates:
                self.gates[key] = calibrate(paths)
            return self.gates[key]

        return replace(strategy, calibrate=recall)


class _Work:
    """The one pass: every question under every strategy and order."""

    def __init__(
        self,
        plan: list[Strategy],
        paths: int | None,
        window: int,
        parallel: int,
        repeats: int,
        seed: int,
        max_tokens: int | None,
        count: Count,
    ) -> None:
        self.plan, self.paths, self.window, self.parallel = plan, paths, window, parallel
        self.repeats, self.seed, self.max_tokens, self.count = repeats, seed, max_tokens, count
        self.sheets = [Sheet(render(strategy)) for strategy in plan]
        self.recorded = 0  # most paths of any question
        self.short = 0  # questions with fewer paths than the budget
        self.shrunk = 0  # questions with fewer paths than a warm-up

    def question(self, question: Question) -> None:
        """All strategies and repeats of one question."""
        n = len(question.paths)
        self.recorded = max(self.recorded, n)
        self.short += self.paths is not None and n < self.paths
        self.shrunk += any(n < strategy.warmup for strategy in self.plan)
        classes = grouped(path.answer for path in question.paths)
        right = {a: grade(question.gold, a) for a in classes} if question.gold is not None else None
        runs: list[list[Run]] = [[] for _ in self.plan]
        remembered = _Remembered()
        plan = [remembered.around(strategy) for strategy in self.plan]
        for repeat in range(self.repeats):
            paths = self.ordered(question, repeat)
            for strategy, done in zip(plan, runs, strict=True):
                done.append(self.run(paths, strategy, classes, right))
        for sheet, done in zip(self.sheets, runs, strict=True):
            sheet.add(done)

    def ordered(self, question: Question, repeat: int) -> list[RecordedPath]:
        """The paths that this repeat may use, in its order."""
        rng = np.random.default_rng((self.seed, repeat, crc32(question.id.encode())))
        order = rng.permutation(len(question.paths))[: self.paths]
        return [question.paths[i] for i in order]

    def run(
        self,
        paths: list[RecordedPath],
        strategy: Strategy,
        classes: dict[str, str],
        right: dict[str, bool] | None,
    ) -> Run:
        """One strategy on one order of one question."""
        if len(paths) < strategy.warmup:
            strategy = replace(strategy, warmup=len(paths))
        out = drive.replay(
            paths,
            strategy,
            paths=len(paths),
            window=self.window,
            parallel=self.parallel,
            seed=self.seed,
            max_tokens=self.max_tokens,
            count=self.count,
            classes=classes,
        )
        correct = None if right is None else float(out.answer is not None and right[out.answer])
        plain = sum(path.tokens for path in paths)
        return Run(correct, out.tokens.total, min(plain, self.max_tokens or plain), out)

    def result(self, pool: Pool) -> Comparison:
        """The table."""
        if self.recorded < max(strategy.warmup for strategy in self.plan):
            needy = max(self.plan, key=lambda strategy: strategy.warmup)
            refuse_bad_sizes(needy, self.recorded, self.window, self.parallel, None, self.count)
        return Comparison(
            pool=str(pool.file),
            rows=rows(self.sheets, self.repeats, self.seed),
            paths=self.recorded if self.paths is None else self.paths,
            recorded=self.recorded,
            window=self.window,
            parallel=self.parallel,
            repeats=self.repeats,
            seed=self.seed,
            damaged=pool.damaged,
            notes=self.notes(pool),
        )

    def notes(self, pool: Pool) -> tuple[str, ...]:
        """What a reader of the table should know."""
        notes = []
        if self.short:
            notes.append(f"{self.short} questions have fewer than {self.paths} recorded paths; they used what there is")
        if self.shrunk:
            notes.append(f"{self.shrunk} questions have fewer paths than a warm-up; all their paths warmed up")
        if pool.damaged:
            notes.append(f"{pool.damaged} damaged rows were left out")
        return tuple(notes)
