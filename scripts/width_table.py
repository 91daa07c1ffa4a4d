"""Tokens against steps: every strategy at 1, 4, 16 and 64 paths at once, planned and not.

python scripts/width_table.py [POOL.parquet] [--repeats 2]
"""

from __future__ import annotations

import argparse
from pathlib import Path

from sureenough.bench import compare
from sureenough.data import BUILTIN_POOL
from sureenough.strategies import STRATEGIES


def main() -> None:
    """The table, in Markdown: tokens / steps per question, accuracy being the same at any width."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pool", nargs="?", type=Path, default=BUILTIN_POOL)
    parser.add_argument("--repeats", type=int, default=2)
    asked = parser.parse_args()
    names = list(STRATEGIES)
    runs = [(1, False), (4, False), (4, True), (16, False), (16, True), (64, False), (64, True)]
    tables = [compare(asked.pool, names, parallel=p, planned=plan, repeats=asked.repeats).rows for p, plan in runs]
    heads = [f"{p} at once{', planned' if plan else ''}" for p, plan in runs]
    print("| strategy | accuracy % | " + " | ".join(heads) + " |\n|" + "---|" * (len(runs) + 2))
    for i, name in enumerate(names):
        accuracies = {f"{100 * rows[i].accuracy:.1f}" for rows in tables}
        cells = [f"{rows[i].tokens:,.0f} / {rows[i].steps:,.0f}" for rows in tables]
        print(f"| {name} | {' '.join(sorted(accuracies))} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
