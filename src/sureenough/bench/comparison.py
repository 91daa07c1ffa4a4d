"""All strategies on the same recorded paths, in the same orders: a paired comparison."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import nan
from pathlib import Path
from typing import Final, Unpack

from sureenough.api import Kind
from sureenough.bench import recommendation
from sureenough.bench.judging import Equal, Grader
from sureenough.bench.pipeline import DEFAULT_REPEATS, OpenPool, Progress, ReplaySettings, Source
from sureenough.bench.recommendation import recommend, sentences
from sureenough.bench.replay import ReplayCell, fitting_pool, replay_cells, replay_notes
from sureenough.bench.result import Recommendation
from sureenough.bench.score import Row
from sureenough.bench.tables import Column, Field, Table, aligned, comma_separated, field, html, measure, table
from sureenough.core.events import Json
from sureenough.core.options import ReplayKeywords, RunOptions, run_options, takes_run_options
from sureenough.core.strategy import Strategy
from sureenough.data import BUILTIN_POOL
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
        table = self.table()
        return "\n".join([table.title, *aligned(table), *table.notes, *self.advice()])

    def _repr_html_(self) -> str:
        """The table, for notebooks."""
        return html(self.table())

    def table(self) -> Table:
        """What people read: means, with intervals."""
        made = table("comparison", _headline(self), FIELDS, self.rows, _footnotes(self))
        made.rows[0][2] = None  # the first strategy has no difference to itself
        return made

    def advice(self) -> list[str]:
        """Which strategy to use, after an empty line."""
        return ["", *sentences(self.recommendation)] if self.recommendation else []


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
    skip_damaged = skip_damaged or (isinstance(pool, Pool) and pool.skip_damaged)
    settings = ReplaySettings(
        repeats=repeats, equal=equal, grader=grader, kind=kind, skip_damaged=skip_damaged, jobs=jobs
    )
    run = run_options(compare, RunOptions(), options)
    named = [strategies] if isinstance(strategies, str | Strategy) else strategies
    if named is not None and not named:
        raise UsageError("name at least one strategy to compare")

    def cells(opened: OpenPool) -> list[ReplayCell]:
        chosen = [resolve(one) for one in (fitting_pool(COMPARED, opened, run.paths) if named is None else named)]
        own = replace(run, window=opened.window)
        once = [strategy for at, strategy in enumerate(chosen) if strategy not in chosen[:at]]
        return [ReplayCell(render(strategy), strategy, own) for strategy in once]

    source = Source.of(pool.file if isinstance(pool, Pool) else pool)
    (results,) = replay_cells(
        [source], cells, settings, window=run.window, progress=progress or (lambda done, total: None)
    )
    opened, recorded = results[0].opened, max(results[0].opened.paths)
    longest = max((resolve(one.cell.strategy) for one in results), key=lambda strategy: strategy.warmup)
    replace(run, paths=recorded).check_budget(longest, recorded=True)
    return Comparison(
        pool=opened.pool.name,
        rows=[result.row for result in results],
        options=replace(run, paths=run.paths or recorded, window=opened.window),
        settings=settings,
        recorded=recorded,
        damaged=opened.damaged,
        notes=tuple(replay_notes(results, settings)),
        recommendation=recommend(results),
    )


def _stopped(row: Row) -> str:
    return ", ".join(f"{reason} {share:.0%}" for reason, share in row.reasons.items())


def _pruned(row: Row) -> str | None:
    return f"{row.tiers['drop']:.1f} + {row.tiers['risk']:.1f}" if row.pruned else None


FIELDS: Final[Sequence[Field[Row]]] = (
    field("strategy", lambda row: row.strategy),
    field("accuracy %", lambda row: measure(row.accuracy, row.interval), "percent", ""),
    field("vs first", lambda row: measure(row.difference, row.difference_interval), "points", ""),
    field("agreement %", lambda row: measure(row.agreement, (row.agreement_low, nan)), "percent", ""),
    field("tokens", lambda row: row.tokens, "tokens", ""),
    field("saving", lambda row: row.saving, "ratio"),
    field("steps", lambda row: row.steps, "count"),
    field("width", lambda row: row.width, "number", digits=1),
    field("pruned drop + risk", _pruned, "number"),
    field("stopped", _stopped),
)
LEAST_NEEDED: Final = ("stopped", "pruned drop + risk", "steps", "width", "tokens", "agreement %", "vs first", "saving")
"""Columns that a narrow terminal leaves out, in this order."""


def _headline(result: Comparison) -> str:
    """What was compared, in one line."""
    first, options = result.rows[0], result.options
    width = "one path at a time" if options.parallel == 1 else f"{options.parallel} paths at once"
    if options.hurry is not None:
        width += f" at most, planned with hurry {options.hurry:g}"
    pool = "built-in pool" if result.pool == str(BUILTIN_POOL) else result.pool
    if options.max_tokens is not None:
        width += f", at most {options.max_tokens:,} tokens per question"
    short = f" ({result.recorded} recorded)" if result.recorded < (options.paths or 0) else ""
    return (
        f"{pool}: {first.questions} questions, budget {options.paths} paths{short}, window {options.window}, "
        f"{width}, {first.repeats} {'order' if first.repeats == 1 else 'orders'}, seed {options.seed}"
    )


def _footnotes(result: Comparison) -> Iterator[str]:
    """What a reader of the table should know."""
    yield "tokens, steps, width and pruned are means per question; saving is relative to plain voting on the same paths"
    if result.recommendation is not None:
        yield (
            "intervals resample questions, with one imagined question won and one lost; agreement: the share of "
            "answers that are those of the whole budget's vote, with its lower limit at 95%"
        )
    for weight in ("raw", "mean", "unit"):
        names = [row.strategy for row in result.rows if row.weight == weight]
        if names:
            yield f"votes weigh C_path ({weight}): {', '.join(names)}"
    cut = [row.strategy for row in result.rows if row.reasons.get("max_tokens")]
    if cut and result.options.parallel > 1:
        yield f"the cap on tokens cut runs of {', '.join(cut)}; with many paths at once, few may have ended by then"
    yield from result.notes
    for row in result.rows:
        yield from (f"{row.strategy}: {note}" for note in row.notes)


def to_csv(results: Sequence[Comparison]) -> str:
    """One line per pool and strategy, plain numbers."""
    lines = [_flat(result, row) for result in results for row in result.rows]
    rows = [list(line.values()) for line in lines]
    return comma_separated(Table("comparison", "", [*map(Column, lines[0])], rows)).rstrip("\n")


def _flat(result: Comparison, row: Row) -> Json:
    flat: Json = {"pool": result.pool, **_made_with(result)}
    for name, value in row.to_json().items():
        if name in ("tiers", "buckets"):
            flat |= {f"{name}_{key}": item for key, item in value.items()}
        elif name.endswith("interval"):
            flat |= {name + "_low": value[0], name + "_high": value[1]}
        elif name not in ("reasons", "notes"):
            flat[name] = json.dumps(value) if isinstance(value, dict) else value
    flat |= {f"ended_{reason}": row.reasons.get(reason, 0.0) for reason in ("settled", "budget", "max_tokens")}
    return flat | {"notes": "; ".join([*result.notes, *row.notes])}


def to_json(results: Sequence[Comparison]) -> Json:
    """Everything, for programs."""
    return {
        "pools": [
            {
                **{name: getattr(result, name) for name in ("pool", "recorded", "damaged")},
                **_made_with(result),
                "notes": list(result.notes),
                "rows": [row.to_json() for row in result.rows],
                "recommendation": result.recommendation and recommendation.to_json(result.recommendation),
            }
            for result in results
        ]
    }


def _made_with(result: Comparison) -> Json:
    """Every option but those that recorded paths have no use for, and settings that change no number."""
    options = {name: getattr(result.options, name) for name in RunOptions.fields(live=False)}
    kept = [name for name in ReplaySettings.fields() if name not in ("jobs", "skip_damaged")]
    return options | {name: getattr(result.settings, name) for name in kept}
