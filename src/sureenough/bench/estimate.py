"""What a plan will cost in tokens, time and money, and where each estimate comes from.

Paths that are sampled for the estimate stay in the run's folder and are not sampled again.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sureenough.bench.comparison import compare
from sureenough.bench.execute import PreparedPlan
from sureenough.bench.folder import RunFolder, pool_file
from sureenough.bench.progress import duration
from sureenough.bench.recording import RecordingCell, is_complete, journal_of
from sureenough.drivers.record import record
from sureenough.engines.openai.reply import LONGEST_PATH
from sureenough.errors import TraceError
from sureenough.pools import Journal, Pool
from sureenough.pools.json_lines import read_lines

CHARACTERS_PER_TOKEN: Final = 3.5
"""Of prompts, which no server has counted."""
OWN_PATHS: Final = "its own paths"


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """The estimate for one cell."""

    label: str
    questions: int
    recorded: int  # paths so far
    paths: int  # still to be recorded
    tokens: float  # of these
    runs: int  # live ones
    live_tokens: float
    live_paths: float
    live_known: bool  # by a replay; else every run is assumed to spend its whole budget
    prompt: float  # tokens per prompt
    source: str  # of the lengths


@dataclass(frozen=True, slots=True)
class Prices:
    """Per million tokens."""

    prompt: float | None = None
    generated: float | None = None


def estimate(work: PreparedPlan, path: Path, *, like: Path | None, sample: int, prices: Prices) -> str:
    """The plan's cost in a few lines. It changes nothing, except for the paths that are sampled for it."""
    rate = _saved_rate(path)
    if path.exists() or sample:
        with RunFolder(path) as folder:
            folder.check_plan(work.cell_terms(), work.experiment.name, work.terms(), save=False)
            if sample:
                rate = _sample(work, path, sample) or rate
    cells = [_estimate_cell(work, cell, pool_file(path, cell.name), like) for cell in work.cells]
    return "\n".join(_lines(work, cells, rate, prices))


def save_rate(folder: RunFolder, tokens_per_second: float) -> None:
    """Keep the speed for later estimates; failing to is harmless."""
    try:
        (folder.path / "pace.json").write_text(json.dumps({"tokens_a_second": tokens_per_second}))
    except OSError:
        return


def _saved_rate(path: Path) -> float | None:
    try:
        return float(json.loads((path / "pace.json").read_text())["tokens_a_second"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _sample(work: PreparedPlan, path: Path, number: int) -> float | None:
    """Sample a few paths of every incomplete cell, spread over its questions; tokens per second at the plan's width."""
    plan, options = work.plan, work.plan.options
    tokens, seconds, most = 0, 0.0, 1
    for cell in work.cells:
        pool = pool_file(path, cell.name)
        questions = cell.questions()
        some = questions[:: max(1, len(questions) // number)][:number]
        if is_complete(pool):
            continue
        with Journal(journal_of(pool), cell.terms(options.seed)) as journal:
            began = time.monotonic()
            result = asyncio.run(
                record(some, cell.model.engine, journal, paths=1, parallel=options.parallel, seed=options.seed,
                       keep_text=cell.keeps_text(plan.text))
            )  # fmt: skip
        if not result.paths and result.lost is not None:
            raise result.lost
        tokens, seconds, most = tokens + result.tokens, seconds + time.monotonic() - began, max(most, result.paths)
    at_once = options.parallel / min(options.parallel, most)
    return tokens / seconds * at_once if tokens else None


def _estimate_cell(work: PreparedPlan, cell: RecordingCell, pool: Path, like: Path | None) -> CostEstimate:
    plan, questions = work.plan, len(cell.data.problems)
    lengths, source = _lengths(pool, like)
    recorded = len(lengths) if source == OWN_PATHS else 0
    longest = cell.model.sampling().get("max_tokens") or LONGEST_PATH
    mean = sum(lengths) / len(lengths) if lengths else float(longest)
    paths = questions * plan.budget - recorded if work.records else 0
    runs = questions * plan.live_repeats * len(work.strategies) if work.live else 0
    known = pool if is_complete(pool) else like
    per_run = _live_costs(work, known) if work.live and known is not None else (mean * plan.budget, plan.budget)
    prompts = [len(one.prompt.text) for one in cell.questions()]
    return CostEstimate(
        cell.label, questions, recorded, paths, paths * mean, runs, runs * per_run[0], runs * per_run[1],
        known is not None, sum(prompts) / len(prompts) / CHARACTERS_PER_TOKEN, source,
    )  # fmt: skip


def _lengths(pool: Path, like: Path | None) -> tuple[list[int], str]:
    """Tokens of known paths, of the cell itself if there are any, and whose they are."""
    if is_complete(pool):
        return [path.tokens for question in Pool(pool) for path in question.paths], OWN_PATHS
    journal = journal_of(pool)
    own = list(_journal_lengths(journal)) if journal.exists() else []
    if own:
        return own, OWN_PATHS
    if like is not None:
        return [path.tokens for question in Pool(like) for path in question.paths], f"the paths of {like.name}"
    return [], ""


def _journal_lengths(journal: Path) -> Iterator[int]:
    for offset, line in read_lines(journal):
        if offset and not isinstance(line.get("conf"), str):
            raise TraceError(
                f"{journal}, at byte {offset}: the line is not a recorded path; remove it to keep the rest"
            )
        if offset:
            yield len(line["conf"]) * 3 // 8  # two bytes per token, in base64


def _live_costs(work: PreparedPlan, pool: Path) -> tuple[float, float]:
    """Tokens and paths per live run, the mean of all strategies, from a replay."""
    options = work.plan.options
    rows = compare(pool, list(work.strategies), paths=options.paths, window=options.window, parallel=options.parallel,
                   hurry=options.hurry, seed=options.seed, repeats=1).rows  # fmt: skip
    return sum(row.tokens for row in rows) / len(rows), sum(row.width for row in rows) / len(rows)


def _lines(work: PreparedPlan, cells: list[CostEstimate], rate: float | None, prices: Prices) -> Iterator[str]:
    if not cells:
        yield f"{work.experiment.name} replays recorded paths: it generates no tokens and costs nothing but time."
        return
    for cell in cells:
        yield from _cell_lines(cell)
    tokens = sum(cell.tokens + cell.live_tokens for cell in cells)
    prompt = sum(cell.prompt * (cell.paths + cell.live_paths) for cell in cells)
    about = "about" if all(cell.source and (cell.live_known or not cell.runs) for cell in cells) else "at most"
    yield f"In all {about} {tokens:,.0f} tokens, and about {prompt:,.0f} prompt tokens by their length."
    if rate:
        yield f"At {rate:,.0f} tokens/s, the rate so far, that takes {about} {duration(tokens / rate)}."
    else:
        yield "How long it takes is not known yet: --sample 4 measures the rate."
    if prices.prompt is not None or prices.generated is not None:
        money = (prompt * (prices.prompt or 0.0) + tokens * (prices.generated or 0.0)) / 1e6
        yield f"At the given prices it costs {about} {money:,.2f}."


def _cell_lines(cell: CostEstimate) -> Iterator[str]:
    if cell.paths or cell.recorded:
        about = "about" if cell.source else "at most"
        source = (
            f"by {cell.source}" if cell.source else "no path is known; --sample 4 samples a few, --like POOL borrows"
        )
        yield (
            f"{cell.label}: {cell.questions:,} questions, {cell.paths:,} paths to record "
            f"({cell.recorded:,} are there), {about} {cell.tokens:,.0f} tokens ({source})"
        )
    if cell.runs:
        about = "about" if cell.live_known else "at most"
        yield f"{cell.label}: {cell.runs:,} live runs, {about} {cell.live_tokens:,.0f} tokens"
