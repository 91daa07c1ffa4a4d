"""Kinds of answers that a box marks: mathematics, and the letter of a choice."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sureenough.answers.choice import choose
from sureenough.answers.compare import classes
from sureenough.answers.extract import mathematical_answer, reply_of
from sureenough.answers.grading import grade
from sureenough.answers.statements import KeyedKind
from sureenough.core.strategy_options import Rule, check_options, one_of, option

FLAG: Final = Rule("1 or 0", lambda value: value in (False, True))


@dataclass(frozen=True, slots=True)
class Math:
    """Mathematics: numbers, expressions, sets, intervals and more, compared by value. The options are for grading."""

    percent: bool = option(False, "28% is right if the gold answer is 0.28", FLAG)
    rounding: bool = option(False, "a rounded decimal is right", FLAG)
    decimal_comma: bool = option(False, "1,5 is right if the gold answer is 1.5", FLAG)
    fallback: str = option("none", "what to read from a reply without a marked answer", one_of("none", "last-number"))
    ask = "Please reason step by step, and put your final answer within \\boxed{}."
    looks_for = "a box or an announced value (\\boxed{…}, Answer: …)"

    def __post_init__(self) -> None:
        check_options(self)

    def extract(self, text: str) -> str | None:
        return mathematical_answer(text, last_number_too=self.fallback == "last-number")

    def classes(self, answers: Sequence[str]) -> list[int | None]:
        return classes(answers)

    def grade(self, gold: str, answer: str) -> bool:
        return grade(gold, answer, percent=self.percent, rounding=self.rounding, decimal_comma=self.decimal_comma)


ALL_LETTERS: Final = "ABCDEFGHIJ"
_OFFERED = re.compile(r"(?:^[ \t]{0,8}[(\[*]{0,3}|\()([A-J])[*]{0,2}[).:\]]", re.MULTILINE)


def are_letters(letters: str) -> bool:
    return all(letter.isalpha() for letter in letters) and len({*letters.casefold()}) == len(letters)


LETTERS: Final = Rule("different letters, such as ABCD", are_letters)


@dataclass(frozen=True, slots=True)
class LetterChoice(KeyedKind):
    """One of several choices, by its letter."""

    letters: str = option("", "the letters that were offered; by default those in the question, or A to J", LETTERS)
    ask = "Please reason step by step, and put the letter of your final answer within \\boxed{}."

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def looks_for(self) -> str:
        letters = self.letters or ALL_LETTERS
        return f"one of the letters {letters}, in a box or announced (\\boxed{{{letters[0]}}}, Answer: {letters[0]})"

    def extract(self, text: str) -> str | None:
        reply = reply_of(text)
        return None if reply is None else choose(reply, self.letters or ALL_LETTERS)

    def key(self, answer: str) -> str:
        return answer.strip().casefold()

    def for_question(self, question: str | None) -> LetterChoice:
        return self if self.letters or question is None else LetterChoice(offered_letters(question))


def offered_letters(question: str) -> str:
    """The letters of the choices below a question, such as A) … B) …; empty if there are none."""
    marked = set(_OFFERED.findall(question))
    count = next((i for i, letter in enumerate(ALL_LETTERS) if letter not in marked), len(ALL_LETTERS))
    return ALL_LETTERS[:count] if count > 1 else ""
