"""A session's life as text: `event -> actions`, a line each, to compare with a golden file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sureenough.core.events import (
    Action,
    Adopt,
    Cancel,
    Classify,
    Compute,
    Computed,
    Ended,
    Event,
    Expired,
    Extend,
    Extended,
    Regrouped,
    Sampled,
    Start,
    Tokens,
)
from sureenough.core.session import Session


def say(thing: Event | Action) -> str:
    """One event or action in a few words."""
    match thing:
        case Tokens(path, tokens, unread):
            return f"path {path} grew by {len(tokens) + unread}"
        case Ended(path, fate, answer):
            return f"path {path} {fate}, answer {answer}"
        case Regrouped(classes):
            return f"regrouped {dict(classes)}"
        case Expired(reason):
            return f"expired: {reason}"
        case Start(path):
            return f"start {path}"
        case Cancel(path, fate):
            return f"cancel {path} ({fate})"
        case Extend(path, branch, beginning, limits):
            stop = "" if limits.stop is None else f" or {limits.stop!r}"
            rule = f"in at most {limits.max_tokens} tokens{stop} at T {limits.temperature:g}"
            return f"extend {path}.{branch} after {beginning!r} {rule}"
        case Sampled(path, branch, tokens):
            return f"branch {path}.{branch} grew by {tokens}"
        case Extended(path, branch, continuation):
            cut = "" if continuation.complete else ", cut"
            return f"branch {path}.{branch} is {continuation.text!r}{cut}"
        case Compute(path, computation):
            return f"compute {computation.function.__name__} for {path}"
        case Computed(path, result):
            return f"computed {result} for {path}"
        case Adopt(path, growth, ends):
            return f"adopt {growth.text!r} ({len(growth.tokens)} tokens) for {path}{' and end it' if ends else ''}"
        case Classify(answers):
            return f"classify {', '.join(answers)}"
        case _:
            return f"stop with {thing.answer}: {thing.reason}"


def journal(session: Session, events: Iterable[Event]) -> list[str]:
    """Everything that was said, in order."""
    lines = ["begin -> " + ", ".join(map(say, session.begin()))]
    for event in events:
        actions: Any = session.receive(event)
        lines.append(say(event) + " -> " + (", ".join(map(say, actions)) or "nothing"))
    return lines
