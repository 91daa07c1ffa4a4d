"""What observers of a live run are told: every event, what the session made of it, and text that no token carries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from sureenough.core.events import Action, Event
from sureenough.core.session import Session


class RunStarted(NamedTuple):
    """The run has begun: told to observers with the first starts."""


class PathText(NamedTuple):
    """A path said something that no token carries; observers are told, the session is not."""

    path: int
    text: str


class PathTruncated(NamedTuple):
    """A path has come to the end of the room it had, not to its own end; observers are told, the session is not."""

    path: int


ObservedEvent = Event | RunStarted | PathText | PathTruncated
Observer = Callable[[Session, ObservedEvent, Sequence[Action]], None]
"""Is told everything that happens and what the session made of it; must be quick, and must not touch the session."""
