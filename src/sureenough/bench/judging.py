"""A pool's answers, judged once: which mean the same, which are right. Cached on disk under the pool's hash.

Judging comes before strategies and repeats, so that all of them use the same classes; a second comparison of the same
pool reads them from the cache.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import ChainMap
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from sureenough.answers import VERSION, Judge, for_question, resolve_kind
from sureenough.answers.compare import number_classes
from sureenough.answers.kinds import BUILTIN, FAULTS, Math, Regex
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
    cached: bool = True  # False for judges of other packages, whose code may change, and if grading was cut short
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
    is_builtin = isinstance(judge, (Regex, *map(type, BUILTIN.values())))
    return JudgedAnswers(classes, right, is_builtin and not lost, lost)


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


class PoolJudge:
    """Judges the questions of a pool, each once, and keeps the verdicts in a cache."""

    def __init__(self, pool: Pool, equal: Equal = "meaning", kind: Any = None, grader: Grader = "own") -> None:
        self.pool, self.equal, self.kind, self.grader = pool, equal, kind, grader
        self.sha256 = pool.digest()
        chosen = "" if kind is None else f" {resolve_kind(kind)!r}"
        library = "" if grader == "own" else f" {grader} {math_verify_version()}"
        settings = f"{self.sha256} {pool.skip_damaged} {equal}{chosen}{library}"
        self._file = cache_folder() / f"answers-{VERSION}-{hashlib.sha256(settings.encode()).hexdigest()[:32]}.json"
        self._cached = _read(self._file)
        self.new: dict[str, JudgedAnswers] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Another process gets the cache, and returns what it judges itself."""
        return self.__dict__ | {"new": {}}

    def judge(self, question: Question, grader: MathVerify | None = None) -> tuple[Question, JudgedAnswers]:
        """The question, read again if the caller's kind asks for that, and its judged answers."""
        question = read_again(question, self.kind, self.pool)
        judged = self.judged.get(question.id)
        if judged is None:
            judge = judge_of(question, self.kind, self.pool)
            judged = self.new[question.id] = judge_question(question, self.equal, judge, grader)
        return question, judged

    @property
    def judged(self) -> Mapping[str, JudgedAnswers]:
        """What has been judged, by question."""
        return ChainMap(self.new, self._cached)

    @property
    def lost(self) -> int:
        """Answers that math-verify did not grade in time."""
        return sum(judged.lost for judged in self.judged.values())

    def save(self) -> None:
        """Write the cache; if it cannot be written, the next run judges again."""
        entries = {name: [judged.classes, judged.right] for name, judged in self.judged.items() if judged.cached}
        if not self.new or not entries:
            return
        part = self._file.with_suffix(f".{os.getpid()}.part")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            part.write_text(json.dumps(entries, ensure_ascii=True), encoding="ascii")
            part.replace(self._file)
        except OSError:
            with suppress(OSError):
                part.unlink()


def cache_folder() -> Path:
    """Where judged answers are cached: $SUREENOUGH_CACHE, else the user's cache folder."""
    override = os.environ.get("SUREENOUGH_CACHE")
    if override:
        return Path(override)
    base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    return (Path(base) if base else Path.home() / ".cache") / "sureenough"


def _read(file: Path) -> dict[str, JudgedAnswers]:
    """The cache; empty if there is none or it is damaged."""
    try:
        entries = json.loads(file.read_text(encoding="ascii"))
        return {name: JudgedAnswers(dict(classes), right) for name, (classes, right) in entries.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
