"""All strategies on the same recorded paths, in the same orders: a paired comparison."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sureenough.answers import REPLAY_SECONDS
from sureenough.bench.judging import Equal, PoolJudge
from sureenough.bench.replay_pass import CalibrationCache, ReplayPass, ReplaySettings
from sureenough.bench.score import Row, rows
from sureenough.core.options import DEFAULT_WINDOW, Count, RunOptions, check_count, check_seconds
from sureenough.core.strategy import Strategy
from sureenough.errors import UsageError
from sureenough.pools import Pool
from sureenough.spec import resolve

MOST_REPEATS: Final = 10_000

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
    count: str
    planned: bool
    max_tokens: int | None
    guard: bool
    equal: str
    symbolic_seconds: float
    damaged: int  # rows left out
    notes: tuple[str, ...]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


def compare(
    pool: str | Path | Pool,
    strategies: str | Strategy | Sequence[str | Strategy],
    *,
    paths: int | None = None,
    window: int | None = None,
    parallel: int = 1,
    repeats: int = 1,
    seed: int = 0,
    max_tokens: int | None = None,
    count: Count = "start",
    planned: bool = False,
    guard: bool = False,
    equal: Equal = "meaning",
    symbolic_seconds: float = REPLAY_SECONDS,
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
        planned: run no more paths at once than twice what a strategy needs at least.
        guard: let `sure` stop believing confidence that has misled it on the questions before.
        equal: whether answers are one candidate by their "meaning" or by their "string", as other tools vote.
        symbolic_seconds: time a question for comparing answers symbolically; what is open then is different.
        skip_damaged: leave damaged rows out instead of refusing the pool.
        progress: called as questions are done.
    """
    given = [strategies] if isinstance(strategies, str | Strategy) else strategies
    plan = [resolve(strategy) for strategy in given]
    if not plan:
        raise UsageError("name at least one strategy to compare")
    check_count("repeats", repeats)
    if repeats > MOST_REPEATS:
        raise UsageError(f"repeats is {repeats}; {MOST_REPEATS:,} orders are the most, and ten are plenty")
    check_seconds("symbolic_seconds", symbolic_seconds)
    source = pool if isinstance(pool, Pool) else Pool(pool, skip_damaged=skip_damaged)
    size = window if window is not None else source.info.window or DEFAULT_WINDOW
    options = RunOptions(
        paths=paths, window=size, parallel=parallel, seed=seed, max_tokens=max_tokens, count=count, planned=planned
    )
    for strategy in plan:
        options.check_budget(strategy)
    groups = PoolJudge(source, symbolic_seconds, equal)
    work = ReplayPass(plan, ReplaySettings(options, repeats, guard))
    seen = 0
    for question in source:
        work.question(question, groups.of(question), CalibrationCache())
        seen += len(question.paths)
        if progress is not None:
            progress(seen, source.rows - source.damaged)
    groups.save()
    return _result(source, work, groups)


def _result(pool: Pool, work: ReplayPass, groups: PoolJudge) -> Comparison:
    settings = work.settings
    needy = max(work.plan, key=lambda strategy: strategy.warmup)
    if work.recorded < needy.warmup:
        dataclasses.replace(settings.options, paths=work.recorded).check_budget(needy)
    notes = work.notes(groups)
    if pool.damaged:
        notes.append(f"{pool.damaged} damaged rows were left out")
    options = settings.options
    return Comparison(
        pool=str(pool.file),
        rows=rows(work.sheets, settings.repeats, options.seed),
        paths=work.recorded if options.paths is None else options.paths,
        recorded=work.recorded,
        window=options.window or DEFAULT_WINDOW,
        parallel=options.parallel,
        repeats=settings.repeats,
        seed=options.seed,
        count=options.count,
        planned=options.planned,
        max_tokens=options.max_tokens,
        guard=settings.guard,
        equal=groups.equal,
        symbolic_seconds=groups.symbolic_seconds,
        damaged=pool.damaged,
        notes=tuple(notes),
    )
