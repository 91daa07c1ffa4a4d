"""What sampling will cost in tokens, time and money, from a few paths that are sampled first and not kept.

`record` estimates one file of questions, `bench` every dataset and model of a plan.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sureenough.bench.recording import duration
from sureenough.drivers.record import RecordQuestion, record
from sureenough.engines.base import Engine
from sureenough.errors import UsageError
from sureenough.pools import RecordedPath
from sureenough.pools.journal import recorded_keys

if TYPE_CHECKING:
    from sureenough.bench.execute import PreparedPlan

SAMPLED_FIRST: Final = 4
"""Paths to estimate from."""


Money = Callable[[float, float], float | None]
"""The price of so many prompt tokens and generated tokens; None if no price was given."""


class LiveRuns(NamedTuple):
    """Runs of strategies, which sample paths of their own."""

    runs: int
    paths: float  # per run
    tokens: float | None  # per run, by a replay; None: as if every run spent its whole budget


@dataclass(frozen=True, slots=True)
class Sampling:
    """What is to be sampled from one engine."""

    questions: Sequence[RecordQuestion]
    engine: Engine
    paths: int  # per question, to record; 0 if nothing is recorded
    parallel: int
    seed: int
    recorded: Container[tuple[str, int]] = ()  # paths that are not sampled again
    live: LiveRuns | None = None
    label: str = ""  # for one of several

    @property
    def missing(self) -> int:
        """Paths to record; an earlier command may have recorded more."""
        return sum((one.id, n) not in self.recorded for one in self.questions for n in range(self.paths))


class Estimate(NamedTuple):
    """The cost of one or several samplings."""

    lines: list[str]
    tokens: float = 0.0
    prompt: float = 0.0
    seconds: float = 0.0
    bound: bool = False  # tokens are at most so many


def estimate(samplings: Sequence[Sampling], money: Money) -> str:
    """The cost in a few lines; nothing is kept."""
    costs = [_estimate(one, money) for one in samplings]
    lines = [line for one in costs for line in one.lines]
    if len(costs) > 1:
        tokens, prompt, seconds = (sum(getattr(one, name) for one in costs) for name in ("tokens", "prompt", "seconds"))
        whole = Estimate([], tokens, prompt, seconds, any(one.bound for one in costs))
        lines.append(f"In all {_cost_text(whole, money)}")
    return "\n".join(lines)


def _estimate(sampling: Sampling, money: Money) -> Estimate:
    missing, live = sampling.missing, sampling.live
    total = len(sampling.questions) * sampling.paths
    parts = [_plural(len(sampling.questions), "question")]
    parts += [_plural(total, "path")] if total else []
    head = (sampling.label and f"{sampling.label}: ") + ", ".join(parts)
    if not missing and live is None:
        return Estimate([f"{head}, all of them recorded: there is nothing to sample."])
    if missing != total:
        head += f", of which {missing:,} are missing" if missing else ", all of them recorded"
    if live is not None:
        head += f"; {_plural(live.runs, 'live run')}"
    step = max(1, len(sampling.questions) // SAMPLED_FIRST)
    some, began = sampling.questions[::step][:SAMPLED_FIRST], time.monotonic()
    journal: Any = _NoJournal()
    result = asyncio.run(
        record(some, sampling.engine, journal, paths=1, parallel=sampling.parallel, seed=sampling.seed)
    )
    if not result.paths:
        raise result.lost or UsageError("no path was sampled, so there is nothing to estimate from")
    per_path = result.tokens / result.paths
    paths = missing + (live.runs * live.paths if live is not None else 0)
    tokens = missing * per_path
    if live is not None:
        tokens += live.runs * (live.paths * per_path if live.tokens is None else live.tokens)
    seconds = (time.monotonic() - began) * paths / min(sampling.parallel, max(paths, 1))
    bound = live is not None and live.tokens is None
    cost = Estimate([], tokens, result.prompt_tokens / result.paths * paths, seconds, bound)
    as_fast = f" if {sampling.parallel} paths at once run as fast as {result.paths}"
    text = _cost_text(cost, money, f" ({per_path:,.0f} per path)", as_fast)
    return cost._replace(lines=[f"{head}. Estimated from {_plural(result.paths, 'sampled path')}:", text])


def _cost_text(cost: Estimate, money: Money, each: str = "", as_fast: str = "") -> str:
    about, price = "at most" if cost.bound else "about", money(cost.prompt, cost.tokens)
    return (
        f"{about} {cost.tokens:,.0f} tokens{each} and {cost.prompt:,.0f} prompt tokens, "
        f"{about} {duration(cost.seconds)}{as_fast}"
        + (f", {about} {price:,.2f} at the given prices." if price is not None else ".")
    )


def _plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


class _NoJournal:
    """A journal that stores nothing."""

    def __init__(self) -> None:
        self.paths: dict[tuple[str, int], RecordedPath] = {}

    def add(self, question: str, path: RecordedPath) -> None: ...


# -- plans of `bench`


def plan_estimate(work: PreparedPlan, folder: Path, money: Money) -> str:
    """The cost of a plan that is to be kept in this folder."""
    if not work.cells:
        return f"{work.experiment.name} replays recorded paths: it generates no tokens and costs nothing but time."
    from sureenough.bench.execute import pool_file

    plan, samplings = work.plan, []
    for cell in work.cells:
        pool, live = pool_file(folder, cell.name), None
        if work.live:
            runs = len(cell.data.problems) * plan.live_repeats * len(work.strategies)
            live = LiveRuns(runs, *(_live_costs(work, pool) or (plan.budget, None)))
        samplings.append(
            Sampling(
                cell.questions(), cell.model.engine, plan.budget if work.records else 0,
                plan.options.parallel * cell.model.servers, plan.options.seed, recorded_keys(pool), live, cell.label,
            )
        )  # fmt: skip
    return estimate(samplings, money)


def _live_costs(work: PreparedPlan, pool: Path) -> tuple[float, float] | None:
    """Paths and tokens per live run, the mean of all strategies, from a replay; None without a complete pool."""
    from sureenough.bench.comparison import compare
    from sureenough.bench.recording import is_complete

    if not is_complete(pool):
        return None
    options = work.plan.options
    rows: Any = compare(pool, list(work.strategies), paths=options.paths, window=options.window,
                        parallel=options.parallel, hurry=options.hurry, seed=options.seed,
                        repeats=1).rows  # fmt: skip
    return sum(row.width for row in rows) / len(rows), sum(row.tokens for row in rows) / len(rows)
