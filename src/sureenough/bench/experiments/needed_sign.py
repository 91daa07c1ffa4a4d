"""How well a sign would have to tell lost paths for pruning to pay: made-up signs of known quality, on real paths.

A sign is a number per path, known after a part of it. Half of the paths, those that look worst, end there and do not
vote. The alternative is plain voting over fewer paths, for as many tokens: a sign that says nothing loses against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from sureenough.bench.experiments.columns import measure
from sureenough.bench.experiments.experiment import Inputs
from sureenough.bench.experiments.table_settings import settings_note
from sureenough.bench.judging import JudgedAnswers
from sureenough.bench.result import Cell, ResultColumn, Table
from sureenough.bench.score import intervals
from sureenough.bench.source import Source
from sureenough.bench.summaries import in_order
from sureenough.core.confidence.instability import Bools, Floats
from sureenough.pools import Question, RecordedPath

AREAS: Final = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Areas under the ROC curve of the signs."""
KNOWN: Final = (0.1, 0.25, 0.5)
"""When a sign is known: after so much of the mean length of the question's paths."""
PRUNED: Final = 0.5
"""The share of the paths that look worst."""
FAR: Final = 1e6
"""Between right and wrong paths, in standard deviations, if a sign never errs."""


@dataclass(frozen=True, slots=True)
class Paths:
    """The paths of a question in some order."""

    classes: NDArray[np.intp]  # -1 without an answer
    right: Bools
    tokens: Floats
    right_classes: Bools

    def score(self, voting: Bools) -> float:
        """1 if these paths vote for a right answer; a tie is broken by chance."""
        counts = np.bincount(self.classes[voting & (self.classes >= 0)], minlength=len(self.right_classes))
        return float(self.right_classes[counts == counts.max()].mean()) if counts.any() else 0.0


def paths_of(order: Sequence[RecordedPath], judged: JudgedAnswers, right: dict[str, bool]) -> Paths:
    """Recorded paths as arrays."""
    classes = [judged.classes.get(path.answer, -1) if path.answer is not None else -1 for path in order]
    is_right = [path.answer is not None and right[path.answer] for path in order]
    right_classes = np.zeros(max(judged.classes.values(), default=0) + 1, np.bool_)
    right_classes[[number for number, one in zip(classes, is_right, strict=True) if one and number >= 0]] = True
    return Paths(np.array(classes), np.array(is_right), np.array([path.tokens for path in order], float), right_classes)


@dataclass(frozen=True, slots=True)
class ReadNeededSigns:
    """The pipeline's task: by area and time, the scores with the sign and without it, and the share of tokens."""

    repeats: int
    seed: int
    budget: int | None

    def __call__(self, question: Question, judged: JudgedAnswers) -> Floats | None:
        right = judged.right
        if right is None or not any(path.tokens for path in question.paths):
            return None
        results = []
        for repeat in range(self.repeats):
            paths = paths_of(in_order(question, repeat, self.seed, self.budget), judged, right)
            rng = np.random.default_rng((self.seed, repeat, crc32(question.id.encode()), 1))
            results.append(compared(paths, rng.standard_normal(len(paths.tokens))))
        mean: Floats = np.mean(results, axis=0)
        return mean


def compared(paths: Paths, noise: Floats) -> Floats:
    """By area and time: the score with pruning, that of as many tokens without it, and these as a share of all."""
    result = np.zeros((len(AREAS), len(KNOWN), 3))
    length = paths.tokens.mean()
    for i, area in enumerate(AREAS):
        sign = paths.right * distance(area) + noise
        worst = sign.argsort().argsort() < round(PRUNED * len(sign))
        for j, part in enumerate(KNOWN):
            ended = worst & (paths.tokens > part * length)
            spent = float(np.where(ended, part * length, paths.tokens).sum())
            fewer = np.arange(len(sign)) < max(1, round(spent / length))
            result[i, j] = paths.score(~ended), paths.score(fewer), spent / paths.tokens.sum()
    return result


def distance(area: float) -> float:
    """Between the means of two normal distributions with this area under the ROC curve, in standard deviations."""
    return min(FAR, float(np.sqrt(2.0) * ndtri(area)))


# -- table


def needed_table(sources: Sequence[Source], pools: Sequence[Sequence[Floats | None]], inputs: Inputs) -> Table:
    """One row per quality of a sign and time at which it is known."""
    rows: list[list[Cell]] = []
    for source, values in zip(sources, pools, strict=True):
        known = np.array([value for value in values if value is not None]).reshape(-1, len(AREAS), len(KNOWN), 3)
        for i, area in enumerate(AREAS) if len(known) else ():
            for j, part in enumerate(KNOWN):
                scores = known[:, i, j]
                gain = (scores[:, 0] - scores[:, 1])[:, None]
                means = [float(one) for one in scores.mean(axis=0)]
                difference = measure(float(gain.mean()), intervals(gain, inputs.options.seed)[0])
                rows.append([source.dataset, source.model, area, part, len(known), means[2], *means[:2], difference])
    notes = [
        f"a made-up sign per path, normal with a mean that is higher for right paths; the {PRUNED:.0%} of a question's "
        "paths with the lowest sign end where it is known, and do not vote; votes count one each",
        "as many tokens without pruning: plain voting over as many of the same paths as these tokens make",
        "area 1 is a sign that never errs, 0.5 one that says nothing; the table of areas has those of real signs",
        settings_note(
            budget=f"{inputs.options.paths or 'all recorded'} paths",
            repeats=f"{inputs.settings.repeats}, seed {inputs.options.seed}",
        ),
    ]
    return Table("needed", "How well a sign would have to tell lost paths for pruning to pay", COLUMNS, rows, notes)


COLUMNS: Final = [
    ResultColumn("dataset"),
    ResultColumn("model"),
    ResultColumn("area", "number", digits=1),
    ResultColumn("known after", "percent", "% of the mean length"),
    ResultColumn("questions", "count"),
    ResultColumn("tokens", "percent", "% of sc"),
    ResultColumn("accuracy", "percent", "%"),
    ResultColumn("as many tokens without pruning", "percent", "%"),
    ResultColumn("difference", "points"),
]
