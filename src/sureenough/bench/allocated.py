"""A dataset on a live engine with one budget of tokens for all its questions."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

from sureenough.answers import for_question
from sureenough.bench.live import LiveRun, grade_live
from sureenough.bench.recording import RecordingCell
from sureenough.core.options import RunOptions
from sureenough.core.session import Session
from sureenough.drivers.allocate import ALLOCATED, AllocatedQuestion, run_allocation
from sureenough.errors import EngineUnavailable
from sureenough.pools import Journal
from sureenough.spec import resolve

NAME: Final = "allocated"
"""In tables and files, in place of a strategy."""


def run_allocated(cell: RecordingCell, journal_file: Path, options: RunOptions, total: int) -> list[LiveRun]:
    """One run per question. Paths that are complete are in the journal, so that a second try does not pay for them."""
    recorded = cell.questions()
    longest = cell.model.engine.longest_window
    run = replace(options, parallel=1, planned=False, window=options.window or cell.model.engine.window)
    questions = [
        AllocatedQuestion(
            question.id, question.prompt, for_question(question.judge, question.prompt.last_text),
            Session(resolve(ALLOCATED), run, longest_window=longest),
        )
        for question in recorded
    ]  # fmt: skip
    started = time.monotonic()
    with Journal(journal_file, cell.terms(options.seed)) as journal:
        parallel = options.parallel * cell.model.servers
        outcomes = asyncio.run(run_allocation(questions, cell.model.engine, total, parallel=parallel, journal=journal))
    reasons = {outcome.reason for outcome in outcomes}
    if "interrupted" in reasons:
        raise KeyboardInterrupt
    if "engine" in reasons:
        raise EngineUnavailable(f"the engine was lost during {cell.label}")
    seconds = (time.monotonic() - started) / len(questions)
    return [
        LiveRun(cell.data.name, cell.model.name, NAME, question.id, 0, grade_live(question, outcome.answer), 0.0,
                seconds, outcome.to_json())
        for question, outcome in zip(recorded, outcomes, strict=True)
    ]  # fmt: skip
