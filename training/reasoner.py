"""How good the built-in model is, level by level: the table and the figures of docs/local.md.

pip install '.[local,bench]'
python training/reasoner.py problems arith.jsonl [SEED]
sureenough record arith.jsonl -o arith.parquet --paths 32 --parallel 32 --no-text
python training/reasoner.py draw arith.parquet docs/
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
import pyarrow.parquet as pq
from arithmetic import LEVELS, generate

from sureenough.bench import Comparison, compare
from sureenough.pools import Pool

SEED: Final = 2026
EACH: Final = 100
STRATEGIES: Final = ("sc", "ac", "deepconf-low", "ddc", "sure")
COLOURS: Final = {"single path": "#6e7781", "sc": "#0969da", "ddc": "#1a7f37", "sure": "#bc4c00"}
Marks = npt.NDArray[np.float64]


def problems(out: Path, seed: int = SEED) -> None:
    """Write five hundred generated problems; those of the default seed level by level, others by level in turn."""
    levels = [generate(level, seed, EACH) for level in LEVELS]
    in_turn = [problem for same_place in zip(*levels, strict=True) for problem in same_place]
    made = [problem for level in levels for problem in level] if seed == SEED else in_turn
    lines = [json.dumps({"id": p.id, "question": p.question, "gold": p.gold, "level": p.level}) for p in made]
    out.write_text("\n".join(lines) + "\n")


@dataclass
class Level:
    """What the paths of a level show."""

    right: list[float] = field(default_factory=list)  # path confidence
    wrong: list[float] = field(default_factory=list)
    areas: list[float] = field(default_factory=list)  # by question
    tokens: list[int] = field(default_factory=list)

    @property
    def single(self) -> float:
        """How often one path is right."""
        return len(self.right) / (len(self.right) + len(self.wrong))


def levels(file: Path) -> dict[int, Level]:
    """Read a pool's paths, right and wrong ones apart."""
    pool, found = Pool(file), {level: Level() for level in LEVELS}
    for question in pool:
        here = found[question.level or 0]
        scores = np.array([path.windows(pool.info.window or 32).lowest for path in question.paths])
        right = np.array([path.answer == question.gold for path in question.paths])
        here.right += scores[right].tolist()
        here.wrong += scores[~right].tolist()
        here.tokens += [path.tokens for path in question.paths]
        if 0 < right.sum() < len(right):
            here.areas.append(area(scores[right], scores[~right]))
    return found


def area(good: Marks, bad: Marks) -> float:
    """Under the ROC curve: how often a right path is the more confident one."""
    pairs = good[:, None] - bad[None]
    return float((pairs > 0).mean() + 0.5 * (pairs == 0).mean())


def compared(file: Path) -> dict[int, Comparison]:
    """All strategies, level by level, on the same paths."""
    table, found = pq.read_table(file), {}
    with TemporaryDirectory() as folder:
        for level in LEVELS:
            part = Path(folder) / f"{level}.parquet"
            pq.write_table(table.filter(pc.equal(table["level"], level)), part)
            found[level] = compare(part, STRATEGIES, repeats=5)
    return found


def show(paths: dict[int, Level], table: dict[int, Comparison]) -> None:
    """Print the page's tables."""
    print("| level | tokens per path | one path right | area under ROC | " + " | ".join(STRATEGIES) + " |")
    print("|" + "---|" * (4 + len(STRATEGIES)))
    for level, here in paths.items():
        cells = [f"{100 * row.accuracy:.1f}, {row.tokens:,.0f}" for row in table[level].rows]
        roc = f"{np.mean(here.areas):.2f} ({len(here.areas)})" if here.areas else "-"
        print(f"| {level} | {np.mean(here.tokens):.0f} | {100 * here.single:.1f} | {roc} | " + " | ".join(cells) + " |")


def draw(paths: dict[int, Level], table: dict[int, Comparison], folder: Path) -> None:
    """Two figures."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "sureenough", "font.size": 10})
    mpl.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "figure.facecolor": "white"})
    _accuracy(paths, table, folder / "reasoner-accuracy.svg")
    _confidence(paths, folder / "reasoner-confidence.svg")


def _accuracy(paths: dict[int, Level], table: dict[int, Comparison], out: Path) -> None:
    import matplotlib.pyplot as plt

    fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for name, colour in COLOURS.items():
        rows = [next((row for row in table[level].rows if row.strategy == name), None) for level in LEVELS]
        marks = [row.accuracy if row else paths[level].single for level, row in zip(LEVELS, rows, strict=True)]
        tokens = [row.tokens if row else float(np.mean(paths[x].tokens)) for x, row in zip(LEVELS, rows, strict=True)]
        left.plot(LEVELS, [100 * mark for mark in marks], "o-", color=colour, ms=4, label=name)
        right.plot(LEVELS, tokens, "o-", color=colour, ms=4)
    left.set(xlabel="level", ylabel="accuracy, %", xticks=LEVELS)
    right.set(xlabel="level", ylabel="tokens per question", xticks=LEVELS, yscale="log")
    left.legend(frameon=False, loc="lower left")
    fig.savefig(out, metadata={"Date": None})


def _confidence(paths: dict[int, Level], out: Path) -> None:
    import matplotlib.pyplot as plt

    every = [score for here in paths.values() for score in here.right + here.wrong]
    low, high = (float(edge) for edge in np.percentile(every, (0.2, 99.8)))
    bins = np.linspace(low, high, 41)
    fig, axes = plt.subplots(1, len(paths), figsize=(11, 2.6), sharex=True, layout="constrained")
    for ax, (level, here) in zip(axes, paths.items(), strict=True):
        for scores, colour, name in ((here.right, "#1a7f37", "right"), (here.wrong, "#cf222e", "wrong")):
            ax.hist(scores, bins=bins, color=colour, alpha=0.55, label=name)
        ax.set(title=f"level {level}", xlabel="path confidence", yticks=[])
    axes[0].legend(frameon=False)
    fig.savefig(out, metadata={"Date": None})


def main(what: str, file: str, more: str | None = None) -> None:
    """One of the two steps; `more` is the seed of the problems or the folder of the figures."""
    if what == "problems":
        problems(Path(file), SEED if more is None else int(more))
    else:
        paths, table = levels(Path(file)), compared(Path(file))
        show(paths, table)
        draw(paths, table, Path(more or "docs"))


if __name__ == "__main__":
    main(*sys.argv[1:])
