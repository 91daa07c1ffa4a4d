"""One recorded question: found by its name, and what a strategy decides on it in sentences."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import typer

from sureenough.api import answer_classes
from sureenough.bench.judging import judge_of, read_again
from sureenough.cli.live_display import NOT_COUNTED
from sureenough.cli.terminal import echo
from sureenough.core.options import RunOptions
from sureenough.core.session import Session
from sureenough.core.snapshot import PathSnapshot
from sureenough.data import BUILTIN_POOL, PROBLEMS_POOL
from sureenough.drivers import replay
from sureenough.drivers.replay import fast_replay
from sureenough.engines.recorded import token_texts
from sureenough.errors import UsageError
from sureenough.pools import Pool, Question, RecordedPath, SummarisedPath
from sureenough.spec import resolve

QuestionOption = Annotated[
    str | None, typer.Option("-q", "--question", help="The question's id, or its position from 1 on.")
]


def explain(
    pool: Path | None, name: str, strategy: str, run: RunOptions, kind: str | None, *, show_paths: bool, as_json: bool
) -> None:
    """Print what a strategy decided on a recorded question, and why it stopped."""
    source, recorded = find_question(pool, name)
    run = replace(run.with_recorded(len(recorded.paths), resolve(strategy)), window=run.window or source.window())
    ended = _EndedPaths()
    recorded = read_again(recorded, kind, source)
    classes = recorded_answer_classes(source, recorded, kind)
    out = replay(recorded.paths, resolve(strategy), run, classes=classes, driver=ended)
    if as_json:
        head = {"question": recorded.id, "question_text": recorded.text, "gold": recorded.gold}
        paths = {"path_list": [path._asdict() for path in ended.paths]} if show_paths else {}
        typer.echo(json.dumps(head | out.to_json() | paths, allow_nan=False))
        return
    echo(f"Question {recorded.id}" + (f", gold answer {recorded.gold}." if recorded.gold is not None else "."))
    if recorded.text is not None:
        echo(f"{recorded.text}\n")
    echo(out.explain())
    for path in ended.paths if show_paths else ():
        echo("\n" + _path_lines(path, recorded.paths[path.number]))


def recorded_answer_classes(pool: Pool, question: Question, kind: str | None = None) -> dict[str, Hashable]:
    """The class of every answer of a recorded question."""
    return answer_classes(question.paths, judge_of(question, kind, pool))[0]


class _EndedPaths:
    """A driver of replays that keeps what became of each path."""

    def __init__(self) -> None:
        self.paths: Sequence[PathSnapshot] = ()

    def __call__(
        self, recorded: Sequence[RecordedPath | SummarisedPath], session: Session, expired: Callable[[], bool]
    ) -> int:
        steps = fast_replay(recorded, session, expired)
        self.paths = session.snapshot().paths
        return steps


def _path_lines(path: PathSnapshot, recorded: RecordedPath) -> str:
    """What became of a path, and its text as far as it was generated."""
    fate = f"{path.fate} by the {path.tier} test" if path.tier is not None else f"{path.fate}"
    fate = NOT_COUNTED if path.ended_uncounted else fate
    head = f"Path {path.number}: {fate}, {path.tokens:,} of {recorded.tokens:,} tokens, "
    head += "no answer" if path.answer is None else f"answer {path.answer}"
    if recorded.text is None:
        return head
    generated = token_texts(recorded)
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
