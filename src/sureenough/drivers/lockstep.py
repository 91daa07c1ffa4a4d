"""Recorded paths, token by token: a tick grows every running path, in order of its number, by one token."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import repeat

from sureenough.core.events import Action, Cancel, Classify, Ended, Event, Expired, Fate, Start, Token, Tokens
from sureenough.core.session import Session
from sureenough.drivers.observers import Observer, RunStarted
from sureenough.errors import ProtocolError
from sureenough.pools import RecordedPath


def lockstep(
    paths: Sequence[RecordedPath], session: Session, expired: Callable[[], bool], observer: Observer | None = None
) -> int:
    """Run the session to its end; returns the number of ticks in which a token grew."""
    running: dict[int, Iterator[Token]] = {}
    remaining: dict[int, int] = {}

    def receive(event: Event) -> None:
        carry_out(event, session.receive(event))

    def carry_out(event: Event | RunStarted, actions: list[Action]) -> None:
        if observer is not None:
            observer(event, actions, session.snapshot())
        for action in actions:
            match action:
                case Start(number):
                    running[number] = recorded_tokens(paths[number])
                    remaining[number] = paths[number].tokens
                case Cancel(number):
                    running.pop(number, None)
                case Classify(answers):
                    raise ProtocolError(f"the class of the answer {answers[-1]!r} was not given")

    def grow(number: int) -> Event:
        path = paths[number]
        remaining[number] -= 1
        if remaining[number] > 0:
            token = next(running[number], None)
            return Tokens(number, unread=1) if token is None else Tokens(number, (token,))
        # A path's end comes with its last token; an empty path ends without one.
        last = tuple(running.pop(number))
        summary = None if path.signals == "tokens" else path.summary(session.options.window or 1)
        return Ended(number, Fate.KEPT, path.answer, summary, last)

    carry_out(RunStarted(), session.begin())
    ticks = 0
    while not session.done:
        if expired():
            receive(Expired())
        grew = False
        for number in sorted(running):
            if number in running and not session.done:
                grew |= paths[number].tokens > 0
                receive(grow(number))
        ticks += grew
    return ticks


def recorded_tokens(path: RecordedPath) -> Iterator[Token]:
    """Its tokens; none if it was recorded without their signals."""
    signals = zip(path.peak, path.conf, strict=True)
    texts = path.token_texts or repeat("")
    return (Token(text, float(peak), float(conf)) for text, (peak, conf) in zip(texts, signals, strict=False))
