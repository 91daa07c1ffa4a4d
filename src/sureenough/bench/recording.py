"""Record once: a dataset sampled from an engine into a pool of the run's folder. After a crash it continues."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from sureenough.bench.pipeline import Source
from sureenough.datasets.load import Loaded
from sureenough.drivers.record import Executor, RecordQuestion, in_process, record
from sureenough.engines.base import Engine
from sureenough.errors import EngineError
from sureenough.pools import Journal, PoolInfo, RecordedPath, write_journal_pool


@dataclass(frozen=True, slots=True)
class Model:
    """An engine with its name in tables and files."""

    name: str
    engine: Engine
    servers: int = 1
    executor: Executor | None = None  # what samples instead of this process

    @property
    def runs_on(self) -> Executor:
        """What samples from it: an executor, or this process."""
        return self.executor or partial(in_process, self.engine)

    def terms(self) -> dict[str, Any]:
        """What decides its tokens; the address does not."""
        client = self._client()
        terms = {name: getattr(client, name) for name in ("model", "k", "chat") if hasattr(client, name)}
        return {**terms, **self.sampling()}

    def sampling(self) -> dict[str, Any]:
        """Temperature and the like."""
        sampling: dict[str, Any] = self._client().sampling()
        return sampling

    def _client(self) -> Any:
        """The engine that sends requests: a model on this machine is a client of its own server."""
        wire = getattr(self.engine, "wire", None)
        return self.engine if wire is None else wire()


@dataclass(frozen=True, slots=True)
class RecordingCell:
    """One dataset on one model."""

    data: Loaded
    model: Model

    @property
    def name(self) -> str:
        """For files."""
        return f"{slug(self.data.name)}--{slug(self.model.name)}"

    @property
    def label(self) -> str:
        """For messages."""
        return f"{self.data.name} on {self.model.name}"

    @property
    def template(self) -> str:
        """The caller's template, else for mathematics the engine's, else the dataset's."""
        suggested: str | None = getattr(self.model.engine, "template", None)
        own = self.data.template
        use_own = self.data.own_template or suggested is None or self.data.dataset.kind != "math"
        return own if use_own or suggested is None else suggested

    def questions(self) -> list[RecordQuestion]:
        """The questions with their prompts for this model."""
        return self.data.record_questions(self.template)

    def keeps_text(self, wanted: bool) -> bool:
        """Datasets whose authors ask not to publish the questions are recorded without text."""
        return wanted and not self.data.dataset.hidden

    def terms(self, seed: int) -> dict[str, Any]:
        """What decides every recorded path, but not how many there are."""
        data = self.data
        terms = {"dataset": data.name, "questions": len(data.problems), "content": data.digest()}
        return {**terms, "template": self.template, "seed": seed, **self.model.terms()}


def slug(text: str) -> str:
    """A name as part of a file's name."""
    return re.sub(r"[^\w.-]+", "-", text).strip("-.") or "unnamed"


def record_cell(
    cell: RecordingCell, pool: Path, *, paths: int, parallel: int, seed: int, keep_text: bool, meter: ProgressMeter
) -> Source:
    """The cell's pool; samples the paths that are missing."""
    if not is_complete(pool):
        questions, text = cell.questions(), cell.keeps_text(keep_text)
        with Journal(journal_of(pool), cell.terms(seed)) as journal:
            count = _RecordingProgress(questions, journal, paths, cell.label, meter)
            result = asyncio.run(
                record(questions, cell.model.engine, journal, paths=paths, parallel=parallel, seed=seed,
                       keep_text=text, on_path=count, executor=cell.model.executor)
            )  # fmt: skip
            missing = len(questions) * paths - len(journal.paths)
            if missing:
                raise EngineError(f"{missing} paths of {cell.label} are missing; the latest failure: {result.lost}")
            write_journal_pool(pool, questions, journal, _info(cell), keep_text=text)
        journal_of(pool).unlink()
    kind = cell.data.dataset.kind
    return Source(cell.data.name, cell.model.name, pool, None if kind == "math" else kind)


def journal_of(pool: Path) -> Path:
    """Where paths are until the pool is complete."""
    return pool.with_name(pool.name + ".journal")


def is_complete(pool: Path) -> bool:
    """Whether no path is missing: the journal is removed when the pool is written."""
    return pool.exists() and not journal_of(pool).exists()


class _RecordingProgress:
    """Passes every path to the meter, and counts complete questions."""

    def __init__(
        self, questions: list[RecordQuestion], journal: Journal, paths: int, label: str, meter: ProgressMeter
    ) -> None:
        have = Counter(question for question, _ in journal.paths)
        self._missing = {one.id: paths - have[one.id] for one in questions}
        self._meter = meter
        complete = sum(not missing for missing in self._missing.values())
        meter.begin(f"recording {label}", len(journal.paths), len(questions) * paths, complete, len(questions))

    def __call__(self, question: str, path: RecordedPath | None) -> None:
        if path is not None:
            self._missing[question] -= 1
            self._meter.step(path.tokens, not self._missing[question])


def _info(cell: RecordingCell) -> PoolInfo:
    engine: Any = cell.model.engine
    return PoolInfo(
        cell.data.name, cell.model.name, type(engine).__name__.lower(), getattr(engine, "k", 20),
        sampling=cell.model.sampling(), prompt=cell.template, window=engine.window, kind=cell.data.dataset.kind,
    )  # fmt: skip


@dataclass(slots=True)
class ProgressMeter:
    """Calls `show` with itself after every step."""

    show: Callable[[ProgressMeter], None] = lambda meter: None
    cells: int = 0  # in all
    cell: int = 0  # the current one, from 1
    activity: str = ""
    unit: str = "paths"
    done: int = 0  # of this cell, with those of earlier sessions
    total: int = 0
    questions_done: int = 0
    questions: int = 0
    later: int = 0  # units of later cells of the same kind
    tokens: int = 0  # of this phase and session
    units: int = 0  # likewise
    began: float = field(default_factory=time.monotonic)

    def phase(self, unit: str, units: int) -> None:
        """Start another kind of work with so many units."""
        self.unit, self.later, self.tokens, self.units = unit, units, 0, 0
        self.began = time.monotonic()

    def begin(self, activity: str, done: int, total: int, questions_done: int, questions: int) -> None:
        self.cell += 1
        self.activity, self.done, self.total = activity, done, total
        self.questions_done, self.questions = questions_done, questions
        self.later -= total
        self.show(self)

    def step(self, tokens: int, question_complete: bool) -> None:
        self.done += 1
        self.units += 1
        self.tokens += tokens
        self.questions_done += question_complete
        self.show(self)

    @property
    def rate(self) -> float:
        """Tokens per second in this phase."""
        return self.tokens / max(1e-9, time.monotonic() - self.began)

    @property
    def seconds_left(self) -> float | None:
        """Of this phase, by the rate so far."""
        if not self.units:
            return None
        return (self.total - self.done + self.later) * (time.monotonic() - self.began) / self.units

    def line(self) -> str:
        """The state in one line of text."""
        left = self.seconds_left
        return (
            f"cell {self.cell} of {self.cells}, {self.activity}: {self.done:,} of {self.total:,} {self.unit}, "
            f"{self.questions_done:,} of {self.questions:,} questions, {self.rate:,.0f} tokens/s"
            + (f", about {duration(left)} left" if left is not None else "")
        )


def duration(seconds: float) -> str:
    days, rest = divmod(round(seconds), 86_400)
    hours, rest = divmod(rest, 3600)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {rest // 60} min" if hours else (f"{rest // 60} min" if rest >= 120 else f"{rest} s")
