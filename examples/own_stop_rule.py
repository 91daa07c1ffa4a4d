"""A stop rule of your own: a function of the poll, used like a built-in strategy and measured on recorded paths."""

from __future__ import annotations

import sureenough as se
from sureenough.core.poll import Poll
from sureenough.data import PROBLEMS_POOL


def four_ahead(poll: Poll) -> bool:
    """Whether the leader has four votes more than the next answer."""
    lead = poll.lead_by_count()
    return lead is not None and lead.first - lead.second >= 4


AHEAD = se.Strategy("four-ahead", stop=four_ahead, summary="stop when the leader is four votes ahead")


def main() -> None:
    question = next(iter(se.Pool(PROBLEMS_POOL)))
    out = se.replay(question.paths, AHEAD)
    print(f"{question.id}: {out.answer} after {out.started} of {len(question.paths)} paths, {out.reason}")
    for row in se.compare(PROBLEMS_POOL, ["sc", "ac", AHEAD], repeats=5):
        print(f"{row.strategy:10} {row.accuracy:6.1%} right {row.tokens:7.0f} tokens per question {row.saving:4.1f}x")


if __name__ == "__main__":
    main()
