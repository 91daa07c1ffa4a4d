"""Cut the pools that ship from larger ones.

    python scripts/cut_pool.py signals src/sureenough/data/builtin.parquet POOL…
    python scripts/cut_pool.py summaries src/sureenough/data/fresh POOL…

`signals` writes one pool with every n-th question of each POOL, in its order, and all signals; n is the smallest for
which the file is under 3 MB. `summaries` writes all questions of each POOL to a file of its own, with three numbers per
path at the window that the pool suggests instead of signals. src/sureenough/data/README.md has the commands that were
used.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Final

from sureenough.bench.replay import summarise
from sureenough.pools import Pool, Question, write_pool
from sureenough.pools.schema import SUMMARY

MOST_BYTES: Final = 3_000_000


def with_kind(pool: Pool) -> list[Question]:
    """The questions of a pool, with the kind of their answers if it is not the usual one."""
    kind = None if pool.info.kind == "math" else pool.info.kind
    return [replace(question, kind=question.kind or kind) for question in pool]


def cut_signals(out: Path, pools: Sequence[Pool]) -> None:
    """Write the smallest n that fits."""
    questions = [with_kind(pool) for pool in pools]
    info = replace(pools[0].info, dataset=" + ".join(str(pool.info.dataset) for pool in pools), kind="math")
    for n in count(1):
        write_pool(out, (question for own in questions for question in own[::n]), info, optional=["kind"])
        if out.stat().st_size < MOST_BYTES:
            print(f"{out}: every {n}th question, {out.stat().st_size:,} bytes")
            return


def cut_summaries(out: Path, pools: Sequence[Pool]) -> None:
    """Write a file per pool."""
    out.mkdir(exist_ok=True)
    for pool in pools:
        file, made = out / f"{pool.info.dataset}.parquet", (summarise(one, pool.window()) for one in with_kind(pool))
        write_pool(file, made, replace(pool.info, kind="math"), optional=["kind", *SUMMARY])
        print(f"{file}: {file.stat().st_size:,} bytes")


if __name__ == "__main__":
    {"signals": cut_signals, "summaries": cut_summaries}[sys.argv[1]](Path(sys.argv[2]), list(map(Pool, sys.argv[3:])))
