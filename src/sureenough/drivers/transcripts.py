"""The texts of paths, as far as a reply may need them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sureenough.core.events import Action, Adopt, Cancel, Ended, Fate, Tokens
from sureenough.core.snapshot import Snapshot
from sureenough.drivers.observers import ObservedEvent, PathText, PathTruncated


class Transcript(NamedTuple):
    """A path and its text."""

    path: int
    text: str
    tokens: int = 0
    truncated: bool = False  # it reached its token limit


class WinnerTranscript:
    """An observer that keeps one text per answer, of the lowest-numbered path that gave it."""

    def __init__(self) -> None:
        self._texts: dict[int, list[str]] = {}
        self._tokens: dict[int, int] = {}
        self._truncated: set[int] = set()
        self._kept: dict[str | None, Transcript] = {}

    def __call__(self, event: ObservedEvent, actions: Sequence[Action], snapshot: Snapshot) -> None:
        """Pruned, failed and discarded paths are forgotten."""
        match event:
            case Tokens(path, tokens, unread):
                self._tokens[path] = self._tokens.get(path, 0) + len(tokens) + unread
                self._texts.setdefault(path, []).extend([token.text for token in tokens])
            case PathText(path, text):
                self._texts.setdefault(path, []).append(text)
            case PathTruncated(path):
                self._truncated.add(path)
            case Ended(path, fate, answer):
                text = "".join(self._texts.pop(path, []))
                tokens_made = self._tokens.pop(path, 0)
                known = self._kept.get(answer)
                if fate is Fate.KEPT and (known is None or path < known.path):
                    self._kept[answer] = Transcript(path, text, tokens_made, path in self._truncated)
        for action in actions:
            if isinstance(action, Adopt):
                adopted = len(action.growth.tokens) + action.growth.unread
                self._tokens[action.path] = self._tokens.get(action.path, 0) + adopted
                self._texts.setdefault(action.path, []).append(action.growth.text)
            elif isinstance(action, Cancel):
                self._texts.pop(action.path, None)
                self._tokens.pop(action.path, None)

    def of(self, answer: str | None) -> Transcript | None:
        """The path that this answer was read from; for None, a path that ended without an answer."""
        return self._kept.get(answer)
