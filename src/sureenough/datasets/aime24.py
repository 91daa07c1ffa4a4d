"""AIME 2024, both papers: 30 problems, answers from 000 to 999."""

from __future__ import annotations

from sureenough.datasets.dataset import Dataset, Hub

AIME24 = Dataset(
    "aime24",
    "AIME of 2024, papers I and II (problems (c) MAA)",
    count=30,
    hub=Hub("HuggingFaceH4/aime_2024", "data/train-00000-of-00001.parquet", "train"),
    numeric=True,
)
