"""Grading by math-verify: the library itself, in a process that may hang, die or be missing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import sureenough as se
from sureenough.bench import published_grader
from sureenough.bench.judging import judge_question
from sureenough.bench.published_grader import MathVerify
from sureenough.errors import UsageError
from sureenough.pools import Pool
from tests.bench.making import pool_of
from tests.processes import sureenough

pytest.importorskip("math_verify")
GOLD, ANSWER = r"1+\sqrt2", r"\sqrt{3+2\sqrt2}"  # equal, and beyond our own arithmetic


@pytest.fixture(scope="module")
def grader() -> Iterator[MathVerify]:
    with closing(MathVerify()) as own:
        yield own


def pool(folder: Path, *answers: str, gold: str = GOLD, kind: str = "math") -> Path:
    return pool_of(folder, answers, gold=gold, tokens=3, window=2, kind=kind)


@pytest.mark.parametrize(
    ("gold", "answer", "right"),
    [
        (GOLD, ANSWER, True),
        (r"\sin 2x", r"2\sin x\cos x", True),
        ("1/2", "0.5", True),
        (r"\{1,2\}", r"\{2,1\}", True),
        ("5", "500", False),
        ("5", "", False),
        ("5", "}{ \\boxed{", False),
        ("x", "\ud800\n\x00", False),
    ],
)
def test_the_library_grades(grader: MathVerify, gold: str, answer: str, right: bool) -> None:
    assert grader(gold, answer) is right
    assert grader.lost == 0


def test_votes_do_not_change(tmp_path: Path) -> None:
    file = pool(tmp_path, ANSWER, ANSWER, GOLD)
    own, theirs = (se.compare(file, ["sc"], grader=name) for name in ("own", "math-verify"))
    assert (own.rows[0].accuracy, theirs.rows[0].accuracy) == (0.0, 1.0)
    assert own.rows[0].tokens == theirs.rows[0].tokens
    assert [note for note in theirs.notes if "math-verify 0." in note and "votes do not use it" in note]
    (question,) = Pool(file)
    with closing(MathVerify()) as grader:
        judged = judge_question(question, "meaning", grader=grader)
    assert judged.classes == {ANSWER: 0, GOLD: 1}


def test_letters_are_graded_as_letters(tmp_path: Path) -> None:
    file = pool(tmp_path, "b", gold="B", kind="choice")
    assert se.compare(file, ["sc"], grader="math-verify").rows[0].accuracy == pytest.approx(1.0)


def test_an_answer_that_hangs_is_wrong_and_the_next_one_is_graded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(published_grader, "SECONDS", 0.5)
    file = pool(tmp_path, r"(9^{9^{9}})!", gold="5")
    with closing(MathVerify()) as grader:
        began = time.monotonic()
        (question,) = Pool(file)
        judged = judge_question(question, "meaning", grader=grader)
        assert time.monotonic() - began < 100
        assert (judged.right, judged.lost) == ({r"(9^{9^{9}})!": False}, 1)
        monkeypatch.setattr(published_grader, "SECONDS", 60.0)
        assert grader(GOLD, ANSWER)


def test_a_process_that_dies_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(MathVerify()) as grader:
        assert grader("1", "1.0")
        for kill in (True, False):
            child = grader._child
            assert child is not None
            child.kill()
            if kill:
                child.wait()
            grader("1", "1.0")
        assert grader("1", "1.0")
        assert grader.lost <= 1


def test_what_does_not_start_is_a_clear_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("raise ImportError")
    monkeypatch.setattr(published_grader, "__file__", str(broken))
    with pytest.raises(UsageError, match="math-verify does not work here"):
        MathVerify()("1", "1")


def test_a_package_that_is_not_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sureenough.bench.judging.math_verify_version", lambda: None)
    with pytest.raises(UsageError, match=r"math-verify is not installed: pip install 'sureenough\[bench\]'"):
        se.compare(pool(tmp_path, "1"), ["sc"], grader="math-verify")
    with pytest.raises(UsageError, match="grader is 'sympy'"):
        se.compare(pool(tmp_path, "1"), ["sc"], grader="sympy")  # type: ignore[arg-type]


def test_the_command_line(tmp_path: Path) -> None:
    file = str(pool(tmp_path, ANSWER, ANSWER))
    done = sureenough("replay", file, "-s", "sc", "--grader", "math-verify", "--jobs", "2")
    assert done.returncode == 0, done.stderr
    assert "graded by math-verify 0." in done.stdout
    output = ("-o", str(tmp_path / "run"))
    done = sureenough("bench", "main", "--pool", file, "-s", "sc", "--grader", "math-verify", *output)
    assert done.returncode == 0, done.stderr
    assert "graded by math-verify 0." in done.stdout
    done = sureenough("bench", "main", "--dataset", "arith", "--live", "--grader", "math-verify", *output)
    assert done.returncode == 2
    assert "live runs are graded by the kind of their answers" in done.stderr
