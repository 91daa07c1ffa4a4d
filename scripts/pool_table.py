"""Several comparisons in one Markdown table: a row a strategy, a column a pool.

sureenough replay A.parquet --json -s "sc ac sure" > a.json
python scripts/pool_table.py a.json b.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def cell(row: dict[str, Any], first: bool) -> str:
    """Accuracy, difference to the first strategy with its interval, tokens per question."""
    accuracy, tokens = f"{100 * row['accuracy']:.1f}", f"{row['tokens'] / 1000:.1f}k"
    if first:
        return f"{accuracy}, {tokens}"
    if row["difference_interval"] == [0.0, 0.0]:
        return f"{accuracy} (no question changed), {tokens}"
    low, high = (round(100 * bound, 1) + 0.0 for bound in row["difference_interval"])
    return f"{accuracy} ({round(100 * row['difference'], 1) + 0.0:+.1f} [{low:+.1f}, {high:+.1f}]), {tokens}"


def main(*files: str) -> None:
    """Print the table."""
    pools = [pool for file in files for pool in json.loads(Path(file).read_text())["pools"]]
    heads = [f"{Path(p['pool']).stem}: {p['rows'][0]['questions']} questions, {p['paths']} paths" for p in pools]
    print("| strategy | " + " | ".join(heads) + " |\n|" + "---|" * (len(pools) + 1))
    for i, row in enumerate(pools[0]["rows"]):
        print(f"| {row['strategy']} | " + " | ".join(cell(pool["rows"][i], i == 0) for pool in pools) + " |")


if __name__ == "__main__":
    main(*sys.argv[1:])
