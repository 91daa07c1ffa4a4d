"""A judge of your own: paths vote on the decision that you need, not on the number that they computed.

Whether a number reaches 25,000 is settled sooner than which number it is: paths that disagree about a digit vote for
the same decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sureenough as se
from sureenough.answers import extract

QUESTION = "What is 466*88-721+(875-55+236)?"


@dataclass(frozen=True)
class Enough:
    """Votes on whether the answer reaches a limit; a path without a number abstains."""

    limit: float

    def extract(self, text: str) -> str | None:
        number = extract(text)  # the boxed or announced answer of the path
        try:
            return None if number is None else "enough" if float(number) >= self.limit else "too few"
        except ValueError:
            return None

    def classes(self, answers: Sequence[str]) -> Sequence[str]:
        return answers  # equal values are one candidate

    def grade(self, gold: str, answer: str) -> bool:
        return gold == answer


def main() -> None:
    for kind in ("math", Enough(25_000)):
        out = se.ask(QUESTION, se.Local(), "ac", paths=24, seed=1, kind=kind)
        name = kind if isinstance(kind, str) else type(kind).__name__
        print(f"{name:7} {out.answer}: {out.counted} paths counted, {out.tokens.total} tokens, votes {dict(out.votes)}")


if __name__ == "__main__":
    main()
