"""Observers of a live run receive every event, the actions it led to, and a snapshot of the session.

One comes with the package: the text that a reply is made of. The run log (run_log.py) is another.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from sureenough.core.events import Action, Adopt, Cancel, Ended, Event, Fate, Tokens
from sureenough.core.outcome import Snapshot


class RunStarted(NamedTuple):
    """The run has begun; its actions are the first starts."""


class PathReport(NamedTuple):
    """What an engine sent of a path beside its tokens; only observers receive it."""

    path: int
    text: str = ""  # that belongs to no token
    confidence: float | None = None  # of the last window, from engines that watch their own paths
    truncated: bool = False  # it reached its limit of tokens before its own end


ObservedEvent = Event | RunStarted | PathReport
Observer = Callable[[ObservedEvent, Sequence[Action], Snapshot], None]
"""Called after the actions were carried out. It must be quick; an error that it raises is noted in the outcome."""


class Transcript(NamedTuple):
    path: int
    text: str
    tokens: int = 0
    truncated: bool = False  # it reached its token limit


class WinnerTranscript:
    """An observer that keeps one text per answer, of the lowest-numbered path that gave it."""

    def __init__(self) -> None:
        self._texts: defaultdict[int, list[str]] = defaultdict(list)  # of paths that may still vote
        self._truncated: set[int] = set()
        self._kept: dict[str | None, Transcript] = {}

    def __call__(self, event: ObservedEvent, actions: Sequence[Action], snapshot: Snapshot) -> None:
        match event:
            case Tokens(path, tokens):
                self._texts[path] += [token.text for token in tokens]
            case PathReport(path, text):
                self._texts[path].append(text)
                if event.truncated:
                    self._truncated.add(path)
            case Ended(path, fate, answer):
                text, known = "".join(self._texts.pop(path, [])), self._kept.get(answer)
                if fate is Fate.KEPT and (known is None or path < known.path):
                    tokens_made = snapshot.paths[path].tokens
                    self._kept[answer] = Transcript(path, text, tokens_made, path in self._truncated)
        for action in actions:
            if isinstance(action, Adopt):
                self._texts[action.path].append(action.growth.text)
            elif isinstance(action, Cancel):
                self._texts.pop(action.path, None)

    def of(self, answer: str | None) -> Transcript | None:
        """The path that this answer was read from; for None, a path that ended without an answer."""
        return self._kept.get(answer)
