"""Search: a path that is put together from continuations of its beginning. A method decides, and samples nothing.

A method is a generator: it yields the continuations that it needs next, and is sent what was sampled. All its draws
come from a generator whose seed depends on the run's seed and the path's number only, so width changes nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import exp
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from sureenough.core.strategy_options import COUNT, HasOptions, option

if TYPE_CHECKING:
    from sureenough.core.events import Token


class SampleLimits(NamedTuple):
    """How a continuation is sampled; top-p is 1."""

    max_tokens: int
    temperature: float
    stop: str | None = None  # the text at which it ends


REST: Final = SampleLimits(3000, 1.0)
"""Of the rest of a path, after the steps that foresight decoding chooses."""


class Growth(NamedTuple):
    """What becomes part of the path: an exact text, and the tokens that were sampled for it."""

    text: str = ""
    tokens: tuple[Token, ...] = ()
    unread: int = 0
    truncated: bool = False  # the limit of tokens cut the path

    @property
    def size(self) -> int:
        return len(self.tokens) + self.unread

    def with_end(self, end: str) -> Growth:
        """With the end of its line, which is part of its last token."""
        tokens = self.tokens
        if tokens:
            tokens = (*tokens[:-1], tokens[-1]._replace(text=tokens[-1].text + end))
        return self._replace(text=self.text + end, tokens=tokens)

    def then(self, other: Growth) -> Growth:
        unread = self.unread + other.unread
        return Growth(self.text + other.text, self.tokens + other.tokens, unread, other.truncated)


class Continuation(NamedTuple):
    """What was sampled after a beginning. The texts of the tokens add up to its text."""

    tokens: tuple[Token, ...] = ()
    logprobs: tuple[float, ...] = ()  # of the sampled tokens
    complete: bool = True  # it ended by itself or at a stop text, not at its limit of tokens
    unread: int = 0  # further tokens, without text or signals, such as the one that ended it
    stop_text: str | None = None  # if complete, the one that ended it; empty: the model did; None: it is not known

    @property
    def text(self) -> str:
        """Without the text at which it stopped."""
        return "".join([token.text for token in self.tokens])

    @property
    def line_end(self) -> str:
        """The line feed at which it stopped, with others that follow in the same token: the model has written them."""
        text = self.stop_text or "\n"
        spaces = text[: len(text) - len(text.lstrip())]
        return text if spaces == text else spaces[: spaces.rfind("\n") + 1] or "\n"

    @property
    def score(self) -> float:
        """Mean log-probability of its tokens; 0 if it has none."""
        return sum(self.logprobs) / len(self.logprobs) if self.logprobs else 0.0

    def parts(self, spans: Sequence[tuple[int, int]]) -> Iterator[tuple[Growth, tuple[float, ...]]]:
        """These ranges of its text, each with the tokens that begin there and their log-probabilities."""
        text, count = self.text, len(self.tokens)
        starts = list(accumulate((len(token.text) for token in self.tokens), initial=0))
        for start, end in spans:
            whole = end >= len(text)
            first = bisect_left(starts, start, 0, count)
            last = count if whole else bisect_left(starts, end, first, count)
            tokens = [self.tokens[n]._replace(text=self.tokens[n].text[: end - starts[n]]) for n in range(first, last)]
            if tokens:  # the range may begin within the token before
                tokens[0] = tokens[0]._replace(text=text[start : starts[first]] + tokens[0].text)
            yield Growth(text[start:end], tuple(tokens), self.unread if whole else 0), self.logprobs[first:last]

    def growth(self) -> Growth:
        return Growth(self.text, self.tokens, self.unread, not self.complete)


class Sample(NamedTuple):
    """A continuation that a method needs."""

    beginning: str
    limits: SampleLimits
    tokens: int = 0  # of the beginning, if they are more than the path has adopted


class Computation(NamedTuple):
    """What a method wants to be computed: a pure function that may take a while, so that it runs beside other work."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]

    def result(self) -> Any:
        return self.function(*self.arguments)


class Round(NamedTuple):
    """The continuations that a method needs next, and what it has decided on before."""

    samples: tuple[Sample, ...]
    adopted: Growth = Growth()


Search = Generator[Round | Computation, Any, Growth]
"""A running method: it yields rounds, receives their continuations in the same order, and returns the path's end.

It may also yield a computation, and receives its result.
"""


class Draws:
    """The random choices of one search, from numbers between 0 and 1."""

    def __init__(self, uniform: Callable[[], float]) -> None:
        self._uniform = uniform

    def seed(self) -> int:
        """A seed for what draws by itself."""
        return int(self._uniform() * (1 << 31))

    def choose(self, weights: Sequence[float]) -> int:
        """An index, with probabilities in proportion to the weights."""
        target, total = self._uniform() * sum(weights), 0.0
        for index, weight in enumerate(weights):
            total += weight
            if target < total:
                return index
        return max(range(len(weights)), key=lambda index: weights[index])  # the sum was rounded

    def without_replacement(self, weights: Sequence[float], count: int) -> list[int]:
        """So many different indices, one draw after another; all of them if there are not more."""
        remaining = list(range(len(weights)))
        chosen: list[int] = []
        while remaining and len(chosen) < count:
            chosen.append(remaining.pop(self.choose([weights[index] for index in remaining])))
        return chosen


def softmax(values: Sequence[float], temperature: float) -> list[float]:
    """Shifted by the largest value, so that nothing overflows."""
    highest = max(values, default=0.0)
    powers = [exp((value - highest) / temperature) for value in values]
    total = sum(powers)
    return [power / total for power in powers]


class SearchMethod(Protocol):
    """How a path is searched for: a frozen dataclass whose options are part of the strategy's spec."""

    @property
    def runs(self) -> int:
        """Paths per question, if the budget does not say less."""

    def check(self) -> None:
        """Refuse to begin if something is missing, before anything is sampled."""

    def search(self, draws: Draws) -> Search:
        """Begin one path."""


@dataclass(frozen=True, slots=True)
class SearchOptions(HasOptions):
    """What all methods have in common."""

    runs: int = option(8, "searches per question, each of which is one path", COUNT)

    def check(self) -> None:
        """Most methods need nothing beside the engine."""
