"""`sureenough doctor`: does a server return what strategies need? Exit codes: 0 yes, 1 a check failed, 3 no server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import Annotated, Final

import typer

from sureenough.cli.doctor_checks import Check, examine
from sureenough.cli.engine import EngineOptions, engine_options
from sureenough.cli.learned import LearnedStates, LearnFile, StateFolder
from sureenough.cli.option_groups import with_options
from sureenough.cli.terminal import echo
from sureenough.cli.width_timing import TOKENS, check_width
from sureenough.engines.base import Engine
from sureenough.engines.load_balancer import LoadBalancer
from sureenough.engines.requests import Prompt
from sureenough.engines.server_loads import ServerCounts
from sureenough.errors import EngineError

BALANCED_TOKENS: Final = 32
MARKS: Final = {True: "✓", False: "✗", None: "?"}


@with_options(
    server=engine_options(
        leave_out=("temperature", "top_p", "max_path_tokens", "metrics", "plugin"), first_token=60.0, stall=30.0
    )
)
def command(
    *,
    server: EngineOptions,
    width: Annotated[
        bool,
        typer.Option(
            "--width", help="Also measure how many paths at once take less than twice as long as one (24,000 tokens)."
        ),
    ] = False,
    learn: LearnFile = None,
    state: StateFolder = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check a server or a local model: candidates, raw log-probabilities, seeds, closing, counting, chunks."""
    learned = LearnedStates(learn, state)
    reports = []
    each = server.each_server()
    for one in each:
        engine = replace(one, temperature=1.0, top_p=1.0).engine()
        show = None if as_json else _show
        if len(each) > 1 and not as_json:
            echo(f"{engine!r}:")
        checks = asyncio.run(examine(engine, show))
        if width:
            checks.append(asyncio.run(check_width(replace(engine, max_path_tokens=TOKENS))))
            if show is not None:
                show(checks[-1])
        well = all(check.good is not False for check in checks)
        known = {"learned": learned.of(engine.model_name())} if learned.files else {}
        reports.append({"well": well, "checks": [check._asdict() for check in checks], **known})
        if not as_json:
            echo("\n".join([*summary(checks), *learned.lines(engine.model_name())]))
    if len(each) > 1:
        counts = asyncio.run(_use_all(each))
        reports = [report | {"server": one._asdict()} for report, one in zip(reports, counts, strict=True)]
        if not as_json:
            echo("\n".join(map(str, counts)))
    well = all(report["well"] for report in reports)
    if as_json:
        typer.echo(json.dumps(reports[0] if len(each) == 1 else {"well": well, "servers": reports}))
    raise typer.Exit(0 if well else 1)


async def _use_all(each: Sequence[EngineOptions]) -> list[ServerCounts]:
    """Four short paths per server through the load balancer, and what each server did."""
    balancer = LoadBalancer([replace(one, max_path_tokens=BALANCED_TOKENS).engine(quiet=True) for one in each])

    async def sample(ready: Engine, seed: int) -> None:
        with suppress(EngineError):  # the counts tell
            async with aclosing(ready.stream(Prompt.user("Count from 1 to 100."), seed=seed)) as chunks:
                async for _ in chunks:
                    pass

    async with balancer.open(parallel=4 * len(each)) as ready, asyncio.TaskGroup() as tasks:
        for seed in range(4 * len(each)):
            tasks.create_task(sample(ready, seed))
    return balancer.counts()


def _show(check: Check) -> None:
    if check.skipped_by is not None:
        return
    echo(f"{MARKS[check.good]} {check.name:10} {check.found}")
    if check.good is not True and check.fix:
        echo(f"  {'':10} fix: {check.fix}")


def summary(checks: Sequence[Check]) -> Iterator[str]:
    """Which checks were skipped and why, and what all of them together say."""
    for cause in dict.fromkeys(check.skipped_by for check in checks if check.skipped_by):
        names = ", ".join(check.name for check in checks if check.skipped_by == cause)
        yield f"- skipped    {names}: see {cause}"
    undecided = [check.name for check in checks if check.good is None and not check.skipped_by]
    if any(check.good is False for check in checks):
        yield "Some strategies will not work correctly; see the failed checks."
    elif undecided:
        passed = sum(check.good is True for check in checks)
        yield f"{passed} of {len(checks)} checks passed, none failed; undecided: {', '.join(undecided)}."
    else:
        yield "All checks passed."
