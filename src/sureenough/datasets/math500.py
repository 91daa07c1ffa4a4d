"""MATH-500: the 500 problems of MATH that "Let's Verify Step by Step" tested on."""

from __future__ import annotations

from sureenough.datasets.dataset import Dataset, Hub, renamed

MATH500 = Dataset(
    "math500",
    "MATH-500, competition mathematics in five levels (MIT)",
    count=500,
    hub=Hub("HuggingFaceH4/MATH-500", "test.jsonl", "test"),
    read=renamed(id="unique_id"),
)
