"""Small pools with known answers, live rows, and results with hostile names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sureenough.bench.live import LiveRun
from sureenough.bench.paper import Inputs
from sureenough.bench.pipeline import ReplaySettings, Source
from sureenough.bench.result import Axis, ExperimentResult, Figure, PoolUsed, Provenance, Series
from sureenough.bench.tables import Cell, Column, Measure, Table
from sureenough.core.options import RunOptions
from sureenough.pools import PoolInfo, Question, RecordedPath, write_pool

HOSTILE = "</script><img src=x onerror=alert(1)>"
FORMULA = "=HYPERLINK(A1)|x"
TEX = r"\input{x} $ & # _ % ^ ~ {"


def make_pool(folder: Path, *, questions: int = 8, paths: int = 24, dataset: str = "aime25", model: str = "Qwen3-4B",
              name: str = "small.parquet") -> Source:  # fmt: skip
    """Paths of some forty tokens; right ones are a little surer. Levels: 1 to 5."""
    rng = np.random.default_rng(len(name) + questions)
    made = []
    for q in range(questions):
        share = (q + 1) / (questions + 1)
        mine = []
        for _ in range(paths):
            right = rng.random() < share
            tokens = int(rng.integers(30, 50))
            conf = 10.0 + right + rng.normal(0.0, 2.0, tokens)
            answer = None if rng.random() < 0.05 else ("7" if right else str(rng.integers(8, 12)))
            peak = rng.uniform(0.5, 1.0, tokens)
            mine.append(RecordedPath(answer, peak, np.abs(conf)))
        made.append(Question(f"q{q}", "7", q % 5 + 1, mine))
    write_pool(folder / name, made, PoolInfo(dataset=dataset, model=model, window=8))
    return Source.of(folder / name)


def pool_of(
    folder: Path, *questions: Sequence[str | None], gold: str | None = "7", tokens: int = 9, **info: Any
) -> Path:
    """A pool of questions with these answers, by paths that are all alike."""
    made = [
        Question(f"q{n}", gold, None, [RecordedPath(one, [0.5] * tokens, [9.0] * tokens) for one in answers])
        for n, answers in enumerate(questions)
    ]
    write_pool(folder / "p.parquet", made, PoolInfo(**{"window": 8} | info))
    return folder / "p.parquet"


def live_rows(dataset: str = "aime25", model: str = "Qwen3-4B") -> list[LiveRun]:
    """Two strategies on three questions."""
    outcome = {
        "answer": "7", "reason": "settled", "tokens": {"total": 1000, "init": 600, "kept": 400}, "started": 20,
        "pruned": 3, "tiers": {"drop": 2, "risk": 1}, "steps": 90,
    }  # fmt: skip
    return [
        LiveRun(dataset, model, strategy, f"q{q}", 0, q != 1 or strategy == "ddc", 1.0 + q, 0.5, outcome)
        for strategy in ("deepconf-low", "ddc")
        for q in range(3)
    ]


def inputs(
    *sources: Source,
    live: bool = False,
    strategies: Any = None,
    sweep: Any = None,
    **values: Any,
) -> Inputs:
    """An experiment's inputs from flat keywords: those of RunOptions and of ReplaySettings."""
    options = {name: value for name, value in values.items() if name in RunOptions.fields()}
    settings = {name: value for name, value in values.items() if name not in options}
    runs = live_rows() if live else []
    chosen = RunOptions(**options), ReplaySettings(**settings), strategies, sweep, runs
    return Inputs(sources, *chosen)


def provenance(command: str = "sureenough bench main --pool small.parquet") -> Provenance:
    """As an experiment leaves it."""
    pools = [PoolUsed("aime25", HOSTILE, "small.parquet", "0" * 64, 8, 192)]
    return Provenance(
        command, {"sureenough": "0.1.0", "python": "3.11"}, pools, {"seed": 1}, 1.5, "2026-01-01T00:00:00+00:00"
    )


def hostile_result(name: str = "main") -> ExperimentResult:
    """Every name of it would like to be more than a name."""
    columns = [
        Column("dataset"), Column(HOSTILE, "percent", "%"), Column("tokens", "tokens"),
        Column("vs first", "points"), Column("their tokens", "tokens7", paper="table 1"),
    ]  # fmt: skip
    rows: list[list[Cell]] = [
        [FORMULA, Measure(0.5, 0.25, 0.75), 1200.0, Measure(-0.031, -0.1, 0.02), 1.5e7],
        [HOSTILE, Measure(0.25, None, None), 99.0, 0.0, None],
        [TEX, Measure(None, None, None), 100000.0, None, 2e8],
        ["a | b\n`c` <b>", 0.75, 1.0, 0.1, 0.0],
    ]
    kinds: tuple[Literal["line", "bar", "points", "steps"], ...] = ("line", "bar", "points", "steps")
    figures = [
        Figure(
            f"{kind}",
            f"{kind} {HOSTILE} $\\frac",
            kind,
            Axis("x $", "category" if kind == "bar" else "log"),
            Axis(HOSTILE, percent=True),
            [
                Series(
                    HOSTILE, ["a", HOSTILE] if kind == "bar" else [16.0, 32.0], [0.5, None], [0.4, None], [0.6, None]
                ),
                Series("$\\alpha$ theirs", ["a"] if kind == "bar" else [64.0], [0.7], paper="table 1"),
            ],
            [HOSTILE],
        )
        for kind in kinds
    ]
    table = Table("hostile", f"Title {HOSTILE}", columns, rows, [HOSTILE, FORMULA])
    live = Table("live", "Measured live", columns[:1], [["x"]], live=True)
    return ExperimentResult(
        name, f"Hostile {HOSTILE}", [table, live], figures, [HOSTILE], provenance(f"sureenough bench {HOSTILE}\n%x")
    )
