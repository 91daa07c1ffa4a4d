"""A question's answers, judged before strategies and repeats, so that all use the same classes and grades."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from sureenough.answers import Judge, for_question, resolve_kind
from sureenough.answers.compare import number_classes
from sureenough.answers.kinds import BUILTIN, FAULTS, Math
from sureenough.bench.published_grader import MathVerify, math_verify_version
from sureenough.drivers.judging import extract_or_abstain
from sureenough.errors import UsageError
from sureenough.pools import Pool, Question

Equal = Literal["meaning", "string"]
"""When two answers are one candidate. Other tools vote on strings; grading goes by meaning either way."""

Grader = Literal["own", "math-verify"]
"""What compares an answer with the gold one: its kind, or for mathematics a library that others grade with."""


def check_judging(equal: object, grader: object) -> None:
    if equal not in ("meaning", "string"):
        raise UsageError(f"equal is {equal!r}; answers are equal by 'meaning' or by 'string'", argument="equal")
    if grader not in ("own", "math-verify"):
        raise UsageError(
            f"grader is {grader!r}; answers are graded by their 'own' kind or by 'math-verify'", argument="grader"
        )
    if grader == "math-verify" and math_verify_version() is None:
        raise UsageError("the grader math-verify is not installed: pip install 'sureenough[bench]'", argument="grader")


@dataclass(frozen=True, slots=True)
class JudgedAnswers:
    """The answers of one question."""

    classes: dict[str, int]
    right: dict[str, bool] | None  # None if the question has no gold answer
    lost: int = 0  # answers that math-verify did not grade in time; they count as wrong


def judge_question(
    question: Question, equal: Equal, judge: Judge = BUILTIN["math"], grader: MathVerify | None = None
) -> JudgedAnswers:
    """Group the answers of a question and grade each; `grader` grades mathematics instead of its kind."""
    answers = list(dict.fromkeys(path.answer for path in question.paths if path.answer is not None))
    own, gold = for_question(judge), question.gold
    grade = grader if grader is not None and isinstance(judge, Math) else own.grade
    lost = grader.lost if grader is not None else 0
    try:
        numbers = [answer.strip() for answer in answers] if equal == "string" else own.classes(answers)
        right = None if gold is None else {answer: bool(grade(gold, answer)) for answer in answers}
        pairs = zip(answers, number_classes(numbers), strict=True)
        classes = {answer: number for answer, number in pairs if number is not None}
    except FAULTS as error:
        raise UsageError(f"the judge failed on question {question.id!r}: {type(error).__name__}: {error}") from error
    lost = grader.lost - lost if grader is not None else 0
    return JudgedAnswers(classes, right, lost)


def judge_of(question: Question, kind: Any, pool: Pool) -> Judge:
    """The judge of a recorded question: its own kind, else the caller's, else the pool's."""
    if question.kind is None and kind is not None:
        return resolve_kind(kind)
    recorded = question.kind or pool.info.kind
    try:
        return resolve_kind(recorded, registered_only=True)
    except UsageError as error:
        raise UsageError(
            f"{pool.name} was recorded with kind={recorded}, which a file cannot choose: {error}. "
            f"If you trust it, give kind={recorded}",
            argument="kind",
        ) from None


def read_again(question: Question, kind: Any, pool: Pool) -> Question:
    """The question with its answers extracted by the caller's kind, if that is not the pool's and texts were kept."""
    texts = [path.text for path in question.paths]
    if question.kind is not None or kind in (None, pool.info.kind) or None in texts:
        return question
    judge = for_question(resolve_kind(kind))
    answers = [extract_or_abstain(judge, text or "")[0] for text in texts]
    paths = [replace(path, answer=answer) for path, answer in zip(question.paths, answers, strict=True)]
    return replace(question, paths=paths)
