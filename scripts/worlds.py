"""Made-up worlds in which the truth about confidence is known: what `sure` loses against plain voting in each.

    python scripts/worlds.py [--questions 300] [--orders 2]

Confidence is informative, shuffled or inverted; questions are easy, contested or hopeless. A row a world: accuracy of
`sc`, then the difference and the tokens saved for `ac`, `sure`, and `sure` under its guard.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Final

import numpy as np

from sureenough.bench import compare
from sureenough.pools import PoolInfo, Question, RecordedPath, write_pool

TAILS: Final = {"informative": 0.8, "shuffled": 0.0, "inverted": -0.8}
"""By how many standard deviations right paths end more confident than wrong ones."""

CHANCES: Final = {
    "easy": (0.75, 0.1),  # share of right paths, share of the strongest wrong answer
    "contested": (0.36, 0.33),
    "hopeless": (0.05, 0.06),
}
LENGTH: Final = 32


def world(confidence: str, difficulty: str, questions: int, seed: int) -> list[Question]:
    """Questions of 64 paths each; every question's chances vary a little around the world's."""
    rng = np.random.default_rng(seed)
    right, rival = CHANCES[difficulty]
    made = []
    for q in range(questions):
        shares = np.array([right, rival, *[(1 - right - rival) / 20] * 20])
        shares = rng.dirichlet(40 * shares)
        answers = rng.choice(len(shares), size=64, p=shares)
        tails = rng.normal(9, 1, 64) + np.where(answers == 0, TAILS[confidence], 0.0)
        paths = [
            RecordedPath("right" if a == 0 else f"wrong {a}", np.full(LENGTH, 0.5), np.full(LENGTH, tail))
            for a, tail in zip(answers, tails, strict=True)
        ]
        made.append(Question(f"{confidence}-{difficulty}-{q}", "right", None, paths))
    return made


def main() -> None:
    """The table, in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=300)
    parser.add_argument("--orders", type=int, default=2)
    asked = parser.parse_args()
    print("| confidence | questions | sc % | ac | sure | sure, guarded |\n|---|---|---|---|---|---|")
    for confidence in TAILS:
        for difficulty in CHANCES:
            print(row(confidence, difficulty, asked.questions, asked.orders), flush=True)


def row(confidence: str, difficulty: str, questions: int, orders: int) -> str:
    """One world."""
    with tempfile.TemporaryDirectory() as folder:
        pool = Path(folder) / "world.parquet"
        write_pool(pool, world(confidence, difficulty, questions, seed=7), PoolInfo(window=8))
        bare = compare(pool, ["sc", "ac", "sure"], repeats=orders).rows
        guarded = compare(pool, ["sc", "sure"], repeats=orders, guard=True).rows[1]
    cells = [
        f"{100 * r.difference:+.1f} [{100 * r.difference_interval.low:+.1f}, {100 * r.difference_interval.high:+.1f}], "
        f"{r.saving:.1f}x"
        for r in (bare[1], bare[2], guarded)
    ]
    return f"| {confidence} | {difficulty} | {100 * bare[0].accuracy:.1f} | " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
