"""Judged answers: by meaning or by string."""

from __future__ import annotations

from pathlib import Path

import pytest

import sureenough as se
from sureenough.bench.judging import judge_question
from sureenough.errors import UsageError
from sureenough.pools import Pool
from tests.bench.making import pool_of

ANSWERS = ["1/2", "0.5", "7", r"\frac12", None, "7.0", "1/3"]


def pool(folder: Path, answers: list[str | None] | None = None) -> Path:
    return pool_of(folder, answers or ANSWERS, gold="0.50", tokens=3, window=2)


def test_answers_are_grouped_and_graded_by_meaning(tmp_path: Path) -> None:
    (question,) = Pool(pool(tmp_path))
    judged = judge_question(question, "meaning")
    assert judged.classes == {"1/2": 0, "0.5": 0, "7": 1, r"\frac12": 0, "7.0": 1, "1/3": 2}
    assert judged.right == {"1/2": True, "0.5": True, "7": False, r"\frac12": True, "7.0": False, "1/3": False}


def test_by_string_only_the_vote_changes(tmp_path: Path) -> None:
    (question,) = Pool(pool(tmp_path))
    judged = judge_question(question, "string")
    assert len(set(judged.classes.values())) == 6
    assert judged.right is not None
    assert judged.right[r"\frac12"]
    by_string = se.compare(pool(tmp_path, ["7", "7", "1/2", "0.5", r"\frac12"]), ["sc"], equal="string")
    by_meaning = se.compare(pool(tmp_path, ["7", "7", "1/2", "0.5", r"\frac12"]), ["sc"])
    assert (by_string.rows[0].accuracy, by_meaning.rows[0].accuracy) == (0.0, 1.0)
    assert any("strings are equal" in note for note in by_string.notes)


def test_what_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="equal is 'colour'"):
        se.compare(pool(tmp_path), ["sc"], equal="colour")  # type: ignore[arg-type]
