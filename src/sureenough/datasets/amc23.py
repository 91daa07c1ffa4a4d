"""AMC 2023: 40 problems of the American Mathematics Competitions with a number as their answer."""

from __future__ import annotations

from sureenough.datasets.dataset import Dataset, Hub

AMC23 = Dataset(
    "amc23",
    "AMC 12 of 2023 (problems (c) MAA)",
    count=40,
    hub=Hub("math-ai/amc23", "data/test-00000-of-00001.parquet", "test"),
    numeric=True,
)
