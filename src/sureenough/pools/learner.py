"""What strategies have learned of each model, in memory or in a small JSON file. No text of a question is in it."""

from __future__ import annotations

import json
import os
import threading
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from sureenough.core.learning import LearnerState
from sureenough.core.outcome import Outcome
from sureenough.errors import UsageError
from sureenough.pools.durable import publish

FORMAT: Final = "sureenough learner"
FILE_VERSION: Final = 1
MOST_STATES: Final = 256
"""States that are kept; the one that was used least recently is dropped first."""
MOST_BYTES: Final = 1 << 20
LONGEST_NAME: Final = 300
"""Characters of a model's name or of a strategy."""


class LearnerKey(NamedTuple):
    """What a state belongs to: signals mean other things under another model, window or strategy."""

    model: str
    window: int
    strategy: str  # its spec

    @classmethod
    def of(cls, model: str, window: int, strategy: str) -> LearnerKey:
        """The key under which a state is kept: names of any length come from clients."""
        return cls(model[:LONGEST_NAME], window, strategy[:LONGEST_NAME])


class Learner:
    """A state for each model, window and strategy. Threads may share it; each update is atomic.

    With a file it starts from what the file holds; a damaged file gives a note and the prior. Of two processes that
    save at the same moment, the later one wins.
    """

    def __init__(self, file: str | Path | None = None) -> None:
        self.file = None if file is None else Path(file)
        self.notes: tuple[str, ...] = ()
        self.damage = ""  # what is wrong with the file
        self._states: OrderedDict[LearnerKey, LearnerState] = OrderedDict()
        self._lock, self._saving = threading.Lock(), threading.Lock()
        self._damaged = False  # the file is kept under another name before it is replaced
        if self.file is not None:
            self._load(self.file)

    def state(self, key: LearnerKey) -> LearnerState:
        """What is known; the prior if nothing is."""
        return self.by_window(key.model, key.strategy).get(key.window, LearnerState())

    def by_window(self, model: str, strategy: str) -> dict[int, LearnerState]:
        """What is known of a model under a strategy, by window: a run may choose its window only later."""
        wanted = LearnerKey.of(model, 0, strategy)
        return {key.window: state for key, state in self.known().items() if key._replace(window=0) == wanted}

    def known(self) -> dict[LearnerKey, LearnerState]:
        """Every state."""
        with self._lock:
            return dict(self._states)

    def receive(self, key: LearnerKey, outcome: Outcome) -> LearnerState:
        """Learn from one outcome; the new state."""
        key = LearnerKey.of(*key)
        with self._lock:
            return _keep(self._states, key, self._states.get(key, LearnerState()).receive(outcome))

    def merge(self, gained: Mapping[LearnerKey, LearnerState]) -> None:
        """Add what others have learned."""
        with self._lock:
            _add(self._states, gained)

    def save(self) -> None:
        """Write the file durably; a reader sees the old states or the new ones. Raises OSError if it cannot."""
        if self.file is None:
            return
        with self._saving:
            data = json.dumps(self.to_json(), indent=1).encode()
            if self._damaged and self.file.exists():
                os.replace(self.file, self.file.with_name(self.file.name + ".damaged"))
            self._damaged = False
            part = self.file.with_name(f"{self.file.name}.{os.getpid()}.part")
            try:
                part.write_bytes(data)
                publish(part, self.file)
            finally:
                part.unlink(missing_ok=True)

    def to_json(self) -> dict[str, Any]:
        """All states, the one used last at the end."""
        models = [key._asdict() | {"state": state.to_json()} for key, state in self.known().items()]
        return {"format": FORMAT, "version": FILE_VERSION, "models": models}

    def _load(self, file: Path) -> None:
        try:
            with file.open("rb") as handle:
                data = handle.read(MOST_BYTES + 1)
        except FileNotFoundError:
            return
        except OSError as error:
            raise UsageError(f"{file} cannot be read: {error.strerror or error}") from None
        try:
            content = json.loads(data) if len(data) <= MOST_BYTES else None
        except (ValueError, RecursionError):
            content = None
        if not isinstance(content, dict) or content.get("format") != FORMAT or content.get("version") != FILE_VERSION:
            self._note("it is not a learner's file of this version")
            return
        entries = content.get("models")
        for entry in entries[-MOST_STATES:] if isinstance(entries, list) else [None]:
            self._read(entry)

    def _read(self, entry: object) -> None:
        try:
            fields = entry if isinstance(entry, dict) else {}
            key = LearnerKey(fields.get("model"), fields.get("window"), fields.get("strategy"))  # type: ignore[arg-type]
            if not isinstance(key.model, str) or type(key.window) is not int or not isinstance(key.strategy, str):
                raise UsageError("an entry has no model, window or strategy")
            self._states[key] = LearnerState.from_json(fields.get("state"))
        except UsageError as error:
            self._note(str(error))

    def _note(self, problem: str) -> None:
        self._damaged = True
        self.damage = self.damage or problem
        note = f"{self.file} is damaged, and what it cannot tell is learned anew ({problem})"
        self.notes = self.notes or (note,)


class LearnerReplica(Learner):
    """The learner of one of several processes that learn together: they exchange what each has gained."""

    def __init__(self) -> None:
        super().__init__()
        self._gained: OrderedDict[LearnerKey, LearnerState] = OrderedDict()

    def receive(self, key: LearnerKey, outcome: Outcome) -> LearnerState:
        """Learn from one outcome; the new state."""
        key = LearnerKey.of(*key)
        with self._lock:
            _keep(self._gained, key, self._gained.get(key, LearnerState()).receive(outcome))
        return super().receive(key, outcome)

    def take_gained(self) -> dict[LearnerKey, LearnerState]:
        """What was learned here since the last exchange."""
        with self._lock:
            gained, self._gained = dict(self._gained), OrderedDict()
            return gained

    def put_back(self, gained: Mapping[LearnerKey, LearnerState]) -> None:
        """The exchange failed."""
        with self._lock:
            _add(self._gained, gained)

    def replace(self, shared: Mapping[LearnerKey, LearnerState]) -> None:
        """Go on from what all have learned together, and what was learned here in the meantime."""
        with self._lock:
            self._states = OrderedDict(shared)
            _add(self._states, self._gained)


def _keep(states: OrderedDict[LearnerKey, LearnerState], key: LearnerKey, state: LearnerState) -> LearnerState:
    """Set a state; the one that was used least recently makes room."""
    states[key] = state
    states.move_to_end(key)
    while len(states) > MOST_STATES:
        states.popitem(last=False)
    return state


def _add(states: OrderedDict[LearnerKey, LearnerState], gained: Mapping[LearnerKey, LearnerState]) -> None:
    for key, state in gained.items():
        _keep(states, key, states.get(key, LearnerState()) + state)


def as_learner(learn: Learner | str | Path) -> Learner:
    """A learner, or the learner of a file."""
    if not isinstance(learn, Learner | str | Path):
        raise UsageError(f"learn is {learn!r}; it must be a Learner, a LearnerState or the name of a file")
    return learn if isinstance(learn, Learner) else Learner(learn)


def undamaged_learner(file: Path) -> Learner:
    """The learner of a file; a damaged file is an error, and stays as it is."""
    learner = Learner(file)
    if learner.damage:
        raise UsageError(
            f"{file} is damaged ({learner.damage}) and was left as it is; repair it, or move it away to learn anew"
        )
    return learner
