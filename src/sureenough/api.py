"""`ask`, `aask` and `replay`: questions or recorded paths in, outcomes out."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Unpack

from sureenough import reasoner
from sureenough.answers import Judge, for_question, resolve_kind
from sureenough.answers.kinds import Extract, FunctionJudge, Math
from sureenough.core.options import LIVE_DEFAULTS, RunKeywords, RunOptions, run_options, takes_run_options
from sureenough.core.outcome import Outcome
from sureenough.core.session import Session
from sureenough.core.strategy import Strategy
from sureenough.core.weights import LearnerState
from sureenough.drivers import replay as run_recorded
from sureenough.drivers.blocking import run_blocking
from sureenough.drivers.judging import classes_or_own
from sureenough.drivers.live import run as run_live
from sureenough.drivers.observers import Observer
from sureenough.engines.base import Engine, Prompt, as_engine
from sureenough.errors import UsageError
from sureenough.pools import RecordedPath
from sureenough.pools.learner import LearnerStates
from sureenough.spec import render, resolve
from sureenough.strategies import DEFAULT_STRATEGY
from sureenough.templates import render_prompt, template_of

Kind = str | Judge | tuple[Extract, Callable[[str, str], bool]] | type
"""A kind of answer: a name such as "number:rel=1e-3", a judge, a class of judges, or two functions (extract, same)."""

_ASKS_FOR_TEXT: Final = re.compile(
    r"(?i)\s{0,9}(?:please\s|can you\s|could you\s)?(?:write|compose|draft|tell|make up|invent|sing)\b.{0,40}?"
    r"\b(?:poem|haiku|limerick|song|lyrics|story|tale|novel|essay|article|letter|e-?mail|speech|joke|tweet)s?\b"
)


class AskKeywords(RunKeywords, total=False):
    """The keyword arguments of `aask`."""

    template: str | None
    kind: Kind
    extract: Extract | None
    observers: Iterable[Observer]
    learn: LearnerState | str | Path | None
    gives_up: bool


@takes_run_options(RunOptions())
def replay(
    recorded: Sequence[RecordedPath],
    strategy: str | Strategy = DEFAULT_STRATEGY,
    *,
    kind: Kind = "math",
    learn: LearnerState | None = None,
    classes: Iterable[Iterable[str]] | None = None,
    **options: Unpack[RunKeywords],
) -> Outcome:
    """What `strategy` would have answered on these recorded paths, taken in the order given.

    By default the budget is all paths, and the window is chosen from their lengths. The seed is only kept in the
    outcome.

    Args:
        recorded: the paths of one question.
        strategy: a spec such as "ddc:warmup=8,tau=0.99", or a Strategy.
        kind: kind of answer, which says when two of them are the same; see docs/answers.md.
        learn: what was learned before, such as `outcome.learned` of the run to repeat; used if the strategy learns.
        classes: answers that count as one, such as `outcome.classes` of the run to repeat; the judge decides on others.
    """
    recorded = list(recorded) if isinstance(recorded, Iterable) else [recorded]
    if not recorded:
        raise UsageError("there are no paths to replay; give at least one RecordedPath")
    for one in recorded:
        if not isinstance(one, RecordedPath):
            raise UsageError(f"replay takes RecordedPath objects, such as `question.paths`, not {type(one).__name__}")
    run = run_options(replay, RunOptions(), options)
    chosen = resolve(strategy)
    run = run.with_recorded(len(recorded), chosen)
    chosen = chosen if learn is None else chosen.with_state(learn)
    by_answer, note = answer_classes(recorded, kind, classes)
    out = run_recorded(recorded, chosen, run, classes=by_answer)
    return out if note is None else replace(out, notes=(*out.notes, note))


def answer_classes(
    recorded: Iterable[RecordedPath], kind: Kind = "math", known: Iterable[Iterable[str]] | None = None
) -> tuple[dict[str, Hashable], str | None]:
    """The class of every answer of these paths, and a note if the judge failed."""
    answers = sorted({path.answer for path in recorded if path.answer is not None})
    judge = for_question(resolve_kind(kind))
    return classes_or_own(judge, answers, known or ())


@takes_run_options(LIVE_DEFAULTS)
async def aask(
    question: str | Prompt,
    engine: Engine | None = None,
    strategy: str | Strategy = DEFAULT_STRATEGY,
    *,
    template: str | None = None,
    kind: Kind = "math",
    extract: Extract | None = None,
    observers: Iterable[Observer] = (),
    learn: LearnerState | str | Path | None = None,
    gives_up: bool = True,
    **options: Unpack[RunKeywords],
) -> Outcome:
    """Ask a live engine. Cancelling it closes every stream and returns the vote so far.

    If neither the options nor the engine has a window, it is chosen from the lengths of the first paths.

    Args:
        question: rendered with the template; a Prompt is sent as it is.
        engine: what samples the paths, such as an OpenAI-compatible server; the built-in model by default.
        strategy: a spec such as "ddc:warmup=8,tau=0.99", or a Strategy.
        template: contains {question}; by default what the engine suggests for mathematics, else what the kind asks for.
        kind: kind of answer: "math", "choice", "text", "number:rel=1e-3" and more, or a judge; see docs/answers.md.
        extract: finds the answer in a path's text, instead of the kind's extractor.
        observers: called with every event.
        learn: what was learned before, as a LearnerState; or the name of a file, read before the run and updated after
            it. Without a window in the options, runs that learn in a file use the window of its latest state.
        gives_up: end the run with reason "no_answer" if the first paths, eight or the whole warm-up, give no answer.
    """
    if not isinstance(question, str | Prompt):
        raise UsageError(f"a question is a string or a Prompt, not {type(question).__name__}")
    if not isinstance(learn, LearnerState | str | Path | None):
        raise UsageError(f"learn is {learn!r}; it must be a LearnerState or the name of a file", argument="learn")
    run = run_options(aask, LIVE_DEFAULTS, options)
    builtin = engine is None
    engine = _builtin_engine() if engine is None else as_engine(engine)
    asks_builtin = builtin or _is_served_builtin(engine)
    notes = reasoner.notes(question if isinstance(question, str) else question.text) if asks_builtin else ()
    run = replace(run, paths=run.paths or LIVE_DEFAULTS.paths, window=run.window or engine.window)
    judge = resolve_kind(kind)
    if isinstance(judge, Math) and isinstance(question, str) and extract is None and _ASKS_FOR_TEXT.match(question):
        raise UsageError(
            "this question has no answer that can be compared, and a vote needs one; for votes on texts choose another "
            "kind of answer than math",
            argument="kind",
        )
    template = template if template is not None else template_of(judge, engine.template)
    judge = for_question(judge, question if isinstance(question, str) else question.last_text)
    if extract is not None:
        judge = FunctionJudge(extract, judge.classes, judge.grade)
    chosen = resolve(strategy)
    model, spec, states = engine.model_name(), render(chosen), None
    if isinstance(learn, str | Path) and chosen.reads_confidence:
        states = LearnerStates(Path(learn))
        run = replace(run, window=run.window or states.window(model, spec))
        learn = states.state(model, run.window, spec)
    if isinstance(learn, LearnerState):
        chosen = chosen.with_state(learn)
    out = await run_live(
        question if isinstance(question, Prompt) else render_prompt(question, template),
        engine,
        Session(chosen, run, longest_window=engine.longest_window, gives_up=gives_up),
        judge=judge,
        observers=observers,
    )
    if states is not None:
        states.receive(model, spec, out)
        notes += await asyncio.to_thread(states.save)
    return replace(out, notes=(*out.notes, *notes)) if notes else out


def _builtin_engine() -> Engine:
    from sureenough.engines.local.engine import Local

    return Local()


def _is_served_builtin(engine: Engine) -> bool:
    """Whether a server offers the built-in model; its replies do not pass on the notes about the model's limits."""
    if engine.model_name() != reasoner.NAME:
        return False
    from sureenough.engines.load_balancer import LoadBalancer
    from sureenough.engines.openai.client import OpenAI

    return isinstance(engine, OpenAI | LoadBalancer)  # others have a caller who knows which model it is


def ask(
    question: str | Prompt,
    engine: Engine | None = None,
    strategy: str | Strategy = DEFAULT_STRATEGY,
    **options: Unpack[AskKeywords],
) -> Outcome:
    """Ask a live engine and wait; the options are those of `aask`. Ctrl-C returns the vote so far."""
    if engine is not None:
        as_engine(engine).prepare()
    return run_blocking(lambda: aask(question, engine, strategy, **options))


ask.__signature__ = inspect.signature(aask)  # type: ignore[attr-defined]
