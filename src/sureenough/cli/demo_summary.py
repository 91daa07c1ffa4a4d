"""The demo's results: the live question in sentences, the comparison with bars of tokens, and what follows from it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

from sureenough.bench import Comparison, Row
from sureenough.bench.recommendation import sentences
from sureenough.core.outcome import Outcome

BAR: Final = 28
MARGIN: Final = 0.02
"""Share of questions that a cheaper strategy may lose and still be recommended."""
LEGEND: Final = (
    "accuracy: right answers in percent. vs sc: the difference to plain voting in points, with its 95% interval.",
    "tokens: generated per question, over all paths. saving: tokens of plain voting divided by these.",
)


def live_lines(out: Outcome, gold: str, right: bool, full_tokens: float | None, seconds: float | None) -> Iterator[str]:
    """The outcome of the live question: the answer, what was pruned, why it stopped, what it saved."""
    if out.answer is None:
        yield f"No answer; it is {gold}."
    else:
        share = out.votes[out.answer] / sum(out.votes.values())
        verdict = "right" if right else f"wrong, it is {gold}"
        yield f"Answer: {out.answer} ({verdict}), with {share:.0%} of the votes."
    pruned = f"; {out.pruned} were cut off when their confidence dropped" if out.pruned else ""
    yield f"{out.started} of {out.paths} paths were started{pruned}."
    if out.reason == "settled":
        yield f"Then the vote was settled. {out.why}"
    elif out.reason == "interrupted":
        yield "The run was interrupted; this is the vote so far."
    elif out.reason == "deadline":
        yield "This machine is slow or busy: the run was ended here, with the vote so far."
    cost = f"{out.tokens.total:,} tokens" + ("" if seconds is None else f" in {seconds:.1f} s")
    if full_tokens is None or full_tokens <= out.tokens.total:
        yield f"It took {cost}."
    else:
        all_paths = f"all {out.paths} paths to their end would have taken about {round(full_tokens, -2):,.0f}"
        yield f"It took {cost}; {all_paths}."


def comparison_lines(result: Comparison) -> Iterator[str]:
    """A table with bars of tokens, and what its columns mean."""
    first = result.rows[0]
    yield (
        f"Strategies on the same recorded paths of a larger model: {first.questions} questions of GSM8K and MATH-500, "
        f"{result.options.paths} paths each."
    )
    yield ""
    names = max(len("strategy"), *(len(row.strategy) for row in result.rows))
    yield f"{'strategy':{names}}  accuracy  {'vs sc':18}  {'tokens':>7}  saving"
    most = max(row.tokens for row in result.rows)
    for row in result.rows:
        difference = "" if row is first else _difference(row)
        numbers = f"{100 * row.accuracy:8.1f}  {difference:18}  {row.tokens:7,.0f}  {row.saving:5.1f}x"
        yield f"{row.strategy:{names}}  {numbers}  {_bar(row.tokens / most)}"
    yield ""
    yield from LEGEND


def advice(result: Comparison) -> str:
    """Which strategy to use, and what it saves: the cheapest that stays within the margin of the first."""
    first, *others = result.rows
    cheaper = [row for row in others if row.saving > 1 and row.difference >= -MARGIN]
    if not cheaper:
        return f"Use {first.strategy}: here, no cheaper strategy came within {100 * MARGIN:g} points of it."
    best = max(cheaper, key=lambda row: row.saving)
    text = f"Use {best.strategy}: {best.saving:.1f} times fewer tokens than plain voting, {_accuracy(best)}"
    low, high = best.difference_interval
    if best.difference and low <= 0 <= high:
        text += f", a difference that {best.questions} questions cannot tell from chance"
    closest = max(cheaper, key=lambda row: (row.difference, row.saving))
    if closest.difference > best.difference:
        text += f".\nCloser to plain voting: {closest.strategy}, {closest.saving:.1f} times fewer, {_accuracy(closest)}"
    return f"{text}."


def evidence(result: Comparison) -> str | None:
    """How small a difference these questions can detect; None if there is nothing to add to the advice."""
    lines = sentences(result.recommendation) if result.recommendation is not None else []
    return lines[-1] if len(lines) > 1 else None


def _accuracy(row: Row) -> str:
    points = round(100 * row.difference, 1)
    if points == 0:
        return "with the same accuracy"
    return f"with {abs(points):.1f} points {'more' if points > 0 else 'less'} accuracy"


def _difference(row: Row) -> str:
    low, high = row.difference_interval
    return f"{100 * row.difference + 0.0:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"


def _bar(share: float) -> str:
    block = "█" if "utf" in (sys.stdout.encoding or "").lower() else "#"
    return block * max(1, round(BAR * share))
