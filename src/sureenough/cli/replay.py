"""`sureenough replay`: every strategy on the same recorded paths, in a table; or one question, in sentences."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from math import inf
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from sureenough.api import answer_classes
from sureenough.bench import Comparison, compare
from sureenough.bench.comparison import LEAST_NEEDED, to_csv, to_json
from sureenough.bench.judging import judge_of, read_again
from sureenough.bench.pipeline import DEFAULT_REPEATS, suitable_jobs
from sureenough.bench.tables import for_terminal
from sureenough.cli.import_ import with_imported
from sureenough.cli.live_display import NOT_COUNTED
from sureenough.cli.options import (
    GRADER_HELP,
    AsJson,
    Jobs,
    PoolKind,
    Strategies,
    is_typed,
    rare_option,
    run_options,
    split_strategies,
    with_options,
)
from sureenough.cli.terminal import echo, echo_json, progress, terminal
from sureenough.core.options import RunOptions
from sureenough.core.outcome import Outcome, PathSnapshot
from sureenough.core.session import Session
from sureenough.data import BUILTIN_POOL, FRESH, FRESH_POOLS, PROBLEMS_POOL
from sureenough.drivers import replay
from sureenough.drivers.replay import ReplayDriver, fast_replay
from sureenough.errors import UsageError
from sureenough.pools import Pool, Question, RecordedPath
from sureenough.spec import resolve
from sureenough.strategies import DEFAULT_STRATEGY

QuestionOption = Annotated[
    str | None, typer.Option("-q", "--question", help="The question's id, or its position from 1 on.")
]
COMPARING: Final = ("seed", "repeats", "equal", "grader", "skip_damaged", "jobs", "as_csv")
"""Options that one question has no use for."""


@with_options(
    run=run_options(
        RunOptions(),
        notes={"paths": "all recorded paths by default", "parallel": "1 is the paper's algorithm"},
        live=False,
    )
)
def command(
    *,
    call: typer.Context,
    pools: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="POOL",
            help="Parquet files, folders of parts, or URIs of these; `fresh` for the five sets of the package and for "
            "all of them together; the built-in pool by default. Logs are imported.",
        ),
    ] = None,
    strategy: Strategies = None,
    question: QuestionOption = None,
    show_paths: Annotated[
        bool, typer.Option("--show-paths", help="With --question: print every path that was started.")
    ] = False,
    run: RunOptions,
    repeats: Annotated[
        int, typer.Option(help="Orders of the paths to replay, the same for every strategy.")
    ] = DEFAULT_REPEATS,
    kind: PoolKind = None,
    equal: Annotated[str, rare_option(help="When answers are the same: by meaning, or by string.")] = "meaning",
    grader: Annotated[str, rare_option(help=GRADER_HELP)] = "own",
    skip_damaged: Annotated[bool, rare_option("--skip-damaged", help="Leave out damaged rows; count them.")] = False,
    jobs: Jobs = None,
    as_json: AsJson = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
) -> None:
    """Compare strategies on recorded paths: accuracy, tokens, steps, and why runs stopped.

    With --question, explain what a strategy decided on that question.
    """
    if pools == [Path("fresh")] and not pools[0].exists() and question is None:
        pools = [*FRESH_POOLS, FRESH]
    pools = with_imported(call, pools, kind)
    if question is not None:
        name, pool = _only_one(call, strategy, pools)
        explain(pool, question, name, run, kind, show_paths=show_paths, as_json=as_json)
        return
    if show_paths:
        raise UsageError("--show-paths prints the paths of one question: give its --question")
    if as_json and as_csv:
        raise UsageError("give --json or --csv, not both")
    options: Any = {name: getattr(run, name) for name in RunOptions.fields(live=False)}
    options |= {"repeats": repeats, "kind": kind, "equal": equal, "grader": grader, "skip_damaged": skip_damaged}
    results = []
    for pool in pools or [BUILTIN_POOL]:
        with progress(interval=inf) as show_progress:
            shown = partial(show_progress, pool.name)
            processes = jobs or suitable_jobs(pool, repeats)
            result = compare(pool, split_strategies(strategy), **options, jobs=processes, progress=shown)
        results.append(result)
        if not as_json and not as_csv:
            show(result)
    if as_json:
        echo_json(json.dumps(to_json(results), indent=2, allow_nan=False))
    elif as_csv:
        echo(to_csv(results))


def _only_one(call: typer.Context, strategies: list[str] | None, pools: list[Path] | None) -> tuple[str, Path | None]:
    """The strategy and the pool of --question; refuses what it has no use for."""
    unused = next((one for one in call.command.params if one.name in COMPARING and is_typed(call, one.name)), None)
    if unused is not None:
        raise UsageError(f"{unused.opts[-1]} is for comparisons: leave it out with --question")
    names = split_strategies(strategies) or [DEFAULT_STRATEGY]
    if len(names) != 1 or len(pools or ()) > 1:
        raise UsageError("--question explains one strategy on one pool")
    return names[0], pools[0] if pools else None


def show(result: Comparison) -> None:
    """Print a table that suits the output."""
    console = terminal()
    if not console.is_terminal:
        echo(str(result))
        return
    table = result.table()
    shown, left_out = for_terminal(table, console.width, LEAST_NEEDED)
    notes = table.notes
    if left_out:
        notes.append(f"not shown, the terminal is too narrow: {', '.join(left_out)}; --csv or --json has them")
    console.print(shown, *(Text(line, style="dim") for line in notes), *map(Text, result.advice()), sep="\n")


def explain(
    pool: Path | None, name: str, strategy: str, run: RunOptions, kind: str | None, *, show_paths: bool, as_json: bool
) -> None:
    """Print what a strategy decided on a recorded question, and why it stopped."""
    source, recorded = find_question(pool, name)
    recorded = read_again(recorded, kind, source)
    ended: list[PathSnapshot] = []

    def driver(paths: Sequence[RecordedPath], session: Session, expired: Callable[[], bool]) -> int:
        steps = fast_replay(paths, session, expired)
        ended.extend(session.snapshot().paths)
        return steps

    out = replay_question(source, recorded, strategy, run, driver, kind)
    if as_json:
        head = {"question": recorded.id, "question_text": recorded.text, "gold": recorded.gold}
        paths = {"path_list": [path._asdict() for path in ended]} if show_paths else {}
        echo_json(json.dumps(head | out.to_json() | paths, allow_nan=False))
        return
    echo(f"Question {recorded.id}" + (f", gold answer {recorded.gold}." if recorded.gold is not None else "."))
    if recorded.text is not None:
        echo(f"{recorded.text}\n")
    echo(out.explain())
    for path in ended if show_paths else ():
        echo("\n" + _path_lines(path, recorded.paths[path.number]))


def replay_question(
    pool: Pool, question: Question, strategy: str, run: RunOptions, driver: ReplayDriver, kind: str | None = None
) -> Outcome:
    """A strategy's run on the recorded paths of a question, by default with the window and the judge of its pool."""
    chosen = resolve(strategy)
    run = replace(run.with_recorded(len(question.paths), chosen), window=run.window or pool.window())
    classes, _ = answer_classes(question.paths, judge_of(question, kind, pool))
    return replay(question.paths, chosen, run, classes=classes, driver=driver)


def _path_lines(path: PathSnapshot, recorded: RecordedPath) -> str:
    """What became of a path, and its text as far as it was generated."""
    tier = f" by the {path.tier} test" if path.tier is not None else ""
    fate = NOT_COUNTED if path.ended_uncounted else f"{path.fate}{tier}"
    head = f"Path {path.number}: {fate}, {path.tokens:,} of {recorded.tokens:,} tokens, "
    head += "no answer" if path.answer is None else f"answer {path.answer}"
    if recorded.text is None:
        return head
    generated = recorded.token_texts
    return f"{head}\n{recorded.text if generated is None else generated[: path.tokens]}"


def find_question(file: Path | None, name: str | None) -> tuple[Pool, Question]:
    """A question by its id or position, and its pool; without a file, in the pools of the package."""
    pools = [Pool(file)] if file is not None else [Pool(PROBLEMS_POOL), Pool(BUILTIN_POOL)]
    ids: list[str] = []
    for pool in pools:
        for position, question in enumerate(pool, start=1):
            if name in (None, question.id, str(position)):
                return pool, question
            ids.append(question.id)
    close = get_close_matches(str(name), ids, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"it has {len(ids)}, from {ids[0]!r} to {ids[-1]!r}"
    raise UsageError(f"{file or 'the package'} has no question {name!r}; {hint}")
