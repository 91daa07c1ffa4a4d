"""Watch a run from Python: observers receive every event, the actions that it led to, and a snapshot."""

from __future__ import annotations

from collections.abc import Sequence

import sureenough as se
from sureenough.core.events import Action, Ended, Stop
from sureenough.core.outcome import Snapshot
from sureenough.drivers.observers import ObservedEvent


def watch(event: ObservedEvent, actions: Sequence[Action], snapshot: Snapshot) -> None:
    """Print a line per path that ends, and one when the run ends; token events are the most frequent, so be quick."""
    if isinstance(event, Ended):
        path = snapshot.paths[event.path]
        measured = snapshot.votes.verdict.measured() or "no votes yet"
        print(f"path {event.path:2} {path.fate}: {path.tokens:3} tokens, answer {event.answer}; {measured}")
    for action in actions:
        if isinstance(action, Stop):
            print(f"stop: {action.reason}, {snapshot.generated} tokens")


def main() -> None:
    out = se.ask("Solve for x: 6x=42.", se.Local(), "ddc:warmup=6", paths=16, observers=[watch])
    print("answer:", out.answer)


if __name__ == "__main__":
    main()
