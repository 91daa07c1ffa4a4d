"""The branches of a search as a tree, for displays: what each continues, and which of them the path was made from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sureenough.core.events import Action, Adopt, Extend, Extended, Sampled

MOST_BRANCHES: Final = 2048
"""Branches of a path that are shown; a search with more is shown up to there."""
SHOWN: Final = 160
"""Characters of a branch that are shown."""


class _Branch:
    __slots__ = ("beginning", "end", "parent", "reported", "round", "text", "tokens", "used")

    def __init__(self, beginning: str, parent: int | None, number: int) -> None:
        self.beginning, self.parent, self.round = beginning, parent, number
        self.text = self.end = ""  # `end`: the line feeds at which a step may have been cut
        self.tokens = 0
        self.used = False  # the path was made from it
        self.reported: dict[str, Any] = {}

    def reaches(self, text: str) -> bool:
        """Whether this text ends within it, or within the end of its line."""
        length = len(text) - len(self.beginning)
        if not 0 < length <= len(self.text) + len(self.end) or not text.startswith(self.beginning):
            return False
        return (self.text + self.end).startswith(text[len(self.beginning) :])

    def ends_with(self, text: str) -> bool:
        """Whether this text, which it reaches, is all of it, with or without the end of its line."""
        return len(text) - len(self.beginning) >= len(self.text)


class SearchTree:
    """The search of one path."""

    def __init__(self) -> None:
        self._branches: list[_Branch] = []
        self._rounds = 0
        self._adopted = ""
        self._changed: set[int] = set()

    def receive(self, event: object, actions: Sequence[Action]) -> None:
        """Take in an event of this path, and what was done about it."""
        match event:
            case Sampled(_, branch, tokens) if branch < len(self._branches):
                self._branches[branch].tokens += tokens
                self._changed.add(branch)
            case Extended(_, branch, continuation) if branch < len(self._branches):
                self._branches[branch].text, self._branches[branch].end = continuation.text, continuation.line_end
                self._changed.add(branch)
        for action in actions:
            if isinstance(action, Adopt):
                self._adopted += action.growth.text
                self._use(self._source(self._adopted))
        self._begin([action for action in actions if isinstance(action, Extend)])

    def _begin(self, extends: Sequence[Extend]) -> None:
        parents: dict[str, int | None] = {}
        for extend in extends[: MOST_BRANCHES - len(self._branches)]:
            if extend.beginning not in parents:
                parents[extend.beginning] = self._source(extend.beginning)
            self._changed.add(len(self._branches))
            self._branches.append(_Branch(extend.beginning, parents[extend.beginning], self._rounds))
        self._rounds += bool(extends)

    def _source(self, text: str) -> int | None:
        """The branch in which this text ends: at the branch's own end if there is one, else the latest to begin."""
        reaching = [number for number, branch in enumerate(self._branches) if branch.reaches(text)]
        whole = [number for number in reaching if self._branches[number].ends_with(text)]
        return max(whole or reaching, key=lambda number: len(self._branches[number].beginning), default=None)

    def _use(self, number: int | None) -> None:
        while number is not None and not self._branches[number].used:
            self._branches[number].used = True
            self._changed.add(number)
            number = self._branches[number].parent

    def changes(self) -> list[dict[str, Any]]:
        """The changed fields of every branch that is different since the last call."""
        changes = []
        for number in sorted(self._changed):
            branch = self._branches[number]
            current: dict[str, Any] = {"parent": branch.parent, "round": branch.round, "tokens": branch.tokens,
                       "text": branch.text[:SHOWN], "used": branch.used}  # fmt: skip
            changed = {name: value for name, value in current.items() if branch.reported.get(name, ...) != value}
            branch.reported = current
            changes.append({"branch": number, **changed})
        self._changed.clear()
        return changes
