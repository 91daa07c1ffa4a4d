"""What was learned of a model's confidence, for `doctor`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from sureenough.errors import UsageError
from sureenough.pools.learner import undamaged_learner
from sureenough.server.learned import LEARNED_FILE, learned_signals

LearnFile = Annotated[
    Path | None, typer.Option("--learn", help="Show what `ask --learn FILE` has learned of the model.")
]
StateFolder = Annotated[
    Path | None, typer.Option("--state", help="Show what `serve --state DIR` has learned of the model.")
]


class LearnedStates:
    """The states of a file of `ask` and of a folder of `serve`, either of which may be missing."""

    def __init__(self, learn: Path | None, state: Path | None) -> None:
        self.files = [file for file in (learn, None if state is None else state / LEARNED_FILE) if file is not None]
        if state is not None and state.is_file():
            raise UsageError(f"{state} is a file; --state names the folder of `serve --state`")
        missing = next((file for file in self.files if not file.exists()), None)
        if missing is not None:
            raise UsageError(f"{missing} does not exist: nothing was learned there yet")
        self._learners = [undamaged_learner(file) for file in self.files]

    def of(self, model: str) -> list[dict[str, Any]]:
        """What is known of a model, by window and strategy."""
        return [one for learner in self._learners for one in learned_signals(learner) if one["model"] == model]

    def lines(self, model: str) -> Iterator[str]:
        """The same in sentences."""
        known = self.of(model)
        if self.files and not known:
            yield f"Nothing is known of the confidence of {model}."
        for one in known:
            window = f", window {one['window']}" if one["window"] else ""
            parts = _signals(one["signals"]) if one["window"] else ()
            yield (
                f"Learned of {model}{window}, {one['strategy']}, after {_count(one['questions'], 'question')}: "
                f"{'; '.join(parts) or 'nothing yet'}."
            )


def _signals(signals: dict[str, Any]) -> list[str]:
    return [
        f"{name.replace('_', ' ')} goes with agreement by {signal['r']:+.2f} "
        f"({_basis(signal['questions'])}) and weighs {signal['beta']:.2f}"
        for name, signal in signals.items()
    ]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _basis(questions: int) -> str:
    """A signal learns from questions with at least five votes that do not all agree, not from every one."""
    if not questions:
        return "the prior: no contested question yet"
    return _count(questions, "contested question")
