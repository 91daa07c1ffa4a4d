"""GPQA-diamond: graduate questions with four choices, shuffled by a seed of their own for every question.

Its authors ask that the text is not published: it is never printed, and pools of it keep no text.
"""

from __future__ import annotations

from random import Random
from typing import Final

from sureenough.datasets.dataset import Dataset, Hub, Row
from sureenough.errors import UsageError

RIGHT: Final = "Correct Answer"
WRONG: Final = ("Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3")


def read(row: Row, seed: int) -> Row:
    """The question with its choices under it; the gold answer is a letter."""
    missing = [name for name in ("Question", RIGHT, *WRONG) if not str(row.get(name) or "").strip()]
    if missing:
        raise UsageError(f"has no {missing[0]!r}; a row of GPQA has Question, {RIGHT} and {', '.join(WRONG)}")
    question = str(row["Question"]).strip()
    choices = [str(row[name]).strip() for name in (RIGHT, *WRONG)]
    order = Random(f"{seed} {question}").sample(range(4), 4)  # by the question, so that order and subsets are free
    lines = [f"{letter}) {choices[i]}" for letter, i in zip("ABCD", order, strict=True)]
    known = {"id": row["Record ID"]} if row.get("Record ID") else {}
    return {**known, "question": question + "\n\n" + "\n".join(lines), "gold": "ABCD"[order.index(0)]}


GPQA_DIAMOND = Dataset(
    "gpqa-diamond",
    "GPQA-diamond, graduate-level choices (CC-BY-4.0, gated: accept its terms on the hub first)",
    count=198,
    hub=Hub("Idavidrein/gpqa", "gpqa_diamond.csv", "train", "gpqa_diamond"),
    read=read,
    template="{question}\n\nPlease reason step by step, and put the letter of your final answer within \\boxed{{}}.",
    kind="choice",
    hidden=True,
)
