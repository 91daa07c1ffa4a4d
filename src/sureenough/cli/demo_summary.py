"""The demo's results in sentences."""

from __future__ import annotations

from collections.abc import Iterable

from sureenough.bench import Comparison, Row
from sureenough.core.outcome import Outcome

FEW = 100
"""With fewer questions, differences of a few points are chance."""


def answer_lines(out: Outcome, gold: str, right: bool, seconds: float) -> str:
    """The outcome of one live question in two lines."""
    verdict = "right" if right else f"wrong, it is {gold}"
    answer = f"No answer (it is {gold})." if out.answer is None else f"Answer: {out.answer} ({verdict})."
    spent = f"{out.started} of {out.paths} paths, {out.pruned} pruned, {out.tokens.total:,} tokens, {seconds:.1f} s"
    return f"{answer} {out.why}\n{spent}"


def demo_summary(result: Comparison) -> str:
    """The table in a sentence: tokens saved, and the accuracy."""
    first, *others = result.rows
    compared = [row for row in others if row.strategy.partition(":")[0] in ("ddc", "sure")] or others
    summary = (
        f"Plain voting ({first.strategy}) was right on {first.accuracy:.0%} of these {first.questions} questions; "
    )
    summary += _joined(f"{row.strategy} on {row.accuracy:.0%} with {_tokens(row)}" for row in compared)
    return summary + (
        "." if first.questions >= FEW else "; with so few questions, differences of a few points are chance."
    )


def _tokens(row: Row) -> str:
    return f"{row.saving:.1f} times fewer tokens" if row.saving >= 1 else f"{1 / row.saving:.1f} times more tokens"


def _joined(parts: Iterable[str]) -> str:
    *most, last = parts
    return f"{', '.join(most)} and {last}" if most else last
