"""How far probes can be trusted, learned from question to question without labels.

A probe is right if it gives the answer at which its path arrives by itself. How often that is depends on the model and
on how far the path has come; a state keeps it by depth, beside a prior that believes no probe.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final, NamedTuple, Self

DEPTHS: Final = 10
"""Parts of the mean length of paths in earlier questions; probes beyond it belong to the last part."""
PRIOR: Final = 0.5
PRIOR_QUESTIONS: Final = 4
"""The prior counts as so many questions in which this share of the probes was right: such probes do not vote."""
LEAST_RELIABILITY: Final = 0.9
"""Probes vote at depths at which at least this share is right. Paths of a question tend to be wrong together, on the
same intermediate result, so that no number of probes is worth more than one of them."""


def depth_of(tokens: int, typical: float) -> int:
    """The part of a typical path in which a probe after so many tokens is."""
    return min(DEPTHS - 1, int(DEPTHS * tokens / typical))


class ProbeRecord(NamedTuple):
    """What the probes of one question showed, of paths that ended by themselves."""

    length: float  # mean tokens of these paths
    right: tuple[int, ...]  # by depth: probes that gave the answer of their path's end
    answered: tuple[int, ...]  # by depth: probes that gave any answer


@dataclass(frozen=True, slots=True)
class ProbeAgreement:
    """What is known of one model's probes."""

    sums: tuple[float, ...] = (0.0,) * DEPTHS  # of the shares of right probes, by depth
    counts: tuple[int, ...] = (0,) * DEPTHS  # questions with such a share
    lengths: float = 0.0  # sum of the mean lengths of paths
    questions: int = 0  # with such a mean

    def receive(self, record: ProbeRecord) -> ProbeAgreement:
        """The state after one more question."""
        shares = [right / n if n else None for right, n in zip(record.right, record.answered, strict=True)]
        return ProbeAgreement(
            tuple(total + (share or 0.0) for total, share in zip(self.sums, shares, strict=True)),
            tuple(count + (share is not None) for count, share in zip(self.counts, shares, strict=True)),
            self.lengths + record.length,
            self.questions + 1,
        )

    def __add__(self, other: ProbeAgreement) -> ProbeAgreement:
        """The state after the questions of both."""
        return ProbeAgreement(
            tuple(a + b for a, b in zip(self.sums, other.sums, strict=True)),
            tuple(a + b for a, b in zip(self.counts, other.counts, strict=True)),
            self.lengths + other.lengths,
            self.questions + other.questions,
        )

    def reliability(self, depth: int) -> float:
        """The share of probes at this depth that are right: the mean over questions, with the prior."""
        return (PRIOR * PRIOR_QUESTIONS + self.sums[depth]) / (PRIOR_QUESTIONS + self.counts[depth])

    @property
    def voting_depths(self) -> list[int]:
        """Depths at which probes vote."""
        return [depth for depth in range(DEPTHS) if self.reliability(depth) >= LEAST_RELIABILITY]

    @property
    def typical_length(self) -> float | None:
        """Mean tokens of a path; None before the first question."""
        return self.lengths / self.questions if self.questions else None

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        depths = zip(self.sums, self.counts, strict=True)
        return {
            "lengths": self.lengths,
            "questions": self.questions,
            "depths": [{"sum": total, "questions": count} for total, count in depths],
        }

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """The state in `to_json`'s form; ValueError, KeyError or TypeError if it is damaged."""
        if not isinstance(data, Mapping) or len(data["depths"]) != DEPTHS:
            raise ValueError
        counts = tuple(whole(part["questions"]) for part in data["depths"])
        sums = tuple(float(part["sum"]) for part in data["depths"])
        lengths, questions = float(data["lengths"]), whole(data["questions"])
        if not isfinite(lengths) or lengths < questions or max(counts) > questions:  # a path has at least one token
            raise ValueError
        if not all(0.0 <= total <= count for total, count in zip(sums, counts, strict=True)):
            raise ValueError
        return cls(sums, counts, lengths, questions)


NOTHING_KNOWN: Final = ProbeAgreement()


def whole(value: object) -> int:
    """A count from a file; ValueError if it cannot be one."""
    if type(value) is not int or not 0 <= value < 1 << 53:
        raise ValueError
    return value
