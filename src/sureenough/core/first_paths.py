"""What a run's first paths decide beside their votes: the window, and whether to go on at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sureenough.core.events import Fate
from sureenough.core.options import choose_window
from sureenough.core.path import PathState

WINDOW_PATHS: Final = 3
"""The paths whose lengths choose the window of a strategy without a warm-up."""
SILENT_PATHS: Final = 8
"""A live run ends if so many paths, or the whole warm-up if that is more, give no answer."""


class FirstPaths:
    """The first of the paths that a session has started, in order of start."""

    def __init__(self, started: Sequence[PathState], warmup: int, budget: int) -> None:
        self._started = started
        self._for_window = min(WINDOW_PATHS, budget)
        self._for_answers = max(SILENT_PATHS, warmup)
        self._may_be_silent = True

    def have_ended(self) -> bool:
        """Whether the paths that choose the window of a strategy without a warm-up are over."""
        first = self._started[: self._for_window]
        return len(first) == self._for_window and all(path.fate is not None for path in first)

    def choose_window(self, passed: Sequence[PathState], longest: int) -> tuple[int, int]:
        """The window, and from how many lengths it was chosen: of the warm-up or of the first, without failed paths."""
        first = [path for path in passed if path.warmup or path.number < self._for_window]
        lengths = [path.tokens for path in first if path.fate is Fate.KEPT]
        return choose_window(lengths, longest), len(lengths)

    def gave_no_answer(self) -> bool:
        """Whether enough paths were counted, and none of them has an answer; failed ones are left out."""
        if self._may_be_silent:
            first = [path for path in self._started if path.fate is not Fate.FAILED][: self._for_answers]
            counted = [path for path in first if path.counted]
            self._may_be_silent = all(path.answer is None for path in counted)
            return self._may_be_silent and len(counted) == self._for_answers
        return False
