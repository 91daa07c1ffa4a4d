"""`sureenough demo`: three questions live on the built-in model, then strategies compared on recorded paths.

The comparison reads the pool that comes with the package, so it is the same on every machine.
"""

from __future__ import annotations

import json
import sys
import textwrap
import time
from collections.abc import Iterator
from typing import Annotated, Any, Final

import typer
from msgspec.structs import astuple

from sureenough.api import ask
from sureenough.bench import Comparison, compare
from sureenough.bench.comparison import to_json
from sureenough.bench.result import ComparedStrategy
from sureenough.cli.live_display import display
from sureenough.cli.options import AsJson
from sureenough.cli.terminal import echo, echo_json, width
from sureenough.core.options import LIVE_DEFAULTS
from sureenough.core.outcome import Outcome, roughly
from sureenough.data import BUILTIN_POOL
from sureenough.drivers.run_log import RunLogWriter
from sureenough.engines.local.engine import Local
from sureenough.errors import UsageError
from sureenough.strategies import DEFAULT_STRATEGY, STRATEGIES

QUESTIONS: Final = {
    "An easy question": ("What is (3+4)*12-7?", "77"),
    "A contested one": ("Solve for x: 13(12x-74)+13=59x+10885.", "122"),
    "A hopeless one": ("What is 8397*6482-729*5318?", "50552532"),
}
"""For the built-in model, with their right answers."""
PATHS: Final = 16
DEADLINE: Final = 20.0
"""Seconds for each question."""
COMPARED: Final = ("sc", "ac", "deepconf-low", "ddc", "sure")
REPEATS: Final = 3
BAR: Final = 40
"""The longest bar; a narrow terminal has shorter ones."""
NEXT: Final = (
    "Next: `sureenough doctor --url http://localhost:8000/v1 --model NAME` checks a server of yours, `sureenough ask` "
    "and `serve` vote with it, and `sureenough replay POOL` makes this table of your own samples (docs/start.md)."
)


def command(
    *,
    live: Annotated[bool, typer.Option(help="Begin with questions to a small model.")] = True,
    as_json: AsJson = False,
) -> None:
    """Ask three questions live, then compare strategies on recorded paths; needs only this machine."""
    started = time.monotonic()
    answers = _ask_live(as_json) if live else []
    if answers and answers[-1]["reason"] == "interrupted":
        raise typer.Exit(130)
    result = compare(
        BUILTIN_POOL, COMPARED, repeats=REPEATS, parallel=LIVE_DEFAULTS.parallel, hurry=LIVE_DEFAULTS.hurry
    )
    if as_json:
        report = {"live": answers, "comparison": to_json([result]), "seconds": time.monotonic() - started}
        echo_json(json.dumps(report, allow_nan=False))
    else:
        echo("\n".join([*comparison_lines(result), "", _wrapped(NEXT)]))


def _ask_live(quiet: bool) -> list[dict[str, Any]]:
    """Ask the questions up to the one that is interrupted; the outcomes as JSON."""
    say = (lambda text: None) if quiet else echo
    try:
        engine = Local(slots=PATHS)
        engine.prepare()
    except UsageError as error:
        echo(_wrapped(f"Nothing can be asked live: {error}."), err=True)
        return []
    say(
        _wrapped(
            "Three questions to the tiny model that comes with the package, on this machine. The default strategy, "
            f"`{DEFAULT_STRATEGY}`, samples up to {PATHS} paths and stops when more would hardly change the vote. What "
            "all paths would take is estimated from the mean length of those that ended."
        )
    )
    answers: list[dict[str, Any]] = []
    for kind, (question, right) in QUESTIONS.items():
        say(f"\n{kind}: {question}")
        with display(quiet, plain=False) as readers:
            log = RunLogWriter({}, *readers)
            out = ask(question, engine, DEFAULT_STRATEGY, paths=PATHS, deadline=DEADLINE, observers=[log])
        say("\n".join(outcome_lines(out, right)))
        answers.append(out.to_json() | {"question": question, "right_answer": right})
        if out.reason == "interrupted":
            break
    say("")
    return answers


def outcome_lines(out: Outcome, right: str) -> Iterator[str]:
    """The line of `ask`, and a bar of the tokens beside what all paths would take."""
    yield _wrapped(f"{out.brief()} (right: {right})", "  ")
    if out.reason == "deadline":
        yield _wrapped(f"(This machine is slow or busy: {DEADLINE:.0f} seconds were not enough.)", "  ")
    if not out.full_budget_tokens:
        return
    full = max(out.full_budget_tokens, out.tokens.total)
    all_paths = f"all {out.options.paths} paths"
    numbers = {out.strategy: f"{out.tokens.total:,}", all_paths: f"about {roughly(full)} (estimate)"}
    names, room = max(map(len, numbers)), width() - 4 - len(all_paths) - max(map(len, numbers.values()))
    for name, tokens in ((out.strategy, out.tokens.total), (all_paths, full)):
        yield f"  {name:{names}} {_bar(tokens / full, room)} {numbers[name]}"


def comparison_lines(result: Comparison) -> Iterator[str]:
    """A table with bars of tokens, and what its names and columns mean."""
    first, options = result.rows[0], result.options
    yield _wrapped(
        f"Strategies on the same recorded paths of a larger model, as served: {first.questions} questions, up to "
        f"{options.paths} paths each, {options.parallel} at once."
    )
    yield ""
    names = max(len("strategy"), *(len(row.strategy) for row in result.rows))
    compared = [] if result.recommendation is None else result.recommendation.candidates
    differences = {one.strategy: _difference(one) for one in compared}
    wide = max(map(len, ("vs sc", *differences.values())))
    heading = f"{'strategy':{names}}  accuracy  {'vs sc':{wide}}  tokens  saving"
    yield heading
    most = max(row.tokens for row in result.rows)
    for row in result.rows:
        difference = differences.get(row.strategy, "")
        numbers = f"{100 * row.accuracy:8.1f}  {difference:{wide}}  {row.tokens:6,.0f}  {row.saving:5.1f}x"
        yield f"{row.strategy:{names}}  {numbers}  {_bar(row.tokens / most, width() - len(heading) - 2)}"
    yield ""
    for row in result.rows:
        yield _wrapped(f"{row.strategy:{names}}  {STRATEGIES[row.strategy].summary}", " " * (names + 2), first="")
    yield _wrapped(
        "accuracy: right answers in percent; vs sc: the difference in points, with its 95% interval; tokens: generated "
        "per question, over all paths; saving: tokens of sc divided by these."
    )


def _difference(compared: ComparedStrategy) -> str:
    value, low, high = (100 * (x or 0.0) for x in astuple(compared.difference))
    return f"{round(value, 1) + 0.0:+.1f} [{low:+.1f}, {high:+.1f}]"


def _bar(share: float, room: int) -> str:
    block = "█" if "utf" in (sys.stdout.encoding or "").lower() else "#"
    return block * max(1, round(min(BAR, room) * share))


def _wrapped(text: str, indent: str = "", first: str | None = None) -> str:
    return textwrap.fill(
        text, min(width(), 110), initial_indent=indent if first is None else first, subsequent_indent=indent
    )
