"""What observers of a live run receive: every event, the actions it led to, and a snapshot of the session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
