"""The texts of paths, as far as a reply may need them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sureenough.core.events import Action, Adopt, Cancel, Ended, Fate, Probed, Tokens
from sureenough.core.snapshot import Snapshot
from sureenough.drivers.observers import ObservedEvent, PathText, PathTruncated
from sureenough.drivers.probes import BOX


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
        self._probed: dict[int, str | None] = {}  # the latest answers of running paths to probes
        self._unfinished: dict[str, Transcript] = {}  # of paths that voted by a probe

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
            case Probed(path, reply):
                self._probed[path] = None if reply.hedged else reply.answer
        for action in actions:
            if isinstance(action, Adopt):
                adopted = len(action.growth.tokens) + action.growth.unread
                self._tokens[action.path] = self._tokens.get(action.path, 0) + adopted
                self._texts.setdefault(action.path, []).append(action.growth.text)
            elif isinstance(action, Cancel):
                self._close(action.path)

    def _close(self, path: int) -> None:
        """A path ends early; the answer that it gave to its latest probe completes its text."""
        text, tokens = "".join(self._texts.pop(path, [])), self._tokens.pop(path, 0)
        answer = self._probed.get(path)
        if answer is not None and (answer not in self._unfinished or path < self._unfinished[answer].path):
            self._unfinished[answer] = Transcript(path, f"{text}{BOX}{answer}}}", tokens)

    def of(self, answer: str | None) -> Transcript | None:
        """The path that this answer was read from; for None, a path that ended without an answer.

        If no path with this answer ran to its end, one that gave it to a probe.
        """
        return self._kept.get(answer) or (None if answer is None else self._unfinished.get(answer))
