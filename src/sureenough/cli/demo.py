"""`sureenough demo`: one hard question live on the built-in model, then strategies compared on recorded paths.

The comparison reads the pool that comes with the package, so it is the same on every machine.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from typing import Annotated, Any, Final

import typer
from msgspec.structs import astuple

from sureenough.answers import same
from sureenough.api import ask, replay
from sureenough.bench import Comparison, compare
from sureenough.bench.comparison import to_json
from sureenough.bench.result import ComparedStrategy
from sureenough.cli.live_display import display
from sureenough.cli.options import AsJson
from sureenough.cli.terminal import echo, echo_json
from sureenough.core.outcome import Outcome
from sureenough.data import BUILTIN_POOL, PROBLEMS_POOL
from sureenough.drivers.run_log import RunLogWriter
from sureenough.engines.local.engine import Local
from sureenough.errors import UsageError
from sureenough.pools import Pool

COMPARED: Final = ("sc", "ac", "deepconf-low", "ddc", "sure")
REPEATS: Final = 5
STRATEGY: Final = "ddc:warmup=8,weight=mean,drop=1"
PATHS: Final = 64
PARALLEL: Final = 16
DEADLINE: Final = 40.0
"""Seconds for the live question. A run of the built-in model that is cut is followed by a recorded one."""
BAR: Final = 28
LEGEND: Final = (
    "accuracy: right answers in percent. vs sc: the difference to plain voting in points, with its 95% interval (that",
    "of the recommendation; replay's table has one by resampling, which is too narrow if few questions changed).",
    "tokens: generated per question, over all paths. saving: tokens of plain voting divided by these.",
)


def command(
    *,
    live: Annotated[bool, typer.Option(help="Begin with a question to a small model.")] = True,
    as_json: AsJson = False,
) -> None:
    """Ask one hard question live, then compare strategies on recorded paths; needs only this machine."""
    started = time.monotonic()
    answer = _ask_live(as_json) if live else None
    if answer is not None and answer["reason"] == "interrupted":
        raise typer.Exit(130)
    result = compare(BUILTIN_POOL, COMPARED, repeats=REPEATS)
    if as_json:
        report = {
            "live": answer,
            "comparison": to_json([result]),
            "advice": "\n".join(result.advice()[1:]),
            "seconds": time.monotonic() - started,
        }
        echo_json(json.dumps(report, allow_nan=False))
    else:
        echo("\n".join([*comparison_lines(result), *result.advice()]))


def _ask_live(quiet: bool) -> dict[str, Any] | None:
    """Ask the question, and show its recording if no live run could show how a vote settles; the outcome as JSON."""
    pool = Pool(PROBLEMS_POOL)
    question = next(iter(pool))  # half of its paths go wrong, most of them visibly; it takes about 10,000 tokens
    text, gold = question.text or "", question.gold or ""
    say = (lambda text: None) if quiet else echo
    say(f"A hard question for the tiny built-in model, sampled up to {PATHS} times on this machine:")
    say(f"  {text}")
    answer: dict[str, Any] | None = None
    try:
        engine = Local(slots=PARALLEL)
        engine.prepare()
        started = time.monotonic()
        with display(quiet, plain=False) as readers:
            log = RunLogWriter({}, *readers)
            out = ask(text, engine, STRATEGY, paths=PATHS, parallel=PARALLEL,
                      hurry=None, deadline=DEADLINE, observers=[log])  # fmt: skip
        full_tokens, seconds = log.view.summary.get("full_budget_tokens"), time.monotonic() - started
        right = out.answer is not None and same(out.answer, gold)
        answer = out.to_json() | {
            "question": text, "gold": gold, "right": right, "full_tokens": full_tokens, "seconds": seconds
        }  # fmt: skip
        say(f"{explained(out, gold, full_tokens)} That took {seconds:.1f} s.\n")
    except UsageError as error:
        echo(f"It cannot be asked live: {error}.", err=True)
    if answer is None or answer["reason"] == "deadline":
        out = replay(question.paths, STRATEGY, window=pool.info.window)
        say("The same question as it was recorded:")
        say(explained(out, gold, sum(path.tokens for path in question.paths)) + "\n")
    return answer


def explained(out: Outcome, gold: str, full_tokens: float | None) -> str:
    """A run in sentences, with the right answer and about what all paths to their end would have taken."""
    text = f"{out.explain()}\nThe right answer is {gold}."
    if full_tokens is None or full_tokens <= out.tokens.total:
        return text
    return f"{text} All {out.options.paths} paths to their end would take about {round(full_tokens, -2):,.0f} tokens."


def comparison_lines(result: Comparison) -> Iterator[str]:
    """A table with bars of tokens, and what its columns mean."""
    first = result.rows[0]
    yield (
        f"Strategies on the same recorded paths of a larger model: {first.questions} questions of GSM8K and MATH-500, "
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
