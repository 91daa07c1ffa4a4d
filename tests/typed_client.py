"""A client as type checkers see it: mypy checks this file with the others, pyright in `.ci/package`, neither runs it.

Both read the annotations of the package, by its `py.typed`. Wrong calls must be errors: an ignore that is not
needed is one itself.
"""

# pyright: strict, reportUnnecessaryTypeIgnoreComment=true
from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Literal, assert_type

import sureenough as se


class Verdict:
    """A judge without a base class."""

    def extract(self, text: str) -> str | None:
        return text.strip() or None

    def classes(self, answers: Sequence[str]) -> Sequence[Hashable | None]:
        return answers

    def grade(self, gold: str, answer: str) -> bool:
        return gold == answer


def ask_one() -> None:
    engine = se.OpenAI("http://localhost:8000/v1", model="Qwen/Qwen3-4B")
    out = se.ask("What is 7^2025 mod 100?", engine, "ddc:tau=0.99", paths=64, kind=Verdict())
    assert_type(out, se.Outcome)
    assert_type(out.answer, str | None)
    assert_type(out.votes, dict[str, float])
    assert_type(out.tokens.total, int)
    assert_type(
        out.reason, Literal["settled", "budget", "max_tokens", "deadline", "interrupted", "engine", "no_answer"]
    )
    se.ask("?", engine, path=64)  # type: ignore[call-arg]
    se.ask("?", engine, paths="64")  # type: ignore[arg-type]
    se.ask("?", "http://localhost:8000/v1")  # type: ignore[arg-type]


async def ask_many() -> None:
    assert_type(await se.aask("?", se.Local(), se.STRATEGIES["sc"]), se.Outcome)


def compare_two() -> None:
    for row in se.compare("pool.parquet", ["sc", "sure"], repeats=5):
        assert_type(row, se.Row)
        assert_type(row.accuracy, float)
        assert_type(row.tokens, float)
    paths = [se.RecordedPath(answer="42", peak=[0.9], conf=[12.0])]
    assert_type(se.replay(paths, "sc"), se.Outcome)
    for question in se.Pool("pool.parquet"):
        assert_type(question.paths, list[se.RecordedPath])
