"""Observers of a live run receive every event, the actions it led to, and a snapshot of the session.

One comes with the package: the text that a reply is made of. The run log (run_log.py) is another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from sureenough.core.events import Action, Adopt, Cancel, Ended, Event, Fate, Tokens
from sureenough.core.outcome import Snapshot


class RunStarted(NamedTuple):
    """The run has begun; its actions are the first starts."""


class PathText(NamedTuple):
    """Text of a path that belongs to no token; only observers receive it."""

    path: int
    text: str


class PathConfidence(NamedTuple):
    """The confidence of the last window of a path that its engine watches; only observers receive it."""

    path: int
    confidence: float


class PathTruncated(NamedTuple):
    """A path reached its token limit before its own end; only observers receive it."""

    path: int


ObservedEvent = Event | RunStarted | PathText | PathConfidence | PathTruncated
Observer = Callable[[ObservedEvent, Sequence[Action], Snapshot], None]
"""Called after the actions were carried out. It must be quick; an error that it raises is noted in the outcome."""


class Observers:
    """The observers of a run. One that fails must not end a run that others pay for: it is not called again."""

    def __init__(self, observers: Iterable[Observer]) -> None:
        self._observers = list(observers)

    def __bool__(self) -> bool:
        return bool(self._observers)

    def notify(
        self, event: ObservedEvent, actions: Sequence[Action], snapshot: Snapshot, note: Callable[[str], None]
    ) -> None:
        """Call them all, and note which failed."""
        for observer in list(self._observers):
            try:
                observer(event, actions, snapshot)
            except Exception as error:
                self._observers.remove(observer)
                note(f"an observer failed and was not called again: {type(error).__name__}: {error}")


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
