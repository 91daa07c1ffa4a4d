"""Datasets by name; any other is a file of questions."""

from __future__ import annotations

from typing import Final

from sureenough.bench.datasets.aime24 import AIME24
from sureenough.bench.datasets.aime25 import AIME25
from sureenough.bench.datasets.amc23 import AMC23
from sureenough.bench.datasets.arith import ARITH
from sureenough.bench.datasets.dataset import Dataset, Hub
from sureenough.bench.datasets.gpqa_diamond import GPQA_DIAMOND
from sureenough.bench.datasets.gsm8k import GSM8K
from sureenough.bench.datasets.math500 import MATH500

DATASETS: Final[dict[str, Dataset]] = {
    "math500": MATH500,
    "amc23": AMC23,
    "aime24": AIME24,
    "aime25": AIME25,
    "gpqa-diamond": GPQA_DIAMOND,
    "gsm8k": GSM8K,
    "arith": ARITH,
}

__all__ = ["DATASETS", "Dataset", "Hub"]
