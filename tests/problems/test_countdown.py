"""Countdown: answers right by exhaustive search, and expressions checked whatever their text is."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sureenough as se
from sureenough.datasets.load import load
from sureenough.problems import LEVELS, countdown, generate
from sureenough.problems.countdown import Countdown, check
from sureenough.problems.expressions import LONGEST, read
from tests.problems.reckon import reckon

GAME = Countdown((3, 7, 12, 25), 87)


def exhaustive(numbers: tuple[int, ...]) -> set[int]:
    """Every result, by trying every pair in every state, without sharing anything."""
    results = set(numbers)
    for i, j in combinations(range(len(numbers)), 2):
        a, b = sorted((numbers[i], numbers[j]))
        rest = numbers[:i] + numbers[i + 1 : j] + numbers[j + 1 :]
        made = [a + b, b - a, a * b, b // a if b % a == 0 else 0]
        for result in made:
            if 1 <= result <= countdown.MOST:
                results |= exhaustive((*rest, result))
    return results


def test_problems_stay_the_same() -> None:
    assert [(p.id, p.question, p.gold) for p in generate(1, 0, 1, "countdown")] == [
        (
            "countdown-1-0-0",
            "From the numbers 5, 6, 8, 10, what is the largest number up to 41 that can be made? "
            "Use each at most once, with + - * /, and only whole numbers from 1 to 999.",
            "40",
        )
    ]


@pytest.mark.parametrize("level", [1, 2, 3])
def test_the_answer_is_the_largest_of_all_results(level: int) -> None:
    for problem in generate(level, 3, 6, "countdown"):
        given_numbers, _, rest = problem.question.removeprefix("From the numbers ").partition(", what")
        numbers = tuple(map(int, given_numbers.split(", ")))
        limit = int(rest.split("up to ")[1].split()[0])
        results = exhaustive(numbers)
        assert int(problem.gold) == max(result for result in results if result <= limit)
        assert set(countdown.reachable(numbers)) == results


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("3*25+12", 87),
        (" ( 25 - 12 ) * 7 ", 91),
        ("25×3", 75),
        ("12÷3", 4),
        ("25-12-7", 6),
        ("25-(12-7)", 20),
        ("7", 7),
        ("25/3", None),  # not whole
        ("7/3*12", None),  # not whole on the way
        ("3-7+25", None),  # below 1 on the way
        ("25*12*7", None),  # too large
        ("25*25", None),  # used twice
        ("24+3", None),  # not given
        ("12/(3-3)", None),
        ("-3+7", None),
        ("3 7", None),
        ("3+", None),
        ("(3+7", None),
        ("3+7)", None),
        ("()", None),
        ("", None),
        ("3**7", None),
        ("３+７", None),
        ("3e1", None),
        ("__import__('os').abort()", None),
        ("(" * 10_000, None),
        ("9" * 10_000, None),
    ],
)
def test_expressions_are_checked(expression: str, value: int | None) -> None:
    assert check(expression, GAME) == value


@given(st.text(alphabet="0123456789+-*/()×÷ ", max_size=LONGEST + 20) | st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    expression = read(text)
    if expression is not None:
        written = text.replace("×", "*").replace("÷", "/")
        digits = [int(word) for word in "".join(c if c.isdigit() else " " for c in written).split()]
        assert expression.numbers == digits


@given(st.recursive(st.integers(1, 99), lambda inner: st.tuples(inner, st.sampled_from("+-*/"), inner), max_leaves=6))
def test_values_agree_with_pythons_parser(tree: object) -> None:
    def write(node: object) -> str:
        return f"({write(node[0])}{node[1]}{write(node[2])})" if isinstance(node, tuple) else str(node)

    text = write(tree)
    try:
        expected: Fraction | None = reckon(text)
    except ZeroDivisionError:
        expected = None
    expression = read(text)
    assert (None if expression is None else expression.value) == expected


def test_every_level_can_be_asked_as_a_dataset() -> None:
    loaded = load("countdown", limit=10)
    assert [problem.level for problem in loaded.problems] == [*LEVELS, *LEVELS]
    assert all(problem.gold and problem.gold.isdigit() for problem in loaded.problems)


def test_an_unknown_collection_is_refused() -> None:
    with pytest.raises(se.UsageError, match="known collections: arith, countdown, grid"):
        generate(1, collection="sudoku")
