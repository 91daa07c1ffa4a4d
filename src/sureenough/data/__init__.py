"""Files that ship with the package."""

from __future__ import annotations

from pathlib import Path
from typing import Final

BUILTIN_POOL: Final = Path(__file__).with_name("builtin.parquet")
"""Recorded paths of a small real model; README.md beside it says what they are."""
FRESH: Final = BUILTIN_POOL.with_name("fresh")
"""A folder: 616 questions of five sets on which nothing was ever chosen, three numbers per path instead of signals."""
FRESH_POOLS: Final = tuple(
    FRESH / f"{name}.parquet" for name in ("gsm8k-fresh", "mmlu-stem", "gaokao", "college", "olympiad")
)
"""Its sets, one file each."""
PROBLEMS: Final = Path(__file__).with_name("problems.csv")
"""Generated problems that the built-in model can solve."""
PROBLEMS_POOL: Final = PROBLEMS.with_suffix(".parquet")
"""Its recorded paths on these problems, with all texts."""
ARITHMETIC: Final = Path(__file__).with_name("arith.csv")
"""The dataset `arith`: generated problems in five levels."""
REASONER: Final = Path(__file__).with_name("reasoner.gguf")
"""The built-in model; reasoner.json beside it has its checksum and what it suggests."""
