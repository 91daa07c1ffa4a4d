"""A pool's answers, judged once: which mean the same, which are right. Kept on disk under the pool's hash.

Judging comes before strategies and repeats, so that all of them see the same classes; a second comparison of the same
pool reads them back.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sureenough.answers import REPLAY_PATIENCE, REPLAY_SECONDS, VERSION, Judge, warm_up
from sureenough.errors import UsageError
from sureenough.pools import Pool, Question

Equal = Literal["meaning", "string"]
"""When two answers are one candidate. Peers vote on strings; grading goes by meaning either way."""


@dataclass(frozen=True, slots=True)
class JudgedAnswers:
    """One question's answers."""

    classes: dict[str, int]
    right: dict[str, bool] | None  # None where the question has no gold answer
    unsettled: int = 0  # pairs of answers that got no verdict in time and count as different
    unready: bool = False  # some for want of a worker, not of time: another run may do better


def judge_question(question: Question, symbolic_seconds: float, equal: Equal) -> JudgedAnswers:
    """Judge one question. Voting and grading have a budget each: one must not starve the other."""
    answers = list(dict.fromkeys(path.answer for path in question.paths if path.answer is not None))
    voting, grading = (Judge(symbolic_seconds, patience=REPLAY_PATIENCE) for _ in range(2))
    numbers = voting.classes(answers) if equal == "meaning" else _by_string(answers)
    classes = {answer: number for answer, number in zip(answers, numbers, strict=True) if number is not None}
    gold = question.gold
    right = None if gold is None else {answer: grading.grade(gold, answer) for answer in answers}
    return JudgedAnswers(classes, right, voting.unsettled + grading.unsettled, voting.unready or grading.unready)


def _by_string(answers: list[str]) -> list[int]:
    numbers: dict[str, int] = {}
    return [numbers.setdefault(answer.strip(), len(numbers)) for answer in answers]


class PoolJudge:
    """The judged answers of a pool, from the cache where they are there."""

    def __init__(self, pool: Pool, symbolic_seconds: float = REPLAY_SECONDS, equal: Equal = "meaning") -> None:
        if equal not in ("meaning", "string"):
            raise UsageError(f"equal is {equal!r}; answers are equal by 'meaning' or by 'string'")
        self.symbolic_seconds: float = symbolic_seconds
        self.equal: Equal = equal
        self._file = cache_folder() / f"answers-{VERSION}-{_fingerprint(pool, symbolic_seconds, equal)}.json"
        self._known = _read(self._file)
        self._news = False
        if not self._known:
            warm_up(0)  # in the background: it is ready by the time that a pair needs it, or nearly

    @property
    def unsettled(self) -> int:
        """Pairs of answers that got no verdict in time."""
        return sum(judged.unsettled for judged in self._known.values())

    def of(self, question: Question) -> JudgedAnswers:
        """This question's answers."""
        known = self._known.get(question.id)
        if known is None:
            known = self._known[question.id] = judge_question(question, self.symbolic_seconds, self.equal)
            self._news = True
        return known

    def known(self) -> dict[str, JudgedAnswers]:
        """All that were judged before, by question."""
        return dict(self._known)

    def learn(self, news: dict[str, JudgedAnswers]) -> None:
        """Take over what others judged."""
        self._known |= news
        self._news |= bool(news)

    def save(self) -> None:
        """Keep what was judged; a cache that cannot be written is no error."""
        told = {
            name: [judged.classes, judged.right, judged.unsettled]
            for name, judged in self._known.items()
            if not judged.unready
        }
        if not self._news or not told:
            return
        part = self._file.with_suffix(f".{os.getpid()}.part")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            part.write_text(json.dumps(told, ensure_ascii=True), encoding="ascii")
            part.replace(self._file)
        except OSError:
            with suppress(OSError):
                part.unlink()


def cache_folder() -> Path:
    """Where judged answers are kept: $SUREENOUGH_CACHE, else the user's cache folder."""
    named = os.environ.get("SUREENOUGH_CACHE")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    return (Path(base) if base else Path.home() / ".cache") / "sureenough"


def _fingerprint(pool: Pool, symbolic_seconds: float, equal: str) -> str:
    with pool.file.open("rb") as file:
        content = hashlib.file_digest(file, "sha256")
    content.update(f"{symbolic_seconds} {pool.skip_damaged} {equal}".encode())
    return content.hexdigest()[:32]


def _read(file: Path) -> dict[str, JudgedAnswers]:
    """What was kept; nothing where there is no such file, or where it is not whole."""
    try:
        told = json.loads(file.read_text(encoding="ascii"))
        return {name: JudgedAnswers(dict(classes), right, int(open_)) for name, (classes, right, open_) in told.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
