"""The demo's results: the live question in sentences, the comparison with bars of tokens."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

from msgspec.structs import astuple

from sureenough.bench import Comparison
from sureenough.bench.result import ComparedStrategy
from sureenough.core.outcome import Outcome

BAR: Final = 28
LEGEND: Final = (
    "accuracy: right answers in percent. vs sc: the difference to plain voting in points, with its 95% interval (that",
    "of the recommendation; replay's table has one by resampling, which is too narrow if few questions changed).",
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


def comparison_lines(result: Comparison, model: str, questions: str) -> Iterator[str]:
    """A table with bars of tokens, and what its columns mean."""
    first = result.rows[0]
    yield (
        f"Strategies on the same recorded paths of {model}: {first.questions} questions of {questions}, "
        f"{result.options.paths} paths each."
    )
    yield ""
    names = max(len("strategy"), *(len(row.strategy) for row in result.rows))
    compared = [] if result.recommendation is None else result.recommendation.candidates
    differences = {one.strategy: _difference(one) for one in compared}
    wide = max(map(len, ("vs sc", *differences.values())))
    yield f"{'strategy':{names}}  accuracy  {'vs sc':{wide}}  {'tokens':>7}  saving"
    most = max(row.tokens for row in result.rows)
    for row in result.rows:
        difference = differences.get(row.strategy, "")
        numbers = f"{100 * row.accuracy:8.1f}  {difference:{wide}}  {row.tokens:7,.0f}  {row.saving:5.1f}x"
        yield f"{row.strategy:{names}}  {numbers}  {_bar(row.tokens / most)}"
    yield ""
    yield from LEGEND


def _difference(compared: ComparedStrategy) -> str:
    value, low, high = (100 * (x or 0.0) for x in astuple(compared.difference))
    return f"{round(value, 1) + 0.0:+.1f} [{low:+.1f}, {high:+.1f}]"


def _bar(share: float) -> str:
    block = "█" if "utf" in (sys.stdout.encoding or "").lower() else "#"
    return block * max(1, round(BAR * share))
