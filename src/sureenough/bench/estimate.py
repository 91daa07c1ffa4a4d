"""What a plan will cost, before it is paid: tokens, time and money, and where each guess comes from.

Paths that are sampled for it stay in the run's folder and are not sampled again.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sureenough.bench.comparison import compare
from sureenough.bench.execute import PreparedPlan
from sureenough.bench.folder import RunFolder, pool_file
from sureenough.bench.progress import clock
from sureenough.bench.recording import RecordingCell, journal_of, whole
from sureenough.drivers.record import record
from sureenough.engines.openai.client import LONGEST_PATH
from sureenough.pools import Pool
from sureenough.pools.journal import Journal

CHARACTERS = 3.5
"""Of a prompt a token, where no server has counted."""


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """One cell's future."""

    label: str
    questions: int
    recorded: int  # paths that are there
    paths: int  # that will be recorded
    tokens: float  # of these
    runs: int  # live ones
    live_tokens: float
    live_paths: float
    live_known: bool  # by a replay; else every run is taken to spend its whole budget
    prompt: float  # tokens of a prompt
    source: str  # where the lengths are from


@dataclass(frozen=True, slots=True)
class Prices:
    """Of a million tokens."""

    prompt: float | None = None
    made: float | None = None


def estimate(work: PreparedPlan, path: Path, *, like: Path | None, sample: int, prices: Prices) -> str:
    """The plan's cost in a few lines; it binds nobody, and leaves nothing behind but what is sampled for it."""
    pace = _pace(path)
    if path.exists() or sample:
        with RunFolder(path) as folder:
            folder.agree(work.cell_terms(), work.experiment.name, work.terms(), note=False)
            if sample:
                pace = _sample(work, path, sample) or pace
    guesses = [_guess(work, cell, pool_file(path, cell.name), like) for cell in work.cells]
    return "\n".join(_told(work, guesses, pace, prices))


def note_pace(folder: RunFolder, tokens_a_second: float) -> None:
    """Remember how fast it goes; a pace that cannot be noted is no error."""
    try:
        (folder.path / "pace.json").write_text(json.dumps({"tokens_a_second": tokens_a_second}))
    except OSError:
        return


def _pace(path: Path) -> float | None:
    try:
        return float(json.loads((path / "pace.json").read_text())["tokens_a_second"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _sample(work: PreparedPlan, path: Path, number: int) -> float | None:
    """A few paths of every cell that has none, spread over its questions; tokens a second at the plan's width."""
    plan, tokens, seconds, most = work.plan, 0, 0.0, 1
    for cell in work.cells:
        pool = pool_file(path, cell.name)
        asked = cell.asked()
        some = asked[:: max(1, len(asked) // number)][:number]
        if whole(pool):
            continue
        with Journal(journal_of(pool), cell.terms(plan.seed)) as journal:
            began = time.monotonic()
            keep = plan.text and not cell.data.dataset.hidden
            work_ = record(some, cell.model.engine, journal, paths=1, parallel=plan.parallel, seed=plan.seed,
                           keep_text=keep)  # fmt: skip
            got = asyncio.run(work_)
            if not got.paths and got.lost is not None:
                raise got.lost
            tokens, seconds, most = tokens + got.tokens, seconds + time.monotonic() - began, max(most, got.paths)
    at_once = plan.parallel / min(plan.parallel, most)
    return tokens / seconds * at_once if tokens else None


def _guess(work: PreparedPlan, cell: RecordingCell, pool: Path, like: Path | None) -> CostEstimate:
    plan, questions = work.plan, len(cell.data.problems)
    lengths, source = _lengths(pool, like)
    there = len(lengths) if source == "its own paths" else 0
    most = cell.model.sampling().get("max_tokens") or LONGEST_PATH
    mean = sum(lengths) / len(lengths) if lengths else float(most)
    paths = questions * plan.budget - there if work.records else 0
    runs = questions * plan.live_repeats * len(work.strategies) if work.live else 0
    known = pool if whole(pool) else like
    made, started = _live_costs(work, known) if work.live and known is not None else (mean * plan.budget, plan.budget)
    prompts = [len(one.prompt.text) for one in cell.asked()]
    prompt = sum(prompts) / len(prompts) / CHARACTERS
    return CostEstimate(cell.label, questions, there, paths, paths * mean, runs, runs * made, runs * started,
                 known is not None, prompt, source)  # fmt: skip


def _lengths(pool: Path, like: Path | None) -> tuple[list[int], str]:
    """Tokens of known paths, of the cell itself if there are any."""
    if whole(pool):
        return [path.tokens for question in Pool(pool) for path in question.paths], "its own paths"
    notes = journal_of(pool)
    own = list(_journalled(notes)) if notes.exists() else []
    if own:
        return own, "its own paths"
    if like is not None:
        return [path.tokens for question in Pool(like) for path in question.paths], f"the paths of {like.name}"
    return [], ""


def _journalled(notes: Path) -> Iterator[int]:
    from sureenough.pools.json_lines import read_lines

    # Two bytes a token in base64, four characters for every three.
    return (len(line["conf"]) * 3 // 8 for place, line in read_lines(notes) if place)


def _live_costs(work: PreparedPlan, pool: Path) -> tuple[float, float]:
    """Tokens and paths a live run, the mean of all strategies, as a replay has them."""
    plan = work.plan
    rows = compare(pool, list(work.strategies), paths=plan.paths, window=plan.window, parallel=plan.parallel,
                   seed=plan.seed).rows  # fmt: skip
    return sum(row.tokens for row in rows) / len(rows), sum(row.width for row in rows) / len(rows)


def _told(work: PreparedPlan, guesses: list[CostEstimate], pace: float | None, prices: Prices) -> Iterator[str]:
    if not guesses:
        yield f"{work.experiment.name} replays recorded paths: it generates no tokens and costs nothing but time."
        return
    for one in guesses:
        about = "about" if one.source else "at most"
        why = f"by {one.source}" if one.source else "no path is known; --sample 4 samples a few, --like POOL borrows"
        if one.paths or one.recorded:
            yield (
                f"{one.label}: {one.questions:,} questions, {one.paths:,} paths to record "
                f"({one.recorded:,} are there), {about} {one.tokens:,.0f} tokens ({why})"
            )
        if one.runs:
            about = "about" if one.live_known else "at most"
            yield f"{one.label}: {one.runs:,} live runs, {about} {one.live_tokens:,.0f} tokens"
    tokens = sum(one.tokens + one.live_tokens for one in guesses)
    prompt = sum(one.prompt * (one.paths + one.live_paths) for one in guesses)
    known = all(one.source and (one.live_known or not one.runs) for one in guesses)
    about = "about" if known else "at most"
    yield f"In all {about} {tokens:,.0f} tokens, and about {prompt:,.0f} prompt tokens by their length."
    if pace:
        yield f"At {pace:,.0f} tokens/s, the pace seen so far, that takes {about} {clock(tokens / pace)}."
    else:
        yield "How long it takes is not known yet: --sample 4 measures the pace."
    if prices.prompt is not None or prices.made is not None:
        money = (prompt * (prices.prompt or 0.0) + tokens * (prices.made or 0.0)) / 1e6
        yield f"At the prices given it costs {about} {money:,.2f}."
