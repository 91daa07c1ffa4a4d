"""A search that was interrupted goes on from its recorded events as if nothing had happened."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from sureenough.core.events import (
    Action,
    Adopt,
    Cancel,
    Compute,
    Computed,
    Ended,
    Event,
    Extend,
    Extended,
    Fate,
    Sampled,
)
from sureenough.core.options import RunOptions
from sureenough.core.outcome import Outcome
from sureenough.core.search import SearchMethod
from sureenough.core.session import Session
from sureenough.core.strategy import Strategy
from sureenough.strategies import STRATEGIES
from tests.core.searching import toy
from tests.core.test_search import MUR, PHI, PREDICTIVE, answer

CHUNK = 2  # tokens that a branch grows by
DRAWING = replace(PREDICTIVE, select=0.5)


@dataclass
class Driver:
    """Carries out what a session asks of the toy model, the branches of a round in turn, one event at a time.

    What it does next follows from the events so far, as it does for a driver that has read them from a file.
    """

    session: Session
    requests: dict[tuple[int, int], Extend | Compute | Adopt] = field(default_factory=dict)  # by path and branch
    sampled: dict[tuple[int, int], int] = field(default_factory=dict)  # tokens of their branches
    texts: dict[int, str] = field(default_factory=dict)

    def take(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Extend(path, branch):
                    self.requests[path, branch] = action
                case Compute(path):
                    self.requests[path, -1] = action
                case Adopt(path, growth, ends):
                    self.texts[path] = self.texts.get(path, "") + growth.text
                    if ends:
                        self.requests[path, -1] = action
                case Cancel(path):
                    self.requests = {key: request for key, request in self.requests.items() if key[0] != path}

    def receive(self, event: Event) -> list[Action]:
        match event:
            case Sampled(path, branch, tokens):
                self.sampled[path, branch] = self.sampled.get((path, branch), 0) + tokens
            case Extended(path, branch):
                self.requests.pop((path, branch), None)
            case Computed(path) | Ended(path):
                self.requests.pop((path, -1), None)
        actions = self.session.receive(event)
        self.take(actions)
        return actions

    def next(self) -> Event:
        """What becomes of the request that has the fewest tokens so far."""
        key = min(self.requests, key=lambda one: (self.sampled.get(one, 0), one))
        match self.requests[key]:
            case Compute(path, computation):
                return Computed(path, computation.result())
            case Adopt(path):
                return Ended(path, Fate.KEPT, answer(self.texts[path]))
            case Extend(path, branch, beginning, limits, seed):
                reply = toy(beginning, limits, seed)
                left = len(reply.tokens) + reply.unread - self.sampled.get(key, 0)
                return Sampled(path, branch, min(CHUNK, left)) if left else Extended(path, branch, reply)


History = list[tuple[Event, list[Action]]]


def run(strategy: Strategy, options: RunOptions, recorded: Sequence[Event] = ()) -> tuple[History, Outcome]:
    """Every event with what followed, and the outcome; the first events are recorded, the model gives the others."""
    driver, history, remaining = Driver(Session(strategy, options)), History(), deque(recorded)
    driver.take(driver.session.begin())
    while not driver.session.done:
        event = remaining.popleft() if remaining else driver.next()
        history.append((event, driver.receive(event)))
    return history, driver.session.outcome()


@pytest.mark.parametrize("sizes", [{"parallel": 1}, {"parallel": 3}, {"parallel": 3, "max_tokens": 150}], ids=str)
@pytest.mark.parametrize("voting", ["sc", "sure"])
@pytest.mark.parametrize(
    "method", [PREDICTIVE, DRAWING, PHI, MUR], ids=["predictive", "predictive draws", "phi", "mur"]
)
def test_an_interrupted_run_goes_on_from_its_events(method: SearchMethod, voting: str, sizes: dict[str, int]) -> None:
    strategy = replace(STRATEGIES[voting], search=method)
    options = RunOptions(paths=4, window=2, **sizes)
    history, outcome = run(strategy, options)
    events = pickle.dumps([event for event, _ in history])
    for interrupted in range(0, len(history), 7):  # between rounds, within rounds, within branches
        again, same = run(strategy, options, pickle.loads(events)[:interrupted])
        assert again == history, f"after {interrupted} of {len(history)} events"
        assert same == outcome
    kinds = {type(event) for event, _ in history}
    assert {Sampled, Extended} <= kinds
    assert Ended in kinds or outcome.reason == "max_tokens"
    assert (Computed in kinds) == (method is PHI)
