"""Datasets by name; any other is a file of questions."""

from __future__ import annotations

from typing import Final

from sureenough.datasets.aime24 import AIME24
from sureenough.datasets.aime25 import AIME25
from sureenough.datasets.amc23 import AMC23
from sureenough.datasets.arith import ARITH
from sureenough.datasets.dataset import Dataset, Hub
from sureenough.datasets.gpqa_diamond import GPQA_DIAMOND
from sureenough.datasets.gsm8k import GSM8K
from sureenough.datasets.math500 import MATH500

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
