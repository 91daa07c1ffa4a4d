"""GSM8K's test set: grade-school word problems. The hub's answers are solutions that end in `#### 18`."""

from __future__ import annotations

from sureenough.datasets.dataset import Dataset, Hub, Row


def read(row: Row, seed: int) -> Row:
    """Its answer is what follows the last ####; without any it is bare already."""
    answer = row.get("answer")
    return row if not isinstance(answer, str) else {**row, "answer": answer.rpartition("####")[2].strip()}


GSM8K = Dataset(
    "gsm8k",
    "GSM8K, grade-school word problems, the test set (MIT)",
    count=1319,
    hub=Hub("openai/gsm8k", "main/test-00000-of-00001.parquet", "test", "main"),
    read=read,
    numeric=True,
)
