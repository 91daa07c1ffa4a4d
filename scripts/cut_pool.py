"""Cut a small pool from larger ones: every n-th question of each, all its paths up to a number.

    python scripts/cut_pool.py out.parquet gsm8k-dev.parquet:6 math500-dev.parquet:10

made `src/sureenough/data/builtin.parquet` (its data card stands beside it).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from sureenough.pools import Pool, Question, write_pool


def cut(pool: Pool, every: int) -> Iterator[Question]:
    """Every n-th question, from the first."""
    for i, question in enumerate(pool):
        if i % every == 0:
            yield question


def main(out: str, *sources: str) -> None:
    """Write the cut pool."""
    named = [source.rpartition(":") for source in sources]
    pools = [(Pool(file), int(every)) for file, _, every in named]
    info = replace(pools[0][0].info, dataset=" + ".join(str(pool.info.dataset) for pool, _ in pools))
    info.sampling["max_tokens"] = max(pool.info.sampling["max_tokens"] for pool, _ in pools)
    write_pool(Path(out), (question for pool, every in pools for question in cut(pool, every)), info)


if __name__ == "__main__":
    main(*sys.argv[1:])
