"""`sureenough demo`: three questions live on the built-in model, then strategies compared on freshly recorded paths.

Ctrl-C at any moment shows the results so far.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer

from sureenough.answers import same
from sureenough.api import TEMPLATE, ask, render_prompt
from sureenough.bench import Comparison, compare
from sureenough.bench.tables import json_table
from sureenough.cli.ask import display
from sureenough.cli.demo_size import DemoSize, RateMeter, demo_size
from sureenough.cli.demo_summary import answer_lines, demo_summary
from sureenough.cli.option_groups import run_options, with_options
from sureenough.cli.record import progress
from sureenough.cli.replay import show
from sureenough.cli.terminal import echo
from sureenough.core.options import RunOptions
from sureenough.core.outcome import Outcome
from sureenough.drivers.observers import Observer
from sureenough.drivers.record import PathCallback, RecordQuestion, record
from sureenough.drivers.run_log_writer import RunLogWriter
from sureenough.engines.local.engine import Local
from sureenough.errors import TraceError
from sureenough.pools import Journal, PoolInfo, write_journal_pool
from sureenough.problems import GeneratedProblem, generate

DEMO_STRATEGIES: Final = ("sc", "ac", "deepconf-low", "ddc", "sure")
REPEATS: Final = 5
LIVE: Final = {1: 0, 3: 3, 5: 2}
"""Levels of the live questions, and the problem of each level: arithmetic, a story, a remainder."""
LIVE_PATHS: Final = 32
PARALLEL: Final = 32
SAMPLING_SHARE: Final = 0.25
"""The least share of the time that is spent on sampling, however slow the live questions were."""


class LiveAnswer(NamedTuple):
    """A live question and its outcome."""

    problem: GeneratedProblem
    outcome: Outcome
    seconds: float

    @property
    def right(self) -> bool:
        """Whether the answer is correct."""
        return self.outcome.answer is not None and same(self.outcome.answer, self.problem.gold)

    def to_json(self) -> dict[str, Any]:
        """The question, its outcome and its time."""
        return {**asdict(self.problem), "right": self.right, "seconds": self.seconds, **self.outcome.to_json()}


@with_options(run=run_options(RunOptions(), only=("seed",)))
def command(
    *,
    run: RunOptions,
    keep: Annotated[Path | None, typer.Option(help="Keep the recorded paths in this pool.")] = None,
    seconds: Annotated[float, typer.Option(help="About how long it should take.", min=1)] = 60.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Ask three questions live, then compare strategies on fresh paths; takes a minute and needs only this machine."""
    if keep is not None and keep.exists():
        raise TraceError(f"{keep} exists already; name another pool, or move it away")
    if keep is not None and not keep.absolute().parent.is_dir():
        raise TraceError(f"{keep.parent} is not a folder; create it, or keep the paths elsewhere")
    with tempfile.TemporaryDirectory() as folder:
        demo = _Demo(run.seed, keep or Path(folder) / "demo.parquet", seconds, as_json)
        complete = demo.run()
    if as_json:
        typer.echo(json.dumps(demo.to_json(), allow_nan=False))
    raise typer.Exit(0 if complete else 130)


class _Demo:
    """The live questions, the recorded paths and the comparison so far."""

    def __init__(self, seed: int, pool: Path, seconds: float, quiet: bool) -> None:
        self.seed, self.pool, self.seconds, self.quiet = seed, pool, seconds, quiet
        self.engine = Local(slots=PARALLEL)
        self.started = time.monotonic()
        self.live: list[LiveAnswer] = []
        self.rate_meter = RateMeter()
        self.result: Comparison | None = None

    def run(self) -> bool:
        """Run everything; False if it was interrupted."""
        self.say("The built-in model runs on this machine. First, three questions, from easy to hard, live with ddc.")
        try:
            complete = all(self.ask(level) for level in LIVE) and self.sample()
        except KeyboardInterrupt:
            complete = False
        if not complete:
            self.say("Interrupted. The results so far:")
        self.compare()
        return complete

    def say(self, text: str) -> None:
        """Print a line, unless the output is JSON."""
        if not self.quiet:
            echo(text)

    def ask(self, level: int) -> bool:
        """Ask one question live; False if it was interrupted."""
        problem = generate(level, self.seed, LIVE[level] + 1)[-1]
        self.say(f"\nLevel {level}: {problem.question}")
        started = time.monotonic()
        with display(self.quiet, plain=False) as readers:
            observers: list[Observer] = [self.rate_meter, RunLogWriter({}, *readers)]
            out = ask(problem.question, self.engine, "ddc", paths=LIVE_PATHS, seed=self.seed, observers=observers)
        self.live.append(LiveAnswer(problem, out, time.monotonic() - started))
        self.say(answer_lines(out, problem.gold, self.live[-1].right, self.live[-1].seconds))
        return out.reason != "interrupted"

    def sample(self) -> bool:
        """Record fresh problems, as many as there is time for; False if it was interrupted."""
        size = self.demo_size()
        counts = {level: size.levels.count(level) for level in sorted(set(size.levels))}
        mix = ", ".join(f"{number} of level {level}" for level, number in counts.items())
        self.say(
            f"\nNow {len(size.levels)} fresh problems ({mix}), {size.paths} paths each: about {size.tokens:,} tokens, "
            f"{size.tokens / size.rate:.0f} s at {size.rate:,.0f} tokens/s."
        )
        problems = [problem for level, number in counts.items() for problem in generate(level, self.seed + 1, number)]
        template = self.engine.template or TEMPLATE
        questions = [
            RecordQuestion(problem.id, render_prompt(problem.question, template), problem.gold, problem.level)
            for problem in problems
        ]
        journal_file = self.pool.with_name(self.pool.name + ".journal")
        with Journal(journal_file, {"seed": self.seed, "questions": len(questions)}) as journal:
            try:
                with progress(len(questions) * size.paths, 0) as on_path:
                    asyncio.run(self.record(questions, size.paths, journal, on_path))
                return True
            except KeyboardInterrupt:
                return False
            finally:
                self.keep(questions, size.paths, journal)
                journal_file.unlink()

    async def record(
        self, questions: Sequence[RecordQuestion], paths: int, journal: Journal, on_path: PathCallback
    ) -> None:
        """Sample every path."""
        await record(questions, self.engine, journal, paths=paths, parallel=PARALLEL, seed=self.seed, told=on_path)

    def keep(self, questions: list[RecordQuestion], paths: int, journal: Journal) -> None:
        """Write the questions that have all their paths to the pool."""
        complete = [question for question in questions if all((question.id, n) in journal.paths for n in range(paths))]
        if not complete:
            return
        client = self.engine.wire()
        info = PoolInfo("arith", client.model, "local", client.k, sampling=client.sampling(),
                        prompt=self.engine.template or TEMPLATE, window=client.window)  # fmt: skip
        write_journal_pool(self.pool, complete, journal, info, keep_text=True)

    def demo_size(self) -> DemoSize:
        """As many problems and paths as the measured speed leaves time for."""
        tokens = sum(live.outcome.tokens.total for live in self.live)
        rate = self.rate_meter.rate(tokens / max(1e-9, sum(live.seconds for live in self.live)))
        lengths = {live.problem.level: live.outcome.tokens.total / max(1, live.outcome.started) for live in self.live}
        remaining = self.seconds - (time.monotonic() - self.started)
        return demo_size(rate, lengths, max(SAMPLING_SHARE * self.seconds, remaining))

    def compare(self) -> None:
        """Compare strategies on the recorded paths, if any question is complete."""
        if not self.pool.exists():
            return
        self.result = compare(self.pool, DEMO_STRATEGIES, repeats=REPEATS, seed=self.seed)
        if not self.quiet:
            typer.echo("")
            show(replace(self.result, pool="fresh paths"))
            typer.echo(demo_summary(self.result))

    def to_json(self) -> dict[str, Any]:
        """All results."""
        return {
            "live": [live.to_json() for live in self.live],
            "comparison": None if self.result is None else json_table([self.result]),
            "tokens_per_second": self.rate_meter.rate(0.0) or None,
            "seconds": time.monotonic() - self.started,
        }
