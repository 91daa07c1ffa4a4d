"""Cut a sample from a pool, to be kept in the repository: `python -m searcher.sample SAMPLE.parquet POOL.parquet`.

Whole questions, drawn at random from both collections in turn, as many as fit into `--megabytes`.
"""

from __future__ import annotations

import argparse
import random
from collections import defaultdict
from dataclasses import replace
from itertools import chain, zip_longest
from pathlib import Path

from sureenough.pools import Pool, write_pool


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sample", type=Path)
    parser.add_argument("pool", type=Path)
    parser.add_argument("--megabytes", type=float, default=8.0)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def drawn(ids: list[str], seed: int) -> list[str]:
    """All questions in the order in which they are taken: of each collection one, then of each the next."""
    collections: dict[str, list[str]] = defaultdict(list)
    for name in ids:
        collections[name.partition("-")[0]].append(name)
    for names in collections.values():
        random.Random(seed).shuffle(names)
    return [name for name in chain.from_iterable(zip_longest(*collections.values())) if name is not None]


def write_sample(file: Path, source: Path, limit: int, seed: int) -> int:
    """Write as many questions as fit into so many bytes; returns their number."""
    pool = Pool(source)
    order = drawn([question.id for question in pool], seed)
    info = replace(pool.info, dataset=f"{pool.info.dataset}, sample", window=pool.window())
    number = min(len(order), int(len(order) * limit / source.stat().st_size) + 1)
    while number:
        chosen = set(order[:number])
        questions = (question for question in pool if question.id in chosen)
        write_pool(file, questions, info)
        size = file.stat().st_size
        if size <= limit:
            return number
        number = min(number - 1, int(number * limit / size))
    file.unlink(missing_ok=True)
    raise SystemExit(f"not one question of {source} fits into {limit:,} bytes")


def main() -> None:
    """Write the sample, and say what is in it."""
    arguments = options()
    number = write_sample(arguments.sample, arguments.pool, int(arguments.megabytes * 1e6), arguments.seed)
    print(f"{arguments.sample}: {number} questions, {arguments.sample.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
