"""An agent that asks for a consensus on each step: later steps build on earlier ones, so each must be right.

A chain of five steps that are right 9 times in 10 is right 6 times in 10. The vote makes single steps reliable; a step
on which the vote is close gets a larger budget, and the agent stops if that does not help.
"""

from __future__ import annotations

import sureenough as se

PROBLEM = """Tom has 29 baskets with 451 cards in each. He gives 7859 cards away and gets 3134. Then he finds 1154 more
cards, buys 415, buys 49 packs with 8 cards in each, and sells 8919 cards. How many cards does Tom have now?"""
STEPS = (
    "What is 29*451?",
    "What is {0}-7859+3134?",
    "What is {0}+1154+415?",
    "What is 49*8+{0}?",
    "What is {0}-8919?",
)
"""A plan, as a planning model would write it; {0} is the result of the step before."""


def consensus(question: str, engine: se.Local) -> str | None:
    """The answer, if the leader has three quarters of the votes; None if the paths do not agree."""
    for paths in (12, 48):
        out = se.ask(question, engine, "ac", paths=paths, seed=paths)
        share = next(iter(out.votes.values()), 0.0) / (sum(out.votes.values()) or 1.0)
        print(f"  {question} -> {out.answer} ({share:.0%} of {out.counted} paths, {out.tokens.total} tokens)")
        if out.answer is not None and share >= 0.75:
            return out.answer
    return None


def main() -> None:
    print(PROBLEM)
    engine, result = se.Local(), ""
    for number, step in enumerate(STEPS, start=1):
        print(f"step {number}")
        answer = consensus(step.format(result), engine)
        if answer is None:
            print("the paths do not agree: a person should look at this step")
            return
        result = answer
    print("result:", result)


if __name__ == "__main__":
    main()
