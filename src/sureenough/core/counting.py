"""The order in which ended paths are counted, and the classes of their answers that have to be known before."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, takewhile

from sureenough.core.events import Action, Answer, Classify, Fate
from sureenough.core.options import Count
from sureenough.core.path import PathState
from sureenough.core.votes import Poll


class CountingOrder:
    """In order of start, a path waits for all that started before it; in order of finish, for none."""

    def __init__(self, order: Count, started: list[PathState]) -> None:
        self._queue: list[PathState] = started if order == "start" else []
        self._by_finish = order == "finish"
        self._turn = 0
        self._answers: dict[Answer, None] = {}  # of every path that had its turn
        self.classifying = False  # a class was requested, and the path that needs it waits

    def ended(self, path: PathState) -> None:
        if self._by_finish:
            self._queue.append(path)

    def next(self) -> PathState | None:
        """The path whose turn it is, if it has ended."""
        path = self._queue[self._turn] if self._turn < len(self._queue) else None
        return None if path is None or path.fate is None else path

    def pass_ended(self, poll: Poll) -> Sequence[Action] | None:
        """Give all ended paths their turn; the request for a class, if one is missing."""
        while (path := self.next()) is not None:
            request = self.pass_turn(path, poll)
            if request is not None:
                return request
        return None

    def awaiting_class(self) -> int:
        """Ended paths that wait for the class of an answer only, not for a path that runs."""
        if not self.classifying:
            return 0
        return sum(1 for _ in takewhile(lambda path: path.fate is not None, islice(self._queue, self._turn, None)))

    def passed(self) -> list[PathState]:
        """The paths that had their turn, by number."""
        return sorted(self._queue[: self._turn], key=lambda path: path.number)

    def pass_turn(self, path: PathState, poll: Poll) -> Sequence[Action] | None:
        """The path has had its turn if the class of its answer is known: None; else the request for it, made once.

        Only answers of paths that had their turn are in the request, so that no width changes how answers are grouped.
        """
        if path.answer is not None and path.fate is Fate.KEPT:
            self._answers[path.answer] = None
            if not poll.knows(path.answer):
                repeated, self.classifying = self.classifying, True
                return () if repeated else (Classify(tuple(self._answers)),)
        self._turn += 1
        return None
