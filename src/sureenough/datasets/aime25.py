"""AIME 2025, both papers: 30 problems. Some copies hold one paper only, which the count refuses."""

from __future__ import annotations

from sureenough.datasets.dataset import Dataset, Hub

AIME25 = Dataset(
    "aime25",
    "AIME of 2025, papers I and II (problems (c) MAA)",
    count=30,
    hub=Hub("math-ai/aime25", "test.jsonl", "test"),
    numeric=True,
)
