"""The search for one path: its rounds of branches, how deep they are, and the actions that they lead to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sureenough.core.events import Action, Adopt, Compute, Extend, path_seed
from sureenough.core.search import Computation, Continuation, Draws, Growth, SearchMethod
from sureenough.errors import ProtocolError


class PathSearch:
    """Runs a method. `room` is what is left of the cap on tokens, and limits the branches of the next round."""

    def __init__(self, method: SearchMethod, path: int, seed: int, adopt: Callable[[Growth], int]) -> None:
        """`adopt` makes tokens part of the path, and returns how many it has then."""
        self._search = method.search(Draws(np.random.Generator(np.random.PCG64(seed)).random))
        self._path, self._seed, self._adopt = path, seed, adopt
        self._first_branch = 0  # of this round
        self._replies: list[Continuation | None] = []
        self._sampled: list[int] = []  # tokens of the branches of this round
        self._depth = 0  # tokens of the longest branches of the rounds before
        self._computes = False  # a computation is under way

    @property
    def depth(self) -> int:
        """The longest chain of tokens sampled one after another."""
        return self._depth + max(self._sampled, default=0)

    def begin(self, room: float) -> list[Action]:
        return self._next(None, room)

    def sampled(self, branch: int, tokens: int) -> None:
        if 0 <= branch - self._first_branch < len(self._sampled):
            self._sampled[branch - self._first_branch] += tokens

    def receive(self, branch: int, reply: Continuation, room: float) -> list[Action]:
        """Take in a finished branch; the next round begins when this one is complete."""
        index = branch - self._first_branch
        if not 0 <= index < len(self._replies) or self._replies[index] is not None:
            raise ProtocolError(f"branch {branch} was not requested, or has been received before")
        self._replies[index] = reply
        return [] if None in self._replies else self._next(list(self._replies), room)

    def computed(self, result: Any, room: float) -> list[Action]:
        """Take in the result of a computation."""
        if not self._computes:
            raise ProtocolError("no result of a computation was requested")
        return self._next(result, room)

    def _next(self, received: Any, room: float) -> list[Action]:
        """What the method needs now; the last growth ends the path."""
        self._depth, self._first_branch = self.depth, self._first_branch + len(self._replies)
        self._replies, self._sampled, self._computes = [], [], False
        try:
            following = self._search.send(received)
        except StopIteration as end:
            self._adopt(end.value)
            return [Adopt(self._path, end.value, ends=True)]
        if isinstance(following, Computation):
            self._computes = True
            return [Compute(self._path, following)]
        self._replies, self._sampled = [None] * len(following.samples), [0] * len(following.samples)
        adopted = self._adopt(following.adopted)
        actions: list[Action] = [Adopt(self._path, following.adopted)] if following.adopted.text else []
        for branch, (beginning, limits, tokens) in enumerate(following.samples, self._first_branch):
            limits = limits._replace(max_tokens=max(1, int(min(limits.max_tokens, room))))
            seed = path_seed(self._seed, branch)
            actions.append(Extend(self._path, branch, beginning, limits, seed, max(tokens, adopted)))
        return actions
