"""Record once: a dataset sampled from an engine into a pool of the run's folder. Killed anywhere, it goes on."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sureenough.bench.folder import slug
from sureenough.bench.progress import ProgressMeter
from sureenough.bench.source import Source
from sureenough.datasets.load import Loaded
from sureenough.drivers.record import RecordQuestion, record, write
from sureenough.engines.base import Engine
from sureenough.errors import EngineError
from sureenough.pools import PoolInfo, RecordedPath
from sureenough.pools.journal import Journal


@dataclass(frozen=True, slots=True)
class Model:
    """An engine with the name that tables and files give it."""

    name: str
    engine: Engine
    servers: int = 1

    def terms(self) -> dict[str, Any]:
        """What decides its tokens; where it is served does not."""
        engine = self._told()
        known = {name: getattr(engine, name) for name in ("model", "k", "chat") if hasattr(engine, name)}
        return {**known, **self.sampling()}

    def sampling(self) -> dict[str, Any]:
        """How tokens are drawn."""
        sampling: dict[str, Any] = self._told().sampling()
        return sampling

    def _told(self) -> Any:
        """The engine as it speaks: a model on this machine is a client of its own server."""
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
        """For people."""
        return f"{self.data.name} on {self.model.name}"

    @property
    def template(self) -> str:
        """How questions are put: as the caller says, else as the model wants them, else the dataset's way."""
        wanted: str | None = getattr(self.model.engine, "template", None)
        own = self.data.dataset.template
        return own if self.data.own_template or wanted is None or self.data.dataset.kind != "math" else wanted

    def asked(self) -> list[RecordQuestion]:
        """The questions as this model gets them."""
        return self.data.asked(self.template)

    def terms(self, seed: int) -> dict[str, Any]:
        """What decides every recorded path, but not how many there are."""
        data = self.data
        said = {"dataset": data.name, "questions": len(data.problems), "content": data.digest()}
        said["template"] = self.template
        return {**said, "seed": seed, **self.model.terms()}


def recorded(
    cell: RecordingCell, pool: Path, *, paths: int, parallel: int, seed: int, keep_text: bool, meter: ProgressMeter
) -> Source:
    """The cell's pool, sampled as far as it is not there yet."""
    notes = journal_of(pool)
    if not whole(pool):
        asked = cell.asked()
        with Journal(notes, cell.terms(seed)) as journal:
            told = _Told(asked, journal, paths, cell.label, meter)
            text = keep_text and not cell.data.dataset.hidden
            work = record(asked, cell.model.engine, journal, paths=paths, parallel=parallel, seed=seed,
                          keep_text=text, told=told)  # fmt: skip
            got = asyncio.run(work)
            missing = len(asked) * paths - len(journal.paths)
            if missing:
                raise EngineError(f"{missing} paths of {cell.label} are missing; the latest failure: {got.lost}")
            write(pool, asked, journal, _info(cell), text)
        notes.unlink()
    return Source(cell.data.name, cell.model.name, pool)


def journal_of(pool: Path) -> Path:
    """Where paths are until the pool is whole."""
    return pool.with_name(pool.name + ".journal")


def whole(pool: Path) -> bool:
    """Whether nothing is missing: the journal goes when the pool is in its place."""
    return pool.exists() and not journal_of(pool).exists()


class _Told:
    """Passes every path on to the meter, and notices when a question is whole."""

    def __init__(
        self, asked: list[RecordQuestion], journal: Journal, paths: int, label: str, meter: ProgressMeter
    ) -> None:
        have = Counter(question for question, _ in journal.paths)
        self._missing = {one.id: paths - have[one.id] for one in asked}
        self._meter = meter
        whole = sum(not left for left in self._missing.values())
        meter.begin(f"recording {label}", len(journal.paths), len(asked) * paths, whole, len(asked))

    def __call__(self, question: str, path: RecordedPath | None) -> None:
        if path is not None:
            self._missing[question] -= 1
            self._meter.step(path.tokens, not self._missing[question])


def _info(cell: RecordingCell) -> PoolInfo:
    engine: Any = cell.model.engine
    return PoolInfo(
        cell.data.name, cell.model.name, type(engine).__name__.lower(), getattr(engine, "k", 20),
        sampling=cell.model.sampling(), prompt=cell.template, window=engine.window,
    )  # fmt: skip
