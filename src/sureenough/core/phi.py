"""φ-decoding (Xu et al., 2025): lines are drawn by the likelihood and likeness of foresights; see docs/search.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev
from typing import Final, NamedTuple

from sureenough.core.search import (
    REST,
    Computation,
    Continuation,
    Draws,
    Growth,
    Round,
    Sample,
    SampleLimits,
    Search,
    SearchOptions,
    softmax,
)
from sureenough.core.strategy_options import FEW, PROBABILITY, STEPS, TEMPERATURE, option
from sureenough.core.text_clusters import Cluster, require_scikit_learn, text_clusters
from sureenough.errors import UsageError

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
class Phi(SearchOptions):
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
            require_scikit_learn()

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
            chosen, settled = self._draw(kept, foresights, labels, len(beams), draws)
            beams = []
            for candidate, foresight in chosen:
                if candidate.ends(foresight):
                    last = Beam(candidate.grown(ends=True), candidate.beam.value)
                    ended.append((last, Continuation(logprobs=foresight.logprobs)))
                else:
                    beams.append(Beam(candidate.grown(ends=False), foresight.score))
            if not beams or (settled and step >= self.min_steps):
                break
        rests = list((yield Round(tuple(beam.sample(REST) for beam in beams))) if beams else ())
        rests += [end for _, end in ended]
        continued = all(rest.text.strip() for rest in rests)
        labels = (yield self._clusters(rests, 2, draws)) if continued else None
        return self._finish([*beams, *(beam for beam, _ in ended)], rests, labels, draws)

    def _clusters(self, samples: Sequence[Continuation], most: int, draws: Draws) -> Computation:
        """The clusters of texts; k-means is too slow for the thread that reads all paths."""
        return Computation(self.cluster, ([sample.text for sample in samples], most, draws.seed()))

    def _draw(
        self,
        kept: Sequence[WidenedBeam],
        foresights: Sequence[Continuation],
        labels: list[int] | None,
        count: int,
        draws: Draws,
    ) -> tuple[list[tuple[WidenedBeam, Continuation]], bool]:
        """The candidates that become beams, and whether the foresights are so alike that the search may end."""
        advantages = [before.beam.advantage(after) for before, after in zip(kept, foresights, strict=True)]
        weights, share = softmax(advantages, self.tau1), 0.0
        if labels is not None:
            shares = [labels.count(label) / len(labels) for label in labels]
            weights = [(a + c) / 2 for a, c in zip(weights, softmax(shares, self.tau2), strict=True)]
            share = max(shares)
        settled = share >= self.share or len({foresight.text for foresight in foresights}) == 1
        return [(kept[i], foresights[i]) for i in draws.without_replacement(weights, count)], settled

    def _finish(
        self, beams: Sequence[Beam], rests: Sequence[Continuation], labels: list[int] | None, draws: Draws
    ) -> Growth:
        """One of the finished beams, in the larger of two clusters if they could be clustered."""
        among = list(range(len(beams)))
        if labels is not None:
            largest = max(labels, key=labels.count)
            among = [index for index in among if labels[index] == largest]
        advantages = [beams[index].advantage(rests[index]) for index in among]
        index = among[draws.choose(softmax(advantages, FINAL_TEMPERATURE))]
        return beams[index].growth.then(rests[index].growth())


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
