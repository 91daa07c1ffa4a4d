"""What the demo says of its results, in sentences."""

from __future__ import annotations

from collections.abc import Iterable

from sureenough.bench import Comparison, Row
from sureenough.core.outcome import Outcome

FEW = 100
"""Questions below which differences of a few points are left to chance."""


def answer(out: Outcome, gold: str, right: bool, seconds: float) -> str:
    """One live question in two lines."""
    judged = "right" if right else f"wrong, it is {gold}"
    found = f"No answer (it is {gold})." if out.answer is None else f"Answer: {out.answer} ({judged})."
    spent = f"{out.started} of {out.paths} paths, {out.pruned} pruned, {out.tokens.total:,} tokens, {seconds:.1f} s"
    return f"{found} {out.why}\n{spent}"


def demo_summary(result: Comparison) -> str:
    """The table in a sentence: what was saved, and what it cost."""
    first, *others = result.rows
    told = [row for row in others if row.strategy.partition(":")[0] in ("ddc", "sure")] or others
    many = first.questions
    said = f"Plain voting ({first.strategy}) was right on {first.accuracy:.0%} of these {many} questions; "
    said += _joined(f"{row.strategy} on {row.accuracy:.0%} with {_tokens(row)}" for row in told)
    return said + ("." if many >= FEW else "; with so few questions a few points either way are chance.")


def _tokens(row: Row) -> str:
    return f"{row.saving:.1f} times fewer tokens" if row.saving >= 1 else f"{1 / row.saving:.1f} times more tokens"


def _joined(parts: Iterable[str]) -> str:
    *most, last = parts
    return f"{', '.join(most)} and {last}" if most else last
