"""How difficult the questions of a pool are: by their levels, by a file, or by a stand-in."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, Final, NamedTuple

from sureenough.bench.summaries import SummarisedQuestion
from sureenough.errors import UsageError
from sureenough.pools import SummarisedPath

LARGEST_RANKING: Final = 64 << 20
"""Bytes of a file of difficulties."""
RANKINGS: Final = {
    None: "a stand-in, the length of each question's first path; the method's own ranking is a model's",
    "level": "the pool's own levels, which the method does not have",
}


class RankedQuestion(NamedTuple):
    """A question, and the level that its pool gives."""

    question: SummarisedQuestion
    level: int | None


class Difficulties(NamedTuple):
    """How difficult each question is, and what it took to find out."""

    source: str  # in words
    scores: Mapping[str, float] | None = None  # by question; None: the length of its first path
    tokens: float | None = 0.0  # generated for the ranking, per question; None if that is not known

    def order(self, questions: Sequence[SummarisedQuestion], paths: Sequence[Sequence[SummarisedPath]]) -> list[int]:
        """The questions from easy to hard; equals keep the order of the pool."""
        if self.scores is None:
            return sorted(range(len(questions)), key=lambda number: paths[number][0].tokens)
        scores = self.scores
        return sorted(range(len(questions)), key=lambda number: scores[questions[number].id])


def read_difficulties(ranking: str | None, values: Sequence[RankedQuestion]) -> Difficulties:
    """The difficulties of a pool's questions: `level`, a file, or by default a stand-in."""
    ids = [one.question.id for one in values]
    if ranking is None:
        return Difficulties(RANKINGS[None])
    if ranking == "level":
        levels = {one.question.id: float(one.level) for one in values if one.level is not None}
        _check_complete(ids, levels, "this pool gives no level to")
        return Difficulties(RANKINGS["level"], levels)
    document = _read_json(Path(ranking))
    scores = document.get("scores", document)
    tokens = document.get("tokens") if "scores" in document else None
    if not isinstance(scores, dict) or not all(map(_is_number, (*scores.values(), tokens or 0))) or (tokens or 0) < 0:
        raise UsageError(
            f'ranking={ranking}: a file of difficulties is JSON, {{"scores": {{"QUESTION": NUMBER, …}}, "tokens": '
            "GENERATED}, with a higher number for a harder question"
        )
    _check_complete(ids, scores, f"{ranking} does not name")
    return Difficulties(f"the file {Path(ranking).name}", scores, None if tokens is None else tokens / len(scores))


def _is_number(value: object) -> bool:
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
    except OverflowError:
        return False


def _read_json(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as stream:
            content = stream.read(LARGEST_RANKING + 1)  # a device has no size, and perhaps no end
    except OSError as error:
        raise UsageError(f"ranking={file}: give `level`, or a JSON file of difficulties ({error.strerror})") from None
    if len(content) > LARGEST_RANKING:
        raise UsageError(f"ranking={file}: a file of difficulties has at most {LARGEST_RANKING >> 20} MiB")
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        raise UsageError(f"ranking={file} is not JSON; leave it out for a stand-in") from None
    return document if isinstance(document, dict) else {"scores": document}


def _check_complete(ids: Sequence[str], scores: Mapping[str, object], problem: str) -> None:
    missing = next((name for name in ids if name not in scores), None)
    if missing is not None:
        raise UsageError(
            f"{problem} question {missing!r}; give difficulties of all questions, or leave the ranking out"
        )
