"""Single paths, for experiments below the level of votes: their confidence, and whether they are right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from sureenough.bench.judging import JudgedAnswers
from sureenough.core.confidence.instability import Bools, Floats
from sureenough.pools import Question, scan_together

SIGNAL_NAMES: Final = {"lowest": "C_path (lowest window)", "tail": "last window", "mean": "mean of all tokens"}


class PathSignals(NamedTuple):
    """The answered paths of one question."""

    level: int | None
    right: Bools
    lowest: Floats  # C_path
    tail: Floats
    mean: Floats
    unanswered: int  # paths without an answer
    graded: bool

    @property
    def share(self) -> float:
        """The share of answered paths that are right."""
        return float(self.right.mean()) if self.right.size else float("nan")


@dataclass(frozen=True, slots=True)
class ReadSignals:
    """The pipeline's task: one question's paths at this window."""

    window: int

    def __call__(self, question: Question, judged: JudgedAnswers) -> PathSignals:
        scan_together(question.paths, self.window)
        answered = [path for path in question.paths if path.answer is not None and path.tokens]
        windows = [path.windows(self.window) for path in answered]
        right = judged.right or {}
        return PathSignals(
            question.level,
            np.array([right.get(path.answer or "", False) for path in answered], dtype=np.bool_),
            np.array([one.lowest for one in windows]),
            np.array([one.tail for one in windows]),
            np.array([float(np.mean(path.conf)) for path in answered]),
            len(question.paths) - len(answered),
            judged.right is not None,
        )


class Graded(Protocol):
    """A question whose difficulty is known."""

    @property
    def level(self) -> int | None: ...
    @property
    def share(self) -> float: ...


Q = TypeVar("Q", bound=Graded)


def by_difficulty(questions: Sequence[Q]) -> tuple[str, dict[str, list[Q]]]:
    """What difficulty is, and the questions of each, the easiest first.

    By the dataset's levels if it has several, else by fixed shares of right paths.
    """
    levels = sorted({one.level or 0 for one in questions})
    if len([level for level in levels if level]) < 2:
        groups = {
            "easy": [one for one in questions if one.share >= 2 / 3],
            "medium": [one for one in questions if 1 / 3 <= one.share < 2 / 3],
            "hard": [one for one in questions if one.share < 1 / 3],
        }
        return "the share of right paths (easy from 2/3, hard below 1/3)", {name: g for name, g in groups.items() if g}
    return "the dataset's level", {
        f"level {level}" if level else "no level": [one for one in questions if (one.level or 0) == level]
        for level in levels
    }


def area(right: Floats, wrong: Floats) -> float:
    """The chance that a right path is more confident than a wrong one (area under the ROC curve); ties count half."""
    if not right.size or not wrong.size:
        return float("nan")
    ordered = np.sort(wrong)
    below: NDArray[np.intp] = np.searchsorted(ordered, right, "left") + np.searchsorted(ordered, right, "right")
    return float(below.sum() / (2.0 * right.size * wrong.size))
