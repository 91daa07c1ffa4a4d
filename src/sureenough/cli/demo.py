"""`sureenough demo`: one hard question live on the built-in model, then strategies compared on recorded paths.

The comparison reads the pool that comes with the package, so it is the same on every machine. `--long` does both with
the model that searches, from a checkout.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from typing import Annotated, Any, Final, NamedTuple

import typer

from sureenough.answers import same
from sureenough.api import ask, replay
from sureenough.bench import Comparison, compare
from sureenough.bench.tables import advice, json_table
from sureenough.cli.ask import display
from sureenough.cli.demo_summary import comparison_lines, live_lines
from sureenough.cli.option_groups import run_options, with_options
from sureenough.cli.terminal import echo
from sureenough.core.options import RunOptions
from sureenough.core.outcome import Outcome
from sureenough.data import BUILTIN_POOL, LONG_MODEL, LONG_SAMPLE, PROBLEMS_POOL
from sureenough.drivers.run_log_writer import RunLogWriter
from sureenough.engines.local.engine import Local
from sureenough.errors import TraceError, UsageError
from sureenough.pools import Pool
from sureenough.problems import GeneratedProblem, generate

COMPARED: Final = ("sc", "ac", "deepconf-low", "ddc", "sure")
REPEATS: Final = 5
ORIGIN: Final = ("a larger model", "GSM8K and MATH-500")
LONG_ORIGIN: Final = ("a small model that searches", "Countdown and shortest paths")
NO_SAMPLE: Final = (
    "--long reads training/searcher/sample.parquet of a checkout, which is not there: install from a checkout that has "
    "it (pip install -e .), or make one as training/searcher/README.md says"
)
BAD_SAMPLE: Final = (
    "{file} is not the sample that --long compares on ({reason}); restore the checkout's file (git restore), or make "
    "one as training/searcher/README.md says"
)
DEADLINE: Final = 40.0
"""Seconds for the live question. A run of the built-in model that is cut is followed by a recorded one."""


class LiveQuestion(NamedTuple):
    """A generated problem, the model that is asked, and how."""

    collection: str
    level: int
    seed: int
    number: int
    model: str  # for the announcement
    strategy: str
    paths: int
    parallel: int

    def problem(self) -> GeneratedProblem:
        return generate(self.level, self.seed, self.number + 1, self.collection)[-1]


LIVE: Final = LiveQuestion(
    "arith", 5, 3, 1, "the tiny built-in model", "ddc:warmup=8,weight=mean,drop=1", paths=64, parallel=16
)
"""About half of its paths go wrong, and most of these lose confidence on the way. It takes about 10,000 tokens."""
LONG_LIVE: Final = LiveQuestion("grid", 2, 9001, 0, "a small model that searches", "sure", paths=16, parallel=4)
"""One of those that were left out of its training."""


class LiveAnswer(NamedTuple):
    """The live question and its outcome."""

    problem: GeneratedProblem
    outcome: Outcome
    full_tokens: float | None  # about what all paths to their end would have taken
    seconds: float | None  # None if it was recorded

    @property
    def right(self) -> bool:
        return self.outcome.answer is not None and same(self.outcome.answer, self.problem.gold)

    def to_json(self) -> dict[str, Any]:
        """The question, its outcome and its time."""
        extra = {"right": self.right, "full_tokens": self.full_tokens, "seconds": self.seconds}
        return {**asdict(self.problem), **extra, **self.outcome.to_json()}


@with_options(run=run_options(RunOptions(), only=("seed",)))
def command(
    *,
    run: RunOptions,
    live: Annotated[bool, typer.Option(help="Begin with a question to a small model.")] = True,
    long: Annotated[bool, typer.Option("--long", help="Long chains instead; needs a checkout.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Ask one hard question live, then compare strategies on recorded paths; needs only this machine."""
    started = time.monotonic()
    if long and not LONG_SAMPLE.exists():
        raise UsageError(NO_SAMPLE)
    pool, origin = (LONG_SAMPLE, LONG_ORIGIN) if long else (BUILTIN_POOL, ORIGIN)
    asked = LONG_LIVE if long else LIVE
    answer = _live_part(asked, run.seed, as_json) if live and (not long or LONG_MODEL.exists()) else None
    if answer is not None and answer.outcome.reason == "interrupted":
        raise typer.Exit(130)
    try:
        result = compare(pool, COMPARED, repeats=REPEATS)
    except (TraceError, UsageError) as error:
        if not long:
            raise
        raise UsageError(BAD_SAMPLE.format(file=pool, reason=str(error).partition(";")[0])) from None
    if as_json:
        typer.echo(json.dumps(_to_json(answer, result, time.monotonic() - started), allow_nan=False))
    else:
        echo("\n".join([*comparison_lines(result, *origin), *advice(result)]))


def _live_part(asked: LiveQuestion, seed: int, quiet: bool) -> LiveAnswer | None:
    """The live question, and its recording if the live run does not show how a vote settles; None without an engine."""
    problem = asked.problem()
    if not quiet:
        echo(f"A hard question for {asked.model}, sampled up to {asked.paths} times on this machine:")
        echo(f"  {problem.question}")
    try:
        answer = _ask(asked, problem, seed, quiet)
    except UsageError as error:
        answer = None
        echo(f"It cannot be asked live: {error}.", err=True)
    if answer is not None and not quiet:
        _show(answer)
    if not quiet and asked is LIVE and (answer is None or answer.outcome.reason == "deadline"):
        echo("The same question as it was recorded:")
        _show(_recorded(problem))
    return answer


def _show(answer: LiveAnswer) -> None:
    lines = live_lines(answer.outcome, answer.problem.gold, answer.right, answer.full_tokens, answer.seconds)
    echo("\n".join(lines) + "\n")


def _engine(asked: LiveQuestion) -> Local:
    if asked is LIVE:
        return Local(slots=asked.parallel)
    return Local(LONG_MODEL, slots=asked.parallel, temperature=0.8, max_path_tokens=3000, template="{question}")


def _ask(asked: LiveQuestion, problem: GeneratedProblem, seed: int, quiet: bool) -> LiveAnswer:
    engine = _engine(asked)
    engine.prepare()
    started = time.monotonic()
    with display(quiet, plain=False) as readers:
        log = RunLogWriter({}, *readers)
        out = ask(problem.question, engine, asked.strategy, paths=asked.paths, parallel=asked.parallel, seed=seed,
                  planned=False, deadline=DEADLINE, observers=[log])  # fmt: skip
    return LiveAnswer(problem, out, log.view.summary.get("full_budget_tokens"), time.monotonic() - started)


def _recorded(problem: GeneratedProblem) -> LiveAnswer:
    """What the strategy does on the recorded paths of the question; the same on every machine."""
    pool = Pool(PROBLEMS_POOL)
    question = next(question for question in pool if question.id == problem.id)
    out = replay(question.paths, LIVE.strategy, window=pool.info.window)
    return LiveAnswer(problem, out, sum(path.tokens for path in question.paths), None)


def _to_json(answer: LiveAnswer | None, result: Comparison, seconds: float) -> dict[str, Any]:
    return {
        "live": None if answer is None else answer.to_json(),
        "comparison": json_table([result]),
        "advice": "\n".join(advice(result)[1:]),
        "seconds": seconds,
    }
