"""How grading reads a pair: as voting does, and then more generously, because the gold answer is known to be right."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sureenough.answers.canonical import canonical_key
from sureenough.answers.key_types import Key


@dataclass(frozen=True, slots=True)
class GradingPolicy:
    """What a grader may accept besides equality."""

    percent: bool = False
    rounding: bool = False
    decimal_comma: bool = False


def readings(gold: str, answer: str, policy: GradingPolicy) -> Iterator[tuple[Key, Key]]:
    """Pairs of keys, any of which makes the answer right if its two keys are the same."""
    yield canonical_key(gold), canonical_key(answer)
