"""The datasets that are known by name: where their rows come from, how a row is read, what their answers are.

To add one, make a `Dataset` and name it in the dict at the end. Those of the Hugging Face hub are pinned to a commit:
they never change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

from sureenough.answers import Judge, resolve_kind
from sureenough.data import ARITHMETIC
from sureenough.datasets.files import DatasetProblem, Row, load
from sureenough.errors import UsageError


@dataclass(frozen=True, slots=True)
class Hub:
    """A file of a dataset on the Hugging Face hub, at one commit."""

    id: str
    file: str
    revision: str  # the full hash: branches and tags can move


@dataclass(frozen=True, slots=True)
class Dataset:
    """Questions with known answers."""

    name: str
    about: str  # one line: what it is, and its licence
    count: int | None = None  # questions in a complete copy
    hub: Hub | None = None
    read: Callable[[Row, int], Row] = lambda row, seed: row  # to our columns, see files.COLUMNS; the seed shuffles
    make: Callable[[int], list[DatasetProblem]] | None = None  # the questions themselves; the seed may choose them
    template: str | None = None  # by default what the kind of answer asks for
    kind: str = "math"  # of answer, unless a row has its own
    graded: bool = True  # every question has an answer
    hidden: bool = False  # its authors ask not to publish the questions: they are never printed or stored

    def judge(self, problem: DatasetProblem) -> Judge:
        return resolve_kind(problem.kind or self.kind)


def renamed(**columns: str) -> Callable[[Row, int], Row]:
    """A reader for files that name a column differently: `renamed(id="unique_id")`."""

    def read(row: Row, seed: int) -> Row:
        return {**row, **{ours: row[column] for ours, column in columns.items() if column in row}}

    return read


GPQA_RIGHT: Final = "Correct Answer"
GPQA_WRONG: Final = ("Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3")


def read_gpqa(row: Row, seed: int) -> Row:
    """The question with its choices below it, shuffled by the seed and the question; the gold answer is a letter."""
    missing = [name for name in ("Question", GPQA_RIGHT, *GPQA_WRONG) if not str(row.get(name) or "").strip()]
    if missing:
        raise UsageError(f"no {missing[0]!r}; a row of GPQA has Question, {GPQA_RIGHT} and {', '.join(GPQA_WRONG)}")
    question = str(row["Question"]).strip()
    choices = [str(row[name]).strip() for name in (GPQA_RIGHT, *GPQA_WRONG)]
    order = Random(f"{seed} {question}").sample(range(4), 4)  # by the question: a subset shuffles as the whole does
    lines = [f"{letter}) {choices[i]}" for letter, i in zip("ABCD", order, strict=True)]
    record_id = {"id": row["Record ID"]} if row.get("Record ID") else {}
    return {**record_id, "question": question + "\n\n" + "\n".join(lines), "gold": "ABCD"[order.index(0)]}


def read_gsm8k(row: Row, seed: int) -> Row:
    """The hub's answers are solutions that end in `#### 18`; one without the mark is the bare answer."""
    answer = row.get("answer")
    return row if not isinstance(answer, str) else {**row, "answer": answer.rpartition("####")[2].strip()}


MATH500: Final = Dataset(
    "math500",
    "MATH-500, competition mathematics in five levels (MIT)",
    count=500,
    hub=Hub("HuggingFaceH4/MATH-500", "test.jsonl", "6e4ed1a2a79af7d8630a6b768ec859cb5af4d3be"),
    read=renamed(id="unique_id"),
)
AMC23: Final = Dataset(
    "amc23",
    "AMC 12 of 2023 (problems (c) MAA)",
    count=40,
    hub=Hub("math-ai/amc23", "test-00000-of-00001.parquet", "80815d37005feb82cd7f8fbc6901d5d3eff43057"),
)
AIME24: Final = Dataset(
    "aime24",
    "AIME of 2024, papers I and II (problems (c) MAA)",
    count=30,
    hub=Hub("HuggingFaceH4/aime_2024", "data/train-00000-of-00001.parquet", "2fe88a2f1091d5048c0f36abc874fb997b3dd99a"),
)
AIME25: Final = Dataset(
    "aime25",
    "AIME of 2025, papers I and II (problems (c) MAA)",
    count=30,
    hub=Hub("math-ai/aime25", "test.jsonl", "563bb8404243c5f09de6ec262f2db674fe5bce9b"),
)
GPQA_DIAMOND: Final = Dataset(
    "gpqa-diamond",
    "GPQA-diamond, graduate-level choices (CC-BY-4.0, gated: accept its terms on the hub first)",
    count=198,
    hub=Hub("Idavidrein/gpqa", "gpqa_diamond.csv", "633f5ee89ab8ad4522a9f850766b73f62147ffdd"),
    read=read_gpqa,
    template="{question}\n\nPlease reason step by step, and put the letter of your final answer within \\boxed{{}}.",
    kind="choice:letters=ABCD",
    hidden=True,
)
GSM8K: Final = Dataset(
    "gsm8k",
    "GSM8K, grade-school word problems, the test set (MIT)",
    count=1319,
    hub=Hub("openai/gsm8k", "main/test-00000-of-00001.parquet", "740312add88f781978c0658806c59bc2815b9866"),
    read=read_gsm8k,
)
ARITH: Final = Dataset(
    "arith",
    "Arithmetic in five levels, made by a program",
    count=200,
    make=lambda seed: load(ARITHMETIC),
)

DATASETS: Final = {one.name: one for one in (MATH500, AMC23, AIME24, AIME25, GPQA_DIAMOND, GSM8K, ARITH)}
