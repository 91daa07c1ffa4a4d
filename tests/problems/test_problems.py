"""Generated problems: the same for ever, and their gold answers right by another road."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest
from arithmetic import FAMILIES, LEVELS, GeneratedProblem, generate

import sureenough as se
from sureenough import reasoner
from sureenough.data import ARITHMETIC, PROBLEMS
from sureenough.datasets.load import load
from tests.problems.reckon import reckon

MANY = [problem for level in LEVELS for problem in generate(level, seed=5, n=400)]


def of(family: str) -> list[GeneratedProblem]:
    return [problem for problem in MANY if problem.family == family]


def plain(question: str) -> str:
    """The expression in a question about one, in Python's signs."""
    text = re.sub(r"^(What is|Compute|Calculate|Evaluate|How much is) ", "", question)
    text = re.sub(r"( = )?[?.]?$", "", text)
    for word, sign in {
        "plus": "+",
        "minus": "-",
        "times": "*",
        "divided by": "/",
        "×": "*",
        "÷": "/",
        " x ": "*",
    }.items():
        text = text.replace(word, sign)
    return text


def test_they_are_the_same_for_ever() -> None:
    assert [(p.id, p.question, p.gold) for p in generate(5, seed=7, n=2)] == [
        ("arith-5-7-0", "228 + 77 * 17 + (857 + 480) * 723 + (258 + 303) = ?", "968749"),
        ("arith-5-7-1", "Solve for x: 47(60x+145)+992x+9085=1990x+393054.", "207"),
    ]
    assert generate(3, seed=1, n=40)[:10] == generate(3, seed=1, n=10)
    assert generate(3, seed=1, n=10) != generate(3, seed=2, n=10)


@pytest.mark.parametrize("file", [ARITHMETIC, PROBLEMS])
def test_questions_that_ship_are_generated(file: Path) -> None:
    for problem in load(str(file)).problems:
        level, seed, number = map(int, problem.id.split("-")[1:])
        made = generate(level, seed, number + 1)[-1]
        assert (problem.question, problem.gold, problem.level) == (made.question, made.gold, made.level)


def test_the_words_that_the_model_knows_are_those_of_its_problems() -> None:
    questions = [problem.question for level in LEVELS for problem in generate(level, n=300)]
    words = {word for question in questions for word in reasoner.WORDS.findall(question.lower())}
    numbers = {word for word in words if word.isdigit()}
    assert reasoner.card().words == words - numbers
    assert (reasoner.card().longest_number, reasoner.card().example) == (max(map(len, numbers)), questions[0])


def test_every_level_has_every_family_and_no_question_twice() -> None:
    assert {(p.level, p.family) for p in MANY} == {(level, family) for level in LEVELS for family in FAMILIES}
    for level in LEVELS:
        questions = [p.question for p in MANY if p.level == level]
        assert len(set(questions)) == len(questions) == 400
    assert len({p.id for p in MANY}) == len(MANY)


@pytest.mark.parametrize("problem", of("nested")[::3], ids=lambda p: p.id)
def test_nested_answers_are_right(problem: GeneratedProblem) -> None:
    assert reckon(plain(problem.question)) == int(problem.gold) >= 0


@pytest.mark.parametrize("problem", of("linear")[::3], ids=lambda p: p.id)
def test_linear_answers_solve_their_equation(problem: GeneratedProblem) -> None:
    text = re.sub(r"(Solve for x:|Solve|Find x if|If|What is x when|for x|, what is x|[?.])", "", problem.question)
    sides = re.sub(r"(\d|\))\s*([x(])", r"\1*\2", text).split("=")
    left, right = (reckon(side, x=int(problem.gold)) for side in sides)
    assert left == right
    more, other = (reckon(side, x=int(problem.gold) + 1) for side in sides)
    assert more != other


@pytest.mark.parametrize("problem", of("remainder")[::3], ids=lambda p: p.id)
def test_remainders_are_right(problem: GeneratedProblem) -> None:
    *number, divisor = re.findall(r"[\d()*+]+", problem.question)
    assert reckon("".join(number)) % int(divisor) == int(problem.gold)


@pytest.mark.parametrize("problem", of("words")[::3], ids=lambda p: p.id)
def test_stories_add_up(problem: GeneratedProblem) -> None:
    there = 0
    for sentence in re.split(r"(?<=[.?]) ", problem.question):
        numbers = [int(number) for number in re.findall(r"\d+", sentence)]
        if "dollars each" in sentence:
            there *= numbers[0]
        elif re.search(r"gives|sells|loses", sentence):
            there -= numbers[0]
            assert there > 0
        elif numbers:
            there += numbers[0] * (numbers[1] if len(numbers) > 1 else 1)
    assert there == int(problem.gold)


def test_levels_grow() -> None:
    lengths = [sum(len(p.question) for p in MANY if p.level == level) for level in LEVELS]
    assert all(a < b for a, b in pairwise(lengths))


@pytest.mark.parametrize(("level", "n"), [(0, 1), (6, 1), (1, -1), (1, 10_000)])
def test_what_is_not_there_is_refused(level: int, n: int) -> None:
    with pytest.raises(se.UsageError, match=r"known levels: 1, 2, 3, 4, 5|0 to 2,000"):
        generate(level, n=n)


def test_the_easiest_level_does_not_run_out() -> None:
    assert len(generate(1, seed=0, n=2000)) == 2000
