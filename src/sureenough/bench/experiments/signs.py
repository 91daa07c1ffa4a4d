"""What it is worth to end half of the paths early by a sign, and how good a sign would have to be for that to pay.

A sign is a number per path, known after some of its tokens. Of the paths that got so far, the half that looks worst
ends there and does not vote. The alternative is plain voting over fewer paths, for as many tokens. Against it, a sign
that says nothing neither gains nor loses early; late it gains, where long paths are more often wrong. Real signs are
those of depth.py, read both ways; made-up ones tell right from wrong paths with a known area under the ROC curve,
whatever the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from sureenough.bench.experiments.columns import measure
from sureenough.bench.experiments.depth import ABSOLUTE, SIGNALS, ReadDepths
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
"""Areas under the ROC curve of made-up signs."""
KNOWN: Final = (0.1, 0.25, 0.5)
"""When they are known: after so much of the mean length of the question's paths."""
ENDED: Final = 0.5
"""The share of paths that a sign ends."""
WAYS: Final = (("least sure", 1.0), ("surest", -1.0))
"""The half that real signs end."""
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

    def ended_by(self, sign: Floats, tokens: float) -> Floats:
        """The score if a sign ends paths after so many tokens, that of as many tokens without it, and their share."""
        going = np.flatnonzero((self.tokens > tokens) & np.isfinite(sign))
        worst = going[sign[going].argsort()[: round(ENDED * len(going))]]
        voting, spent = np.ones(len(sign), np.bool_), self.tokens.copy()
        voting[worst], spent[worst] = False, tokens
        fewer = np.arange(len(sign)) < max(1, round(spent.sum() / self.tokens.mean()))
        return np.array([self.score(voting), self.score(fewer), spent.sum() / self.tokens.sum()])


def paths_of(order: Sequence[RecordedPath], judged: JudgedAnswers, right: dict[str, bool]) -> Paths:
    """Recorded paths as arrays."""
    classes = [judged.classes.get(path.answer, -1) if path.answer is not None else -1 for path in order]
    is_right = [path.answer is not None and right[path.answer] for path in order]
    right_classes = np.zeros(max(judged.classes.values(), default=0) + 1, np.bool_)
    right_classes[[number for number, one in zip(classes, is_right, strict=True) if one and number >= 0]] = True
    return Paths(np.array(classes), np.array(is_right), np.array([path.tokens for path in order], float), right_classes)


class SignScores(NamedTuple):
    """Of one question: with the sign, as many tokens without it, the share of tokens; means over repeats."""

    made_up: Floats  # by area, time and these three
    real: Floats  # by depth in tokens, signal, way and these three; NaN where no path got so far


@dataclass(frozen=True, slots=True)
class ReadSigns:
    """The pipeline's task: paths ended by made-up signs and, at one window, by real ones."""

    window: int
    repeats: int
    seed: int
    budget: int | None

    def __call__(self, question: Question, judged: JudgedAnswers) -> SignScores | None:
        paths = [path for path in question.paths if path.tokens]
        if judged.right is None or not paths:
            return None
        signs = ReadDepths((self.window,)).values(paths)[0]
        places = {id(path): i for i, path in enumerate(paths)}
        made_up, real = [], []
        for repeat in range(self.repeats):
            order = [path for path in in_order(question, repeat, self.seed, self.budget) if id(path) in places]
            if not order:  # none of the paths of this budget has a token
                continue
            ordered = paths_of(order, judged, judged.right)
            rng = np.random.default_rng((self.seed, repeat, crc32(question.id.encode()), 1))
            made_up.append(by_made_up_signs(ordered, rng.standard_normal(len(order))))
            real.append(by_real_signs(ordered, signs[:, :, [places[id(path)] for path in order]]))
        return SignScores(np.mean(made_up, axis=0), np.mean(real, axis=0)) if made_up else None


def by_made_up_signs(paths: Paths, noise: Floats) -> Floats:
    """By area and time."""
    places = [part * float(paths.tokens.mean()) for part in KNOWN]
    signs = [paths.right * distance(area) + noise for area in AREAS]
    return np.array([[paths.ended_by(sign, place) for place in places] for sign in signs])


def by_real_signs(paths: Paths, signs: Floats) -> Floats:
    """By depth in tokens, signal and way; the signs are those of all depths."""
    absolute = signs[-len(ABSOLUTE) :]
    result = np.full((len(ABSOLUTE), len(SIGNALS), len(WAYS), 3), np.nan)
    for i, depth in enumerate(ABSOLUTE):
        if (paths.tokens > depth.tokens).any():
            result[i] = [[paths.ended_by(way * sign, depth.tokens) for _, way in WAYS] for sign in absolute[i]]
    return result


def distance(area: float) -> float:
    """Between the means of two normal distributions with this area under the ROC curve, in standard deviations."""
    return FAR if area == 1.0 else 2**0.5 * NormalDist().inv_cdf(area)


# -- tables

SCORES: Final = [
    ResultColumn("questions", "count"),
    ResultColumn("tokens", "percent", "% of sc"),
    ResultColumn("accuracy", "percent", "%"),
    ResultColumn("as many tokens without", "percent", "%"),
    ResultColumn("difference", "points"),
]
NAMES: Final = [ResultColumn("dataset"), ResultColumn("model")]
RULE: Final = (
    f"of the paths of a question that got so far, the {ENDED:.0%} with the lowest sign end there and do not vote; "
    "votes count one each. As many tokens without: plain voting over as many of the same paths as these tokens make"
)
BOTH_WAYS: Final = "ends: the half that is least sure by this sign, as gates do, or the surest"


def sign_tables(
    sources: Sequence[Source], pools: Sequence[Sequence[SignScores | None]], windows: Sequence[int], inputs: Inputs
) -> list[Table]:
    """Real signs, then made-up ones."""
    real, made_up = list[list[Cell]](), list[list[Cell]]()
    seed = inputs.options.seed
    for source, values in zip(sources, pools, strict=True):
        known = [value for value in values if value is not None]
        names: list[Cell] = [source.dataset, source.model]
        for i, depth in enumerate(ABSOLUTE):
            for j, signal in enumerate(SIGNALS):
                for k, (half, _) in enumerate(WAYS):
                    scores = np.array([one.real[i, j, k] for one in known if np.isfinite(one.real[i, j, k, 0])])
                    real += [[*names, depth.tokens, signal, half, *_cells(scores, seed)]] if len(scores) else []
        for i, area in enumerate(AREAS) if known else ():
            for j, part in enumerate(KNOWN):
                made_up.append([*names, area, part, *_cells(np.array([one.made_up[i, j] for one in known]), seed)])
    budget, repeats = f"{inputs.options.paths or 'all recorded'} paths", f"{inputs.settings.repeats}, seed {seed}"
    columns = [ResultColumn("known after", "count", "tokens"), ResultColumn("sign"), ResultColumn("ends")]
    sizes = ", ".join(str(size) for size in dict.fromkeys(windows))
    title = "Ending half of the paths by what is known of them"
    notes = [RULE, BOTH_WAYS, settings_note(window=sizes, budget=budget, repeats=repeats)]
    wanted = [ResultColumn("area", "number", digits=1), ResultColumn("known after", "percent", "% of the mean length")]
    needed = [
        RULE,
        "a made-up sign is normally distributed, with a higher mean for right paths; area 1 never errs, 0.5 says "
        "nothing. It ignores which answer a path gives; real signs may favour some wrong ones",
        settings_note(budget=budget, repeats=repeats),
    ]
    return [
        Table("signs", title, [*NAMES, *columns, *SCORES], real, notes),
        Table("needed", "How good a sign would have to be", [*NAMES, *wanted, *SCORES], made_up, needed),
    ]


def _cells(scores: Floats, seed: int) -> list[Cell]:
    gain = (scores[:, 0] - scores[:, 1])[:, None]
    accuracy, without, tokens = (float(one) for one in scores.mean(axis=0))
    return [len(scores), tokens, accuracy, without, measure(float(gain.mean()), intervals(gain, seed)[0])]
