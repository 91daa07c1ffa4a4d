"""Made-up worlds in which the truth about confidence is known: what `sure` gains or loses by its learned weights.

    python scripts/worlds.py [--questions 200] [--repeats 20] [--jobs 1] [--mix mixed]

In each world right paths differ from wrong ones in the tail, in the mean peak, in both or in neither; if confidence
drifts, it changes from informative to inverted over the questions. One row per world: accuracy of `sure` without
weights, then the paired difference and the tokens saved for `sure` with learned weights and with the fixed weight on
the tail. It exits with code 1 if learned weights lose more than a point in any world.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Final

import numpy as np

from sureenough.bench import Row, compare
from sureenough.pools import PoolInfo, Question, RecordedPath, write_pool

WORLDS: Final = {
    "informative": ((0.8, 0.8), (0.8, 0.8)),
    "shuffled": ((0.0, 0.0), (0.0, 0.0)),
    "inverted": ((-0.8, -0.8), (-0.8, -0.8)),
    "only the tail": ((0.8, 0.8), (0.0, 0.0)),
    "only the peak": ((0.0, 0.0), (0.8, 0.8)),
    "tail informative, peak inverted": ((0.8, 0.8), (-0.8, -0.8)),
    "fading": ((0.8, 0.0), (0.8, 0.0)),
    "drifting": ((0.8, -0.8), (0.8, -0.8)),
}
"""Standard deviations by which right paths exceed wrong ones in tail and mean peak, at the first question and at the
last one."""

CHANCES: Final = {
    "easy": (0.75, 0.1),  # share of right paths, share of the strongest wrong answer
    "contested": (0.36, 0.33),
    "hopeless": (0.05, 0.06),
}
MIXES: Final = {"mixed": tuple(CHANCES), "contested": ("contested",)}
PATHS: Final = 32
LENGTH: Final = 8
STRATEGIES: Final = ("sure:weigh=count", "sure", "sure:weigh=tail,beta=0.6")


def world(name: str, mix: str, questions: int, seed: int) -> list[Question]:
    """Questions of 32 paths each; every question's chances vary a little around those of its difficulty."""
    rng = np.random.default_rng(seed)
    made = []
    for number in range(questions):
        right, rival = CHANCES[MIXES[mix][number % len(MIXES[mix])]]
        shares = rng.dirichlet(40 * np.array([right, rival, *[(1 - right - rival) / 20] * 20]))
        answers = rng.choice(len(shares), size=PATHS, p=shares)
        advantages = [first + (last - first) * number / max(1, questions - 1) for first, last in WORLDS[name]]
        tails, peaks = (rng.normal(0, 1, PATHS) + np.where(answers == 0, gap, 0.0) for gap in advantages)
        paths = [
            RecordedPath("right" if a == 0 else f"wrong {a}", np.full(LENGTH, 0.5 + peak / 20), np.full(LENGTH, tail))
            for a, tail, peak in zip(answers, 9 + tails, peaks, strict=True)
        ]
        made.append(Question(f"{name}-{mix}-{number}", "right", None, paths))
    return made


def rows(name: str, mix: str, questions: int, repeats: int, jobs: int) -> list[Row]:
    """One world under the three strategies."""
    with tempfile.TemporaryDirectory() as folder:
        pool = Path(folder) / "world.parquet"
        write_pool(pool, world(name, mix, questions, seed=7), PoolInfo(window=LENGTH))
        return compare(pool, STRATEGIES, repeats=repeats, jobs=jobs).rows


def main() -> None:
    """The table, in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--mix", choices=MIXES, action="append", help="mixed, contested; by default both")
    options = parser.parse_args()
    print("| confidence | questions | without weights % | learned | r of tail, peak | tail 0.6 |")
    print("|---|---|---|---|---|---|")
    worst = 0.0
    for name in WORLDS:
        for mix in options.mix or MIXES:
            plain, learned, tail = rows(name, mix, options.questions, options.repeats, options.jobs)
            worst = min(worst, learned.difference)
            r = ", ".join(f"{signal['r']:+.2f}" for signal in (learned.learned or {}).values())
            accuracy = f"{100 * plain.accuracy:.1f}, {plain.saving:.1f}x"
            print(f"| {name} | {mix} | {accuracy} | {_cell(learned)} | {r} | {_cell(tail)} |", flush=True)
    print(f"\nLargest loss by learning: {-100 * worst:.1f} points.")
    sys.exit(int(worst < -0.01))


def _cell(row: Row) -> str:
    low, high = (100 * bound for bound in row.difference_interval)
    return f"{100 * row.difference:+.1f} [{low:+.1f}, {high:+.1f}], {row.saving:.1f}x"


if __name__ == "__main__":
    main()
