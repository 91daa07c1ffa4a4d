"""Search: a path that is put together from continuations of its beginning. A method decides, and samples nothing.

A method is a generator: it yields the continuations that it needs next, and is sent what was sampled. All its draws
come from a generator whose seed depends on the run's seed and the path's number only, so width changes nothing.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from itertools import accumulate
from math import exp
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sureenough.core.options import (
    COUNT,
    FEW,
    NOT_NEGATIVE,
    PROBABILITY,
    STEPS,
    TEMPERATURE,
    TOKENS,
    HasOptions,
    option,
)
from sureenough.errors import UsageError

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


def sampled(sample: Sample, *adopted: Growth) -> Generator[Round, Any, Continuation]:
    """A round of one sample."""
    reply: Continuation
    (reply,) = yield Round((sample,), *adopted)
    return reply


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


@dataclass(frozen=True, slots=True)
class SearchMethod(HasOptions):
    """How a path is searched for; its options are part of the strategy's spec."""

    runs: int = option(8, "searches per question, each of which is one path", COUNT)

    def check(self) -> None:
        """Refuse to begin if something is missing, before anything is sampled."""

    def search(self, draws: Draws) -> Search:
        """Begin one path."""
        raise NotImplementedError


# Texts by their words: TF-IDF and k-means, from scikit-learn, which the extra `search` installs.

Cluster = Callable[[Sequence[str], int, int], list[int] | None]
"""The cluster of every text, given how many clusters there may be and a seed; None if the texts have no words."""
LONGEST_TEXT: Final = 20_000
"""Characters of a text that are read; 3,000 tokens, the most that are sampled, are about 12,000 in ordinary texts."""
MOST_WORDS: Final = 16_384
"""Different words that count, the most frequent ones; 16 foresights of 1,024 tokens cannot have more."""


def text_clusters(texts: Sequence[str], clusters: int, seed: int) -> list[int] | None:
    """The clusters of texts; no more than there are different texts, with which k-means has no solution."""
    from sklearn.cluster import KMeans
    from sklearn.feature_extraction.text import TfidfVectorizer

    try:
        words = TfidfVectorizer(max_features=MOST_WORDS)
        vectors = words.fit_transform([text[:LONGEST_TEXT] for text in texts]).toarray()
    except ValueError:  # no text has a word of two letters or digits
        return None
    different = len({row.tobytes() for row in vectors})
    kmeans = KMeans(min(clusters, different), random_state=seed).fit(vectors)
    return [int(label) for label in kmeans.labels_]


# Predictive decoding (Ma et al., 2024): a line is chosen by how likely rollouts from it are; see docs/search.md.

_LINE: Final = re.compile(r"(?:\A\n+)?[^\n]+(?:\n+|$)")  # without \A, line feeds alone take quadratic time


class Line(NamedTuple):
    """A step of a rollout: a line and the line feeds after it."""

    growth: Growth
    ends: bool  # the path ends with it

    def continues(self, line: Line) -> bool:
        """Whether it is the same line, whatever blank lines are around it, with something after it."""
        return self.growth.text.strip("\n") == line.growth.text.strip("\n") and not self.ends


def lines_of(rollout: Continuation, most: int) -> tuple[list[Line], float]:
    """The first lines of a rollout, and their mean log-probability.

    A last line that the limit of tokens cut is left out, unless it is the only one.
    """
    text = rollout.text
    spans = [match.span() for match in _LINE.finditer(text)]
    if not rollout.complete and len(spans) > 1 and not text.endswith("\n"):
        spans.pop()
    lines, logprobs = list[Line](), list[float]()
    for (_, end), (growth, values) in zip(spans[:most], rollout.parts(spans[:most]), strict=True):
        lines.append(Line(growth, rollout.complete and end == len(text)))
        logprobs += values
    return lines, fmean(logprobs) if logprobs else 0.0


class Rollout(NamedTuple):
    """What a rollout has beyond the path, and how likely its first lines were when it was sampled."""

    lines: list[Line]
    value: float


@dataclass(frozen=True, slots=True)
class Predictive(SearchMethod):
    """Predictive decoding: the next line is that of the rollouts whose next lines are likeliest."""

    rollouts: int = option(8, "rollouts per step", FEW)
    lookahead: int = option(8, "lines of a rollout by which it is judged", FEW)
    rollout_tokens: int = option(500, "most tokens of a rollout", TOKENS)
    heat: float = option(0.8, "temperature of rollouts", NOT_NEGATIVE)
    select: float = option(0.0, "temperature of the choice among rollouts; 0: the best one", NOT_NEGATIVE)
    max_steps: int = option(30, "lines that are chosen, before the rest is sampled at once", STEPS)

    def search(self, draws: Draws) -> Search:
        """Sample rollouts, adopt the first line of one, and go on from there."""
        text, adopted = "", Growth()
        memory: list[Rollout] = []
        limits = SampleLimits(self.rollout_tokens, self.heat)
        for _ in range(self.max_steps):
            replies = yield Round((Sample(text, limits),) * self.rollouts, adopted)
            for reply in replies:
                lines, score = lines_of(reply, self.lookahead)
                memory.append(Rollout(lines, exp(score)))
            memory = [rollout for rollout in memory if rollout.lines]
            if not memory:  # every rollout is empty: the model has nothing to add, or the path is at its limit
                return Growth(truncated=not all(reply.complete for reply in replies))
            values = [rollout.value for rollout in memory]
            chosen = draws.choose(softmax(values, self.select)) if self.select else values.index(max(values))
            line = memory[chosen].lines[0]
            if line.ends:
                return line.growth
            adopted = line.growth
            text += adopted.text
            memory = [Rollout(lines[1:], value) for lines, value in memory if lines[0].continues(line)]
        rest = yield from sampled(Sample(text, REST._replace(temperature=self.heat)), adopted)
        return rest.growth()


# φ-decoding (Xu et al., 2025): lines are drawn by the likelihood and likeness of foresights; see docs/search.md.

STEP: Final = SampleLimits(1024, 0.6, "\n")
FORESIGHT: Final = SampleLimits(1024, 1.0)
MOST_CANDIDATES: Final = 64  # of a step, each of which is a text to cluster
FINAL_TEMPERATURE: Final = 0.1
"""Of the choices among steps and among finished beams, which are made by log-probability alone."""


class Beam(NamedTuple):
    """A path in the making."""

    growth: Growth = Growth()
    value: float = 0.0  # mean log-probability of its foresight

    def sample(self, limits: SampleLimits) -> Sample:
        return Sample(self.growth.text, limits, self.growth.size)

    def advantage(self, after: Continuation) -> float:
        """How much likelier what comes next has become; 0 for an end whose log-probability the engine does not send."""
        return after.score - self.value if after.logprobs else 0.0


class WidenedBeam(NamedTuple):
    """A beam with one more line."""

    beam: Beam
    step: Continuation

    @property
    def text(self) -> str:
        """Without the line feed if only the foresight can tell whether the path ends here."""
        goes_on = self.step.complete and self.step.stop_text
        return self.beam.growth.text + self.step.text + (self.step.line_end if goes_on else "")

    def sample(self) -> Sample:
        return Sample(self.text, FORESIGHT, self.beam.growth.size + self.step.growth().size)

    def ends(self, foresight: Continuation) -> bool:
        """Whether the path ends with this line; if the engine does not say so, its foresight has nothing to add."""
        if self.step.complete and self.step.stop_text is not None:
            return not self.step.stop_text
        return foresight.complete and not foresight.text.strip()

    def grown(self, *, ends: bool) -> Growth:
        """The path with this line, and with its line feed if the path goes on after it."""
        growth = self.step.growth()._replace(truncated=False)
        return self.beam.growth.then(growth.with_end(self.step.line_end) if self.step.complete and not ends else growth)


@dataclass(frozen=True, slots=True)
class Phi(SearchMethod):
    """φ-decoding: lines are drawn by how likely their foresight is, and by how many foresights are alike."""

    beams: int = option(4, "beams that are kept after a step", FEW)
    rollouts: int = option(4, "next lines that are sampled per beam", FEW)
    min_steps: int = option(4, "steps before the search may end early", STEPS)
    max_steps: int = option(8, "steps after which the beams are finished", STEPS)
    clusters: int = option(3, "clusters of foresights", FEW)
    share: float = option(0.7, "share of the largest cluster that ends the search", PROBABILITY)
    tau1: float = option(0.6, "temperature of the choice by advantage", TEMPERATURE)
    tau2: float = option(0.6, "temperature of the choice by cluster", TEMPERATURE)
    cluster: Cluster = text_clusters

    def check(self) -> None:
        """Refuse to begin with too many candidates, or without scikit-learn.

        Options are set one at a time, so their product is known only now.
        """
        candidates = self.beams * self.rollouts
        if candidates > MOST_CANDIDATES:
            raise UsageError(
                f"beams={self.beams} and rollouts={self.rollouts} make {candidates} candidates per step: "
                f"choose sizes whose product is at most {MOST_CANDIDATES}"
            )
        if self.cluster is text_clusters:
            if find_spec("sklearn") is None:
                raise UsageError(
                    "phi clusters texts with scikit-learn, which is missing: pip install 'sureenough[search]'"
                )
            for name in ("sklearn.cluster", "sklearn.feature_extraction.text"):
                import_module(name)  # which takes seconds, and must not delay paths

    def search(self, draws: Draws) -> Search:
        """Widen the beams by a line, look ahead from each, draw those to keep; then finish them and choose one."""
        beams, ended = [Beam()] * self.beams, list[tuple[Beam, Continuation]]()
        for step in range(1, self.max_steps + 1):
            grown = [beam for beam in beams for _ in range(self.rollouts)]
            replies = yield Round(tuple(beam.sample(STEP) for beam in grown))
            candidates = [WidenedBeam(*pair) for pair in zip(grown, replies, strict=True)]
            kept = likely_steps(candidates, len(beams), draws)
            foresights = yield Round(tuple(candidate.sample() for candidate in kept))
            labels = yield self._clusters(foresights, self.clusters, draws)
            chosen, settled = self._draw(list(zip(kept, foresights, strict=True)), labels, len(beams), draws)
            beams = []
            for candidate, foresight in chosen:
                if candidate.ends(foresight):
                    last = Beam(candidate.grown(ends=True), candidate.beam.value)
                    ended.append((last, Continuation(logprobs=foresight.logprobs)))
                else:
                    beams.append(Beam(candidate.grown(ends=False), foresight.score))
            if not beams or (settled and step >= self.min_steps):
                break
        rests = (yield Round(tuple(beam.sample(REST) for beam in beams))) if beams else ()
        finished = [*zip(beams, rests, strict=True), *ended]
        if all(rest.text.strip() for _, rest in finished):  # so that they can be clustered: the larger of two counts
            labels = yield self._clusters([rest for _, rest in finished], 2, draws)
            if labels is not None:
                largest = max(labels, key=labels.count)
                finished = [pair for pair, label in zip(finished, labels, strict=True) if label == largest]
        advantages = [beam.advantage(rest) for beam, rest in finished]
        last, rest = finished[draws.choose(softmax(advantages, FINAL_TEMPERATURE))]
        return last.growth.then(rest.growth())

    def _clusters(self, samples: Sequence[Continuation], most: int, draws: Draws) -> Computation:
        """The clusters of texts; k-means is too slow for the thread that reads all paths."""
        return Computation(self.cluster, ([sample.text for sample in samples], most, draws.seed()))

    def _draw(
        self, outlooks: list[tuple[WidenedBeam, Continuation]], labels: list[int] | None, count: int, draws: Draws
    ) -> tuple[list[tuple[WidenedBeam, Continuation]], bool]:
        """The candidates that become beams, and whether the foresights are so alike that the search may end."""
        weights, share = softmax([before.beam.advantage(after) for before, after in outlooks], self.tau1), 0.0
        if labels is not None:
            shares = [labels.count(label) / len(labels) for label in labels]
            weights = [(a + c) / 2 for a, c in zip(weights, softmax(shares, self.tau2), strict=True)]
            share = max(shares)
        settled = share >= self.share or len({foresight.text for _, foresight in outlooks}) == 1
        return [outlooks[i] for i in draws.without_replacement(weights, count)], settled


def likely_steps(candidates: Sequence[WidenedBeam], least: int, draws: Draws) -> list[WidenedBeam]:
    """Those whose step is likelier than the mean less one standard deviation, and others if these are too few."""
    scores = [candidate.step.score for candidate in candidates]
    floor = fmean(scores) - pstdev(scores)
    kept = [index for index, score in enumerate(scores) if score > floor]
    others = [index for index in range(len(scores)) if index not in kept]
    if len(kept) < least:
        weights = softmax([scores[index] for index in others], FINAL_TEMPERATURE)
        kept += [others[index] for index in draws.without_replacement(weights, least - len(kept))]
    return [candidates[index] for index in sorted(kept)]


# MUR: a line that the model finds less likely than those before it is sampled again; see docs/search.md.
#
# Yan et al., 2025.

LONGEST_REST: Final = 8096
BLANK_LINES: Final = 4
"""Lines without text do not count as steps; after so many lines per step the rest is sampled at once all the same."""


@dataclass(frozen=True, slots=True)
class Mur(SearchMethod):
    """Momentum uncertainty: the likelihood of a line is compared with a moving average over the lines before it."""

    candidates: int = option(4, "lines that are sampled instead of one that is too unlikely", FEW)
    momentum: float = option(0.9, "share of the moving average that a line leaves as it was", PROBABILITY)
    scale: float = option(0.9, "share of the average likelihood that a line must have", PROBABILITY)
    heat: float = option(0.6, "temperature of lines", NOT_NEGATIVE)
    line_tokens: int = option(2048, "most tokens of a line", TOKENS)
    max_steps: int = option(20, "lines that are watched, before the rest is sampled at once", STEPS)

    def search(self, draws: Draws) -> Search:
        """Sample line after line, and those that are too unlikely again."""
        text, size, adopted, average, steps = "", 0, Growth(), 0.0, 0
        for _ in range(BLANK_LINES * self.max_steps):
            line = yield from self._line(text, adopted, average, steps)
            if not line.complete and not line.text:  # the path is at its limit
                return Growth(truncated=True)
            growth, ends = line.growth()._replace(truncated=False), line.complete and line.stop_text == ""
            size += growth.size if growth.tokens else 0  # as the path counts it
            if line.complete and line.stop_text is None:
                after = yield from sampled(Sample(text + line.text, SampleLimits(1, self.heat), size))
                ends = after.complete and not after.text
            if ends:
                return growth
            adopted = growth.with_end(line.line_end) if line.complete else growth
            text += adopted.text
            if line.text.strip():
                average = self.momentum * average + (1.0 - self.momentum) * line.score
                steps += 1
            if steps == self.max_steps:
                break
        rest = yield from sampled(Sample(text, SampleLimits(LONGEST_REST, self.heat)), adopted)
        return rest.growth()

    def _line(
        self, text: str, adopted: Growth, average: float, steps: int
    ) -> Generator[Round | Computation, Any, Continuation]:
        """The next line; if it is too unlikely, the likeliest of some others."""
        sample = Sample(text, SampleLimits(self.line_tokens, self.heat, "\n"))
        first = yield from sampled(sample, adopted)
        if not steps or not first.text.strip() or exp(first.score) >= exp(average) * self.scale:
            return first
        others: list[Continuation] = yield Round((sample,) * self.candidates)
        return max(others, key=lambda other: other.score)
