"""Which strategy to use for this model and data, and how sure the data can be about it.

The rule: the cheapest strategy that loses at most the margin, against sc: by the paired 95% interval of accuracy, or
because so few of its answers differ. If there is none, sc is the safe choice, and the text says how many answers of the
others changed, and how many may.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, log10, sqrt
from typing import Final, Literal, NamedTuple

import msgspec
import numpy as np

from sureenough.bench.replay import CellResult, reference_cell
from sureenough.bench.result import ComparedStrategy, ExperimentResult, Recommendation
from sureenough.bench.score import WON, agreement, intervals, lowest_agreement
from sureenough.bench.tables import Measure
from sureenough.core.confidence import Floats
from sureenough.core.events import Json

Z: Final = 1.96  # of a 95% interval
DETECT: Final = Z + 0.84  # standard errors between two strategies that a test tells apart in 80% of cases
MARGIN: Final = 0.02
"""The largest loss of accuracy to accept."""


def recommend(lines: Sequence[CellResult]) -> Recommendation | None:
    """From the cells of one source; None if there is nothing to compare."""
    if len(lines) < 2:
        return None
    reference = lines[reference_cell([line.cell for line in lines])]
    right = np.array(reference.runs.right)
    graded = np.isfinite(right)
    basis: Literal["accuracy", "agreement"] = "accuracy" if graded.any() else "agreement"
    candidates = []
    for line in lines:
        if line is reference or line.cell.options.paths == 1:  # one path cannot vote
            continue
        agreed = agreement(line.runs, reference.runs)
        low = lowest_agreement(agreed)
        difference, error = paired(np.subtract(line.runs.right, right)[graded], line.cell.options.seed)
        if basis == "agreement":
            difference, error = Measure(float(agreed.mean()) - 1.0, low - 1.0, 0.0), _error(agreed - 1.0)
        own = ComparedStrategy(line.cell.label, line.row.tokens, difference, error, float(agreed.mean()), low)
        candidates.append(own)
    candidates.sort(key=lambda candidate: candidate.tokens)
    source, row = reference.source, reference.row
    questions = row.graded or len(right)
    return Recommendation(source.dataset, source.model, basis, questions, reference.cell.label, row.tokens, candidates)


def paired(differences: Floats, seed: int) -> tuple[Measure, float]:
    """The mean difference with its 95% interval, that of all tables, and its standard error."""
    if not differences.size:
        return Measure(None, None, None), 0.0
    (bounds,) = intervals(differences.reshape(-1, 1), seed, np.array(WON).reshape(-1, 1))
    return Measure(float(differences.mean()), *bounds), _error(differences)


def _error(differences: Floats) -> float:
    values = np.concatenate([differences, WON])
    return float(values.std()) / sqrt(len(values))


class Advice(NamedTuple):
    """What the rule says."""

    kind: Literal["shown", "undecided", "excluded"]
    strategy: str  # to use
    best: ComparedStrategy | None  # the one that is shown; else the one to look at next
    detectable: float  # difference that so many questions tell apart from none, in 80% of cases
    needed: int | None  # questions that would detect the margin; None if these do


def judge(recommendation: Recommendation) -> Advice:
    cheaper = [one for one in recommendation.candidates if one.tokens < recommendation.tokens]
    shown = next((one for one in cheaper if _low(one) >= -MARGIN), None)
    likely = next((one for one in cheaper if (one.difference.value or 0.0) >= -MARGIN), None)
    best = shown or likely or max(cheaper, key=lambda one: one.difference.value or 0.0, default=None)
    if best is None:
        return Advice("excluded", recommendation.reference, None, 0.0, None)
    excluded = all((one.difference.high or 0.0) < -MARGIN for one in cheaper)
    detectable = DETECT * best.error
    needed = recommendation.questions * (detectable / MARGIN) ** 2
    return Advice(
        "shown" if shown else "excluded" if excluded else "undecided",
        shown.strategy if shown else recommendation.reference,
        best,
        detectable,
        _rounded_up(needed) if detectable > MARGIN else None,
    )


def _low(candidate: ComparedStrategy) -> float:
    """The largest loss that the data leaves open: accuracy cannot differ by more than the answers that changed."""
    low = -1.0 if candidate.difference.low is None else candidate.difference.low
    return max(low, candidate.agreement_low - 1.0)


def _rounded_up(number: float) -> int:
    """To two digits."""
    unit: int = 10 ** max(0, floor(log10(number)) - 1)
    return ceil(number / unit) * unit


def sentences(recommendation: Recommendation) -> list[str]:
    """The recommendation in two or three lines, the same wherever one is printed."""
    verdict, reference, n = judge(recommendation), recommendation.reference, recommendation.questions
    margin, best = f"{100 * MARGIN:g} points", verdict.best
    if best is None:
        return [f"Use {reference}: no strategy of this list spends fewer tokens."]
    detected = f"{100 * verdict.detectable:.1f} points"
    record = f"record about {verdict.needed:,}" if verdict.needed else ""
    if verdict.kind == "shown":
        more = f"; to detect {margin}, {record}" if record else ""
        lines = [
            f"Use {best.strategy}: {_cost(best, recommendation)}.",
            f"{n:,} questions can detect differences of about {detected}{more}.",
        ]
    elif verdict.kind == "excluded":
        lines = [f"Use {reference}: all cheaper strategies lose more than {margin}. The closest is {best.strategy}: "
                 f"{_cost(best, recommendation)}."]  # fmt: skip
    else:
        cheaper = [one for one in recommendation.candidates if one.tokens < recommendation.tokens]
        lows = [one.agreement_low for one in cheaper]  # those that change more answers than a cheaper one are left out
        graded = [one for at, one in enumerate(cheaper) if one.agreement_low > max(lows[:at], default=-1.0)]
        lines = [
            f"{reference} is the safe choice: {n:,} questions cannot show that a cheaper strategy loses at most "
            f"{margin} (they can detect about {detected}; for {best.strategy}, {record or 'record more'}).",
            *(f"{one.strategy}: {_changed(one, n)}; {_cost(one, recommendation)}." for one in graded),
        ]
    if recommendation.basis == "agreement":
        lines.append(f"There are no gold answers: this is agreement with {reference}, not accuracy.")
    return lines


def _changed(candidate: ComparedStrategy, questions: int) -> str:
    """How many answers changed, and how many may."""
    changed = (1.0 - candidate.agreement) * questions
    most = 100 * (1.0 - candidate.agreement_low)
    return f"{changed:.3g} of {questions:,} answers changed; at 95% at most {most:.1f}% of answers would"


def _cost(candidate: ComparedStrategy, recommendation: Recommendation) -> str:
    """Tokens saved, at what difference."""
    times = recommendation.tokens / candidate.tokens if candidate.tokens else float("inf")
    saved = f"{times:.1f}x fewer tokens than {recommendation.reference}"
    value, low, high = (100 * (x or 0.0) for x in msgspec.structs.astuple(candidate.difference))
    if recommendation.basis == "agreement":
        return f"{saved}, the same answer on {100 + value:.1f}% [{100 + low:.1f}, {100 + high:.1f}] of questions"
    return f"{saved}, accuracy {round(value, 1) + 0.0:+.1f} [{low:+.1f}, {high:+.1f}] points"


def advice(results: Sequence[ExperimentResult]) -> list[str]:
    """The recommendations of all results, each under the name of its data."""
    lines: list[str] = []
    for result in results:
        for one in result.recommendations:
            lines += ["", f"{one.dataset}, {one.model} ({result.name}):", *sentences(one)]
    return lines


def to_json(recommendation: Recommendation) -> Json:
    """For programs: the rule's inputs, its verdict and the sentences."""
    plain: Json = msgspec.to_builtins(recommendation)
    verdict: Json = msgspec.to_builtins(judge(recommendation)._asdict())
    return plain | {"margin": MARGIN, "verdict": verdict, "text": sentences(recommendation)}
