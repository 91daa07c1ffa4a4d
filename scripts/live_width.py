"""Tokens and seconds of live runs on the built-in model: planned width from the fewest tokens on, and all at once.

python scripts/live_width.py [--strategy sure] [--questions 4] [--levels 2 3 4]
"""

from __future__ import annotations

import argparse
import asyncio
import time
from typing import Any

import sureenough as se
from sureenough.datasets.load import load
from sureenough.engines.base import Engine, SharedEngine
from sureenough.strategies import DEFAULT_STRATEGY

PARALLEL = 16
WIDTHS: dict[str, dict[str, Any]] = {
    "hurry 0": {"hurry": 0.0},
    "hurry 0.6": {"hurry": 0.6},
    "hurry 1": {"hurry": 1.0},
    "all at once": {"hurry": None},
}


async def measure(engine: Engine, strategy: str, questions: list[str]) -> None:
    """The table, in Markdown; the model is loaded once, and one question is asked first."""
    async with engine.open(parallel=PARALLEL) as connected:
        ready = SharedEngine(connected)  # without its server's counters, which would add up all runs
        await se.aask(questions[0], ready, strategy, paths=PARALLEL, template=engine.template)
        print("| width | tokens | discarded | steps | seconds |\n|---|---|---|---|---|")
        for name, width in WIDTHS.items():
            start = time.perf_counter()
            outs = [
                await se.aask(question, ready, strategy, parallel=PARALLEL, template=engine.template, seed=n, **width)
                for n, question in enumerate(questions)
            ]
            seconds = (time.perf_counter() - start) / len(outs)
            tokens, discarded, steps = (
                sum(values) / len(outs)
                for values in zip(*((o.tokens.total, o.tokens.discarded, o.steps) for o in outs), strict=True)
            )
            print(f"| {name} | {tokens:,.0f} | {discarded:,.0f} | {steps:,.0f} | {seconds:.2f} |", flush=True)


def main() -> None:
    """Read the options, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strategy", default=DEFAULT_STRATEGY)
    parser.add_argument("--questions", type=int, default=4, help="of every level")
    parser.add_argument("--levels", type=int, nargs="+", default=[2, 3, 4])
    options = parser.parse_args()
    arith = load("arith").problems
    problems = [p for level in options.levels for p in [p for p in arith if p.level == level][: options.questions]]
    engine = se.Local()
    engine.prepare()
    asyncio.run(measure(engine, options.strategy, [problem.question for problem in problems]))


if __name__ == "__main__":
    main()
