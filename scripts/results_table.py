"""The tables of docs/sure.md, "Results": strategies on several pools and on all of them, as served and one at a time.

python scripts/results_table.py gsm8k-fresh-dev.parquet mmlu-stem-dev.parquet …

Each pool is replayed by itself, in two orders; "all together" joins the questions of all pools.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

from sureenough.bench.pipeline import OpenPool, ReplaySettings, Source
from sureenough.bench.replay import CellResult, ReplayCell, replay_cells
from sureenough.bench.score import Row, StrategyRuns, rows
from sureenough.core.options import LIVE_DEFAULTS, RunOptions

STRATEGIES: Final = "sc ac esc deepconf-low deepconf-high ddc sure certified".split()
SETTINGS: Final = (RunOptions(), RunOptions(parallel=LIVE_DEFAULTS.parallel, hurry=LIVE_DEFAULTS.hurry))
"""One at a time, and as served."""


def replayed(pool: str) -> list[CellResult]:
    """The strategies one at a time, then as served."""

    def cells(opened: OpenPool) -> list[ReplayCell]:
        windowed = [replace(options, window=opened.window) for options in SETTINGS]
        return [ReplayCell(name, name, options) for options in windowed for name in STRATEGIES]

    (results,) = replay_cells([Source.of(pool)], cells, ReplaySettings(repeats=2))
    return results


def together(results: list[list[CellResult]]) -> tuple[list[Row], list[Row]]:
    """The rows of all these pools: one at a time, and as served."""
    totals = [StrategyRuns() for _ in results[0]]
    for of_pool in results:
        for total, one in zip(totals, of_pool, strict=True):
            total.join(one.runs)
    half = len(STRATEGIES)
    return rows(STRATEGIES, totals[:half], 0), rows(STRATEGIES, totals[half:], 0)


def difference(row: Row) -> str:
    """With its interval, in points."""
    value, low, high = (round(100 * one, 1) + 0.0 for one in (row.difference, *row.difference_interval))
    return f"{value:+.1f} [{low:+.1f}, {high:+.1f}]"


def main(pools: list[str]) -> None:
    """Print both tables."""
    results = [replayed(pool) for pool in pools]
    one, served = together(results)
    heads = "strategy | accuracy % | vs `sc`, points | same answer as `sc` %"
    print(f"| {heads} | tokens | saved, 16 at once | steps | saved, one at a time |")
    print(f"{'|---' * 8}|")
    for alone, row in zip(one, served, strict=True):
        own = f"{difference(row)} | {100 * row.agreement:.1f} [≥ {100 * row.agreement_low:.1f}]"
        numbers = f"{row.tokens:,.0f} | {row.saving:.2f}x | {row.steps:,.0f} | {alone.saving:.2f}x"
        print(f"| `{row.strategy}` | {100 * row.accuracy:.1f} | {' | ' if row.strategy == 'sc' else own} | {numbers} |")
    print(f"\n| strategy | {' | '.join(Path(pool).stem for pool in pools)} |\n{'|---' * (len(pools) + 1)}|")
    each = [together([one])[1] for one in results]
    for number, name in enumerate(STRATEGIES):
        cells = [f"{difference(of[number])}, {of[number].saving:.1f}x" for of in each]
        print(f"| `{name}` | {' | '.join(cells if number else [f'{100 * of[0].accuracy:.1f}' for of in each])} |")


if __name__ == "__main__":
    main(sys.argv[1:])
