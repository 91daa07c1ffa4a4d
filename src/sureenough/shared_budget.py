"""`allocate`, `aallocate`: many questions share one budget of tokens."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from sureenough.answers import for_question, resolve_kind
from sureenough.api import Kind, answer_classes, builtin_engine, learn_from
from sureenough.core.allocation import check_allocatable
from sureenough.core.events import Regrouped
from sureenough.core.learning import LearnerState
from sureenough.core.options import LIVE_DEFAULTS, RunOptions, check_count, choose_window
from sureenough.core.outcome import Outcome
from sureenough.core.session import Session
from sureenough.core.strategy import Strategy
from sureenough.drivers.allocate import ALLOCATED, AllocatedQuestion, replay_allocation, run_allocation
from sureenough.drivers.blocking import run_blocking
from sureenough.engines.base import Engine, SupportsStream, as_engine
from sureenough.engines.requests import Prompt
from sureenough.errors import UsageError
from sureenough.pools import Journal, Learner, RecordedPath, scan_together
from sureenough.pools.learner import LearnerKey, as_learner
from sureenough.spec import render, resolve
from sureenough.templates import render_prompt, template_of

Recording = Sequence[RecordedPath]


async def aallocate(
    questions: Iterable[str | Prompt | Recording],
    engine: SupportsStream | None = None,
    strategy: str | Strategy = ALLOCATED,
    *,
    total_tokens: int,
    paths: int | None = None,
    window: int | None = None,
    parallel: int = LIVE_DEFAULTS.parallel,
    seed: int = 0,
    template: str | None = None,
    kind: Kind = "math",
    learn: Learner | LearnerState | str | Path | None = None,
    journal: str | Path | None = None,
) -> list[Outcome]:
    """Answer many questions with one budget of tokens; one outcome per question, in their order.

    The next path goes to the question whose expected gain, in vote share, per expected token is largest. It starts if
    what is left of the budget is at least what it is expected to take. Each question runs one path at a time.

    Args:
        questions: texts or prompts for a live engine, or one list of RecordedPath for each question.
        engine: what samples the paths; the built-in model by default. Recorded paths need none.
        strategy: `sure` with any options; with its default, delta=0, the whole budget is spent.
        total_tokens: the budget of all questions together.
        paths: the most paths of one question: 64, or all that are recorded.
        window: tokens per window; by default what the engine suggests, else chosen from the lengths of paths.
        parallel: the most paths that run at once, over all questions; recorded paths run one at a time.
        seed: each path derives its own.
        template: contains {question}; by default what the engine suggests for mathematics, else what the kind asks for.
        kind: kind of answer; see docs/tasks.md.
        learn: a Learner or the name of its file, read before the run and updated after it; or a LearnerState to use.
        journal: a file in which complete paths are kept; if it exists, the paths in it are not sampled again.
    """
    check_count("total_tokens", total_tokens)
    options = RunOptions(paths=paths, window=window, parallel=parallel, seed=seed)
    chosen = resolve(strategy)
    check_allocatable(chosen)
    questions = _listed(questions)
    if not questions:
        return []
    recorded = [not isinstance(question, str | Prompt) for question in questions]
    if any(recorded) != all(recorded):
        raise UsageError("some questions are recorded and some are not; give one kind at a time")
    if recorded[0]:
        if engine is not None or journal is not None or isinstance(learn, Learner | str | Path):
            raise UsageError("recorded paths need no engine, no journal and no file to learn from")
        return _replay(cast(Sequence[Recording], questions), _with(chosen, learn), total_tokens, options, kind)
    engine = builtin_engine() if engine is None else as_engine(engine)
    options = replace(options, paths=paths or LIVE_DEFAULTS.paths, window=window or engine.window)
    learner = as_learner(learn) if isinstance(learn, Learner | str | Path) else None
    key = LearnerKey(engine.model_name(), options.window or 0, render(chosen))
    state = learner.state(key) if learner is not None else cast(LearnerState | None, learn)
    texts = cast(Sequence[str | Prompt], questions)
    outcomes = await _run(texts, engine, _with(chosen, state), total_tokens, options, (kind, template), journal)
    notes = () if learner is None else await learn_from(outcomes, learner, key)
    return [replace(outcome, notes=(*outcome.notes, *notes)) for outcome in outcomes]


def allocate(
    questions: Iterable[str | Prompt | Recording],
    engine: SupportsStream | None = None,
    *arguments: Any,
    **options: Any,
) -> list[Outcome]:
    """Answer many questions with one budget of tokens, and wait; the arguments are those of `aallocate`."""
    if engine is not None:
        as_engine(engine).prepare()
    return run_blocking(lambda: aallocate(questions, engine, *arguments, **options))


allocate.__signature__ = inspect.signature(aallocate)  # type: ignore[attr-defined]


def _listed(questions: Iterable[str | Prompt | Recording]) -> list[str | Prompt | Recording]:
    """The questions, which may come from a generator; one text alone would be taken letter by letter."""
    if isinstance(questions, str) or not isinstance(questions, Iterable):
        raise UsageError(f"questions is a list of questions, not {type(questions).__name__}")
    return [question if isinstance(question, str | Prompt) else _recording(question) for question in questions]


def _recording(question: object) -> Recording:
    paths: list[Any] = list(question) if isinstance(question, Iterable) else [None]
    if any(not isinstance(path, RecordedPath) for path in paths):
        raise UsageError("a question is a text, a Prompt or a list of RecordedPath, such as `question.paths` of a pool")
    return paths


def _with(strategy: Strategy, state: LearnerState | None) -> Strategy:
    return strategy if state is None else strategy.with_state(state)


def _replay(
    questions: Sequence[Recording], strategy: Strategy, total: int, options: RunOptions, kind: Kind
) -> list[Outcome]:
    if any(not question for question in questions):
        raise UsageError("a question has no recorded paths")
    size = options.window or choose_window([path.tokens for question in questions for path in question])
    used = [question[: options.paths] for question in questions]
    sessions = []
    for question in used:
        scan_together(question, size)
        run = replace(options, paths=len(question), window=size, parallel=1)
        sessions.append(Session(strategy, run))
        sessions[-1].receive(Regrouped(answer_classes(question, kind)[0]))
    outcomes = replay_allocation([[path.summarised(size) for path in question] for question in used], sessions, total)
    return [replace(outcome, strategy=render(strategy)) for outcome in outcomes]


async def _run(
    questions: Sequence[str | Prompt],
    engine: Engine,
    strategy: Strategy,
    total: int,
    options: RunOptions,
    task: tuple[Kind, str | None],
    journal: str | Path | None,
) -> list[Outcome]:
    judge, template = resolve_kind(task[0]), task[1]
    template = template if template is not None else template_of(judge, engine.template)
    made = []
    for number, question in enumerate(questions):
        prompt = question if isinstance(question, Prompt) else render_prompt(question, template)
        text = question if isinstance(question, str) else question.last_text
        session = Session(strategy, replace(options, parallel=1), longest_window=engine.longest_window, gives_up=True)
        made.append(AllocatedQuestion(str(number), prompt, for_question(judge, text), session))
    with ExitStack() as files:
        kept = None
        if journal is not None:
            content = hashlib.sha256(repr([question.prompt.messages for question in made]).encode()).hexdigest()
            terms = {"prompts": content, "model": engine.model_name(), "seed": options.seed, **engine.sampling()}
            kept = files.enter_context(Journal(Path(journal), terms))
        return await run_allocation(made, engine, total, parallel=options.parallel, journal=kept)
