"""What paths said, as far as somebody may still want to read it: observers that keep text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sureenough.core.events import Action, Cancel, Ended, Fate, Tokens, Unread
from sureenough.core.session import Session
from sureenough.drivers.observers import ObservedEvent, PathText, PathTruncated


class Transcript(NamedTuple):
    """A path and its text."""

    path: int
    text: str
    tokens: int = 0
    cut: bool = False  # it had no more room


class WinnerTranscript:
    """Keeps one text an answer, of the lowest-numbered path that gave it; pruned and lost paths are forgotten."""

    def __init__(self) -> None:
        self._growing: dict[int, list[str]] = {}
        self._made: dict[int, int] = {}
        self._cut: set[int] = set()
        self._kept: dict[str | None, Transcript] = {}

    def __call__(self, session: Session, news: ObservedEvent, actions: Sequence[Action]) -> None:
        """An observer."""
        if isinstance(news, Tokens):
            self._made[news.path] = self._made.get(news.path, 0) + len(news.tokens)
            if not isinstance(news.tokens, Unread):
                self._growing.setdefault(news.path, []).extend([token.text for token in news.tokens])
        elif isinstance(news, PathText):
            self._growing.setdefault(news.path, []).append(news.text)
        elif isinstance(news, PathTruncated):
            self._cut.add(news.path)
        elif isinstance(news, Ended):
            said = self._growing.pop(news.path, [])
            made = self._made.pop(news.path, 0)
            known = self._kept.get(news.answer)
            if news.fate is Fate.KEPT and (known is None or news.path < known.path):
                self._kept[news.answer] = Transcript(news.path, "".join(said), made, news.path in self._cut)
        for action in actions:
            if isinstance(action, Cancel):
                self._growing.pop(action.path, None)
                self._made.pop(action.path, None)

    def of(self, answer: str | None) -> Transcript | None:
        """The path that this answer was read from; for none, a path that ended without one."""
        return self._kept.get(answer)
