"""What strategies have learned of each model, in memory or in a small JSON file. No text of a question is in it."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any, Final, NamedTuple

from sureenough.core.outcome import Outcome
from sureenough.core.weights import LearnerState
from sureenough.errors import UsageError
from sureenough.pools.durable import write_file

FORMAT: Final = "sureenough learner"
FILE_VERSION: Final = 1
MOST_STATES: Final = 256  # that are kept; the one of the fewest questions is dropped first
LONGEST_NAME: Final = 300  # characters of a model's name or of a strategy, which may come from clients
MOST_BYTES: Final = MOST_STATES * (2 * 12 * LONGEST_NAME + 2_000)
"""No written file is larger: in JSON a character of a name has up to 12 bytes, and the rest of an entry under 2,000."""


class LearnerKey(NamedTuple):
    """What a state belongs to: signals mean other things under another model, window or strategy."""

    model: str
    window: int
    strategy: str  # its spec


class LearnerStates:
    """A state for each model, window and strategy. Of two processes that save one file, the later one wins.

    Raises:
        UsageError: the file cannot be read, is damaged, or is not a learner's file; it stays as it is.
    """

    def __init__(self, file: Path | None = None) -> None:
        self.file = file
        self.known = {} if file is None else _load(file)  # the one updated last at the end

    def window(self, model: str, strategy: str) -> int | None:
        """The window of the state that was updated last; None if there is none."""
        wanted = model[:LONGEST_NAME], strategy[:LONGEST_NAME]
        return next((key.window for key in reversed(self.known) if (key.model, key.strategy) == wanted), None)

    def state(self, model: str, window: int | None, strategy: str) -> LearnerState:
        """What is known; the prior if nothing is."""
        return self.known.get(_key(model, window or 0, strategy), LearnerState())

    def receive(self, model: str, strategy: str, outcome: Outcome) -> None:
        """Learn from one outcome."""
        key = _key(model, outcome.window, strategy)
        updated = self.known.pop(key, LearnerState()).receive(outcome)
        if len(self.known) >= MOST_STATES:  # by questions: clients can name as many models and windows as they like
            del self.known[min(self.known, key=lambda known: self.known[known].questions)]
        self.known[key] = updated

    def save(self) -> tuple[str, ...]:
        """Write the file, if there is one, durably: a reader sees the old states or the new; a note if it cannot."""
        if self.file is None:
            return ()
        models = [key._asdict() | {"state": state.to_json()} for key, state in self.known.copy().items()]
        content = {"format": FORMAT, "version": FILE_VERSION, "models": models}
        try:
            data = json.dumps(content, indent=1).encode()
            write_file(self.file, [data], ending=f"part-{os.getpid()}-{threading.get_ident()}")
        except OSError as error:
            return (f"what was learned could not be saved: {error.strerror or error}",)
        return ()


def _key(model: str, window: int, strategy: str) -> LearnerKey:
    return LearnerKey(model[:LONGEST_NAME], window, strategy[:LONGEST_NAME])


def _load(file: Path) -> dict[LearnerKey, LearnerState]:
    if file.exists() and not file.is_file():  # a pipe would block
        raise UsageError(f"{file} cannot be read: it is not a regular file")
    try:
        with file.open("rb") as handle:
            data = handle.read(MOST_BYTES + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror or error}") from None
    try:
        content = json.loads(data) if len(data) <= MOST_BYTES else None
        if not isinstance(content, dict) or (content.get("format"), content.get("version")) != (FORMAT, FILE_VERSION):
            raise UsageError("it is not a learner's file of this version")
        return dict(map(_read, content["models"][-MOST_STATES:]))
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        problem = str(error) if isinstance(error, UsageError) else "it is not a learner's file of this version"
        raise UsageError(
            f"{file} is damaged ({problem}) and was left as it is; repair it, or move it away to learn anew"
        ) from None


def _read(entry: Any) -> tuple[LearnerKey, LearnerState]:
    key = LearnerKey(entry["model"], entry["window"], entry["strategy"])
    if not isinstance(key.model, str) or type(key.window) is not int or not isinstance(key.strategy, str):
        raise UsageError("an entry has no model, window or strategy")
    return key, LearnerState.from_json(entry["state"])
