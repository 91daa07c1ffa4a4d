"""All strategies on the same recorded paths, in the same orders: a paired comparison."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Unpack

from sureenough.api import Kind
from sureenough.bench.judging import Equal, Grader
from sureenough.bench.pipeline import DEFAULT_REPEATS, OpenPool, Progress, ReplaySettings, Source
from sureenough.bench.recommendation import recommend
from sureenough.bench.replay import CellResult, ReplayCell, fitting_pool, replay_cells, replay_notes
from sureenough.bench.result import Recommendation
from sureenough.bench.score import Row
from sureenough.core.options import ReplayKeywords, RunOptions, run_options, takes_run_options
from sureenough.core.strategy import Strategy
from sureenough.errors import UsageError
from sureenough.pools import Pool
from sureenough.spec import render, resolve
from sureenough.strategies import COMPARED


@dataclass(frozen=True, slots=True)
class Comparison:
    """The table of one pool, and how it was made."""

    pool: str
    rows: list[Row]
    options: RunOptions  # with the budget and the window that were used
    settings: ReplaySettings
    recorded: int  # most paths of any question
    damaged: int  # rows left out
    notes: tuple[str, ...]
    recommendation: Recommendation | None  # None if there is one strategy only

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        from sureenough.bench.tables import plain_table

        return plain_table(self)


@takes_run_options(RunOptions(), live=False)
def compare(
    pool: str | Path | Pool,
    strategies: str | Strategy | Sequence[str | Strategy] | None = None,
    *,
    repeats: int = DEFAULT_REPEATS,
    equal: Equal = "meaning",
    grader: Grader = "own",
    kind: Kind | None = None,
    skip_damaged: bool = False,
    jobs: int = 1,
    progress: Progress | None = None,
    **options: Unpack[ReplayKeywords],
) -> Comparison:
    """Replay a pool under every strategy.

    Each repeat draws a new order of every question's paths, the same for every strategy. By default the budget is the
    pool's own size; the seed is that of the orders and of the bootstrap.

    Args:
        pool: recorded paths: a Parquet file, a folder of parts, or a URI of either.
        strategies: specs such as "ddc:tau=0.99"; equal ones are one row, and differences are to the first. By default
            those that `replay` compares.
        repeats: the number of orders.
        kind: kind of answer of questions that have none of their own, such as "number:rel=1e-3", or a judge; by default
            what the pool says. Answers are extracted again if the pool has the texts.
        equal: whether answers are one candidate by their "meaning" or by their "string", as other tools vote.
        grader: "own", or "math-verify" to grade mathematics as many published results do; votes never use it.
        skip_damaged: leave damaged rows out instead of refusing the pool.
        jobs: processes; more than one needs `if __name__ == "__main__":` in a script.
        progress: called with the paths done and all paths.
    """
    settings = ReplaySettings(
        repeats=repeats, equal=equal, grader=grader, kind=kind,
        skip_damaged=skip_damaged or (isinstance(pool, Pool) and pool.skip_damaged), jobs=jobs,
    )  # fmt: skip
    run = run_options(compare, RunOptions(), options)
    named = [strategies] if isinstance(strategies, str | Strategy) else strategies
    if named is not None and not named:
        raise UsageError("name at least one strategy to compare")
    for strategy in map(resolve, named or ()):
        run.check_budget(strategy)

    def cells(opened: OpenPool) -> list[ReplayCell]:
        chosen = [resolve(one) for one in (fitting_pool(COMPARED, opened, run.paths) if named is None else named)]
        own = replace(run, window=opened.window)
        once = [strategy for at, strategy in enumerate(chosen) if strategy not in chosen[:at]]
        return [ReplayCell(render(strategy), strategy, own) for strategy in once]

    source = Source.of(pool.file if isinstance(pool, Pool) else pool)
    (results,) = replay_cells(
        [source], cells, settings, window=run.window, progress=progress or (lambda done, total: None), totals_only=True
    )  # fmt: skip
    return _comparison(results, run, settings)


def _comparison(results: Sequence[CellResult], options: RunOptions, settings: ReplaySettings) -> Comparison:
    opened, recorded = results[0].opened, max(results[0].paths)
    longest = max((resolve(one.cell.strategy) for one in results), key=lambda strategy: strategy.warmup)
    if recorded < longest.warmup:
        replace(options, paths=recorded).check_budget(longest, recorded=True)
    return Comparison(
        pool=opened.pool.name,
        rows=[result.row for result in results],
        options=replace(options, paths=options.paths or recorded, window=opened.window),
        settings=settings,
        recorded=recorded,
        damaged=opened.damaged,
        notes=tuple(replay_notes(results, settings)),
        recommendation=recommend(results),
    )
