"""`sureenough demo`: the built-in model, three questions live, then every kind of strategy on the same fresh paths.

Ctrl-C at any moment shows what there is by then.
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
from rich.console import Console

from sureenough.answers import same
from sureenough.api import TEMPLATE, ask, render_prompt
from sureenough.bench import Comparison, compare
from sureenough.bench.tables import json_table
from sureenough.cli.ask import watching
from sureenough.cli.demo_size import DemoSize, Pace, demo_size
from sureenough.cli.demo_summary import answer, demo_summary
from sureenough.cli.record import progress
from sureenough.cli.replay import show
from sureenough.core.options import check_seed
from sureenough.core.outcome import Outcome
from sureenough.drivers.record import PathCallback, RecordQuestion, record
from sureenough.engines.local.engine import Local
from sureenough.errors import TraceError
from sureenough.pools import Journal, PoolInfo, write_journal_pool
from sureenough.problems import GeneratedProblem, generate

STRATEGIES: Final = ("sc", "ac", "deepconf-low", "ddc", "sure")
REPEATS: Final = 5
LIVE: Final = {1: 0, 3: 3, 5: 2}
"""Levels that are asked live, and which of their first problems: arithmetic, a story, a remainder."""
LIVE_PATHS: Final = 32
AT_ONCE: Final = 32
LEAST: Final = 0.25
"""The share of the time in which paths are sampled at least, however slow the first part was."""


class Live(NamedTuple):
    """A question that was asked live."""

    problem: GeneratedProblem
    outcome: Outcome
    seconds: float

    @property
    def right(self) -> bool:
        """Whether the answer is the true one."""
        return self.outcome.answer is not None and same(self.outcome.answer, self.problem.gold)

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {**asdict(self.problem), "right": self.right, "seconds": self.seconds, **self.outcome.to_json()}


def command(
    seed: Annotated[int, typer.Option(help="Of the questions and the paths.")] = 0,
    keep: Annotated[Path | None, typer.Option(help="Keep the recorded paths in this pool.")] = None,
    seconds: Annotated[float, typer.Option(help="How long it should take, about.", min=1)] = 60.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Three questions live, then strategies compared on fresh paths; a minute, nothing but this machine."""
    check_seed("seed", seed)
    if keep is not None and keep.exists():
        raise TraceError(f"{keep} is there already; name another pool, or move it away")
    if keep is not None and not keep.absolute().parent.is_dir():
        raise TraceError(f"{keep.parent} is no folder; make it, or keep the paths elsewhere")
    with tempfile.TemporaryDirectory() as folder:
        demo = _Demo(seed, keep or Path(folder) / "demo.parquet", seconds, as_json)
        whole = demo.run()
    if as_json:
        typer.echo(json.dumps(demo.to_json(), allow_nan=False))
    raise typer.Exit(0 if whole else 130)


class _Demo:
    """What has been asked, sampled and compared so far."""

    def __init__(self, seed: int, pool: Path, seconds: float, quiet: bool) -> None:
        self.seed, self.pool, self.seconds, self.quiet = seed, pool, seconds, quiet
        self.engine = Local(slots=AT_ONCE)
        self.began = time.monotonic()
        self.live: list[Live] = []
        self.pace = Pace()
        self.result: Comparison | None = None

    def run(self) -> bool:
        """All of it; whether it was not interrupted."""
        self.say("The built-in model, on this machine. First three questions, easy to hard, asked live with ddc.")
        try:
            whole = all(self.ask(level) for level in LIVE) and self.sample()
        except KeyboardInterrupt:
            whole = False
        if not whole:
            self.say("Interrupted: this is what there is.")
        self.compare()
        return whole

    def say(self, text: str) -> None:
        """A line for people."""
        if not self.quiet:
            typer.echo(text)

    def ask(self, level: int) -> bool:
        """One question, live; whether it was not interrupted."""
        problem = generate(level, self.seed, LIVE[level] + 1)[-1]
        self.say(f"\nLevel {level}: {problem.question}")
        began = time.monotonic()
        with watching(LIVE_PATHS, self.quiet or not Console().is_terminal) as screen:
            watchers = [self.pace, *([screen] if screen else [])]
            out = ask(problem.question, self.engine, "ddc", paths=LIVE_PATHS, seed=self.seed, observers=watchers)
        self.live.append(Live(problem, out, time.monotonic() - began))
        self.say(answer(out, problem.gold, self.live[-1].right, self.live[-1].seconds))
        return out.reason != "interrupted"

    def sample(self) -> bool:
        """Fresh problems, as many as there is time for; whether it was not interrupted."""
        size = self.demo_size()
        counts = {level: size.levels.count(level) for level in sorted(set(size.levels))}
        mix = ", ".join(f"{many} of level {level}" for level, many in counts.items())
        self.say(
            f"\nNow {len(size.levels)} fresh problems ({mix}), {size.paths} paths each: about {size.tokens:,} tokens, "
            f"{size.tokens / size.rate:.0f} s at {size.rate:,.0f} tokens/s."
        )
        problems = [one for level, many in counts.items() for one in generate(level, self.seed + 1, many)]
        prompts = {one.id: render_prompt(one.question, self.engine.template or TEMPLATE) for one in problems}
        asked = [RecordQuestion(one.id, prompts[one.id], one.gold, one.level) for one in problems]
        notes = self.pool.with_name(self.pool.name + ".journal")
        with Journal(notes, {"seed": self.seed, "questions": len(asked)}) as journal:
            try:
                with progress(len(asked) * size.paths, 0) as told:
                    asyncio.run(self.record(asked, size.paths, journal, told))
                return True
            except KeyboardInterrupt:
                return False
            finally:
                self.keep(asked, size.paths, journal)
                notes.unlink()

    async def record(self, asked: Sequence[RecordQuestion], paths: int, journal: Journal, told: PathCallback) -> None:
        """Sample every path."""
        await record(asked, self.engine, journal, paths=paths, parallel=AT_ONCE, seed=self.seed, told=told)

    def keep(self, asked: list[RecordQuestion], paths: int, journal: Journal) -> None:
        """Write the pool of those questions that were sampled whole."""
        whole = [one for one in asked if all((one.id, number) in journal.paths for number in range(paths))]
        if not whole:
            return
        wire = self.engine.wire()
        info = PoolInfo("arith", wire.model, "local", wire.k, sampling=wire.sampling(),
                        prompt=self.engine.template or TEMPLATE, window=wire.window)  # fmt: skip
        write_journal_pool(self.pool, whole, journal, info, keep_text=True)

    def demo_size(self) -> DemoSize:
        """What the speed of the first part leaves time for."""
        made = sum(one.outcome.tokens.total for one in self.live)
        rate = self.pace.rate(made / max(1e-9, sum(one.seconds for one in self.live)))
        lengths = {one.problem.level: one.outcome.tokens.total / max(1, one.outcome.started) for one in self.live}
        left = self.seconds - (time.monotonic() - self.began)
        return demo_size(rate, lengths, max(LEAST * self.seconds, left))

    def compare(self) -> None:
        """Every strategy on the same paths, where enough were sampled."""
        if not self.pool.exists():
            return
        self.result = compare(self.pool, STRATEGIES, repeats=REPEATS, seed=self.seed)
        if not self.quiet:
            typer.echo("")
            show(replace(self.result, pool="fresh paths"))
            typer.echo(demo_summary(self.result))

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "live": [one.to_json() for one in self.live],
            "comparison": None if self.result is None else json_table([self.result]),
            "tokens_per_second": self.pace.rate(0.0) or None,
            "seconds": time.monotonic() - self.began,
        }
