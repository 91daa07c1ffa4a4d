"""What observers of a live run receive: every event, the actions it led to, and a snapshot of the session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from sureenough.core.events import Action, Event
from sureenough.core.snapshot import Snapshot


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
