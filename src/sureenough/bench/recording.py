"""Record once: a dataset sampled from an engine into a pool of the run's folder. After a crash it continues."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sureenough.bench.folder import slug
from sureenough.bench.progress import ProgressMeter
from sureenough.bench.source import Source
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
