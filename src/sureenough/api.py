"""The façade: questions and recorded paths in, outcomes out."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final

from sureenough.answers import REPLAY_PATIENCE, REPLAY_SECONDS, Judge
from sureenough.core.options import DEFAULT_WINDOW, Count, RunOptions
from sureenough.core.outcome import Outcome
from sureenough.core.session import Session
from sureenough.core.strategy import Strategy
from sureenough.drivers import replay as run_recorded
from sureenough.drivers.judging import Extract, extractor_for, new_grouper
from sureenough.drivers.live import run as run_live
from sureenough.drivers.observers import Observer
from sureenough.engines.base import Engine, Prompt, prepare, suggested_template, suggested_window
from sureenough.errors import UsageError
from sureenough.pools import RecordedPath
from sureenough.spec import resolve


def replay(
    recorded: Sequence[RecordedPath],
    strategy: str | Strategy = "ddc",
    *,
    paths: int | None = None,
    window: int | None = None,
    parallel: int = 1,
    seed: int = 0,
    max_tokens: int | None = None,
    deadline: float | None = None,
    count: Count = "start",
    planned: bool = False,
) -> Outcome:
    """What `strategy` would have answered on these recorded paths, taken in the order given.

    Args:
        recorded: the paths of one question.
        strategy: a spec such as "ddc:warmup=8,tau=0.99", or a Strategy.
        paths: the budget; all of them by default.
        window: tokens a window; 2048 by default.
        parallel: paths that run at once; 1 is the paper's algorithm.
        seed: kept in the outcome; recorded paths need none.
        max_tokens: cap on the tokens of all paths together.
        deadline: seconds of wall clock after which the vote so far is taken.
        count: the order in which votes are counted, of "start" or of "finish".
        planned: run no more paths at once than twice what the strategy needs at least.
    """
    recorded = list(recorded)
    if not recorded:
        raise UsageError("there are no paths to replay; give at least one RecordedPath")
    wrong = next((path for path in recorded if not isinstance(path, RecordedPath)), None)
    if wrong is not None:
        raise UsageError(f"replay takes RecordedPath objects, not {type(wrong).__name__}")
    options = RunOptions(
        paths=len(recorded) if paths is None else paths,
        window=DEFAULT_WINDOW if window is None else window,
        parallel=parallel,
        seed=seed,
        max_tokens=max_tokens,
        deadline=deadline,
        count=count,
        planned=planned,
    )
    return run_recorded(
        recorded,
        resolve(strategy),
        options,
        classes=_classes(sorted({path.answer for path in recorded if path.answer is not None})),
    )


def _classes(answers: list[str]) -> dict[str, int | None]:
    """The class of every answer; they depend on the set of answers alone."""
    return dict(zip(answers, Judge(REPLAY_SECONDS, patience=REPLAY_PATIENCE).classes(answers), strict=True))


TEMPLATE: Final = "{question}\n\nPlease reason step by step, and put your final answer within \\boxed{{}}."
"""How a question is put, unless the caller brings a template of their own."""


async def aask(
    question: str | Prompt,
    engine: Engine | None = None,
    strategy: str | Strategy = "ddc",
    *,
    paths: int = 64,
    window: int | None = None,
    parallel: int = 16,
    seed: int = 0,
    max_tokens: int | None = None,
    deadline: float | None = None,
    count: Count = "start",
    planned: bool = False,
    template: str | None = None,
    kind: str = "math",
    extract: Extract | None = None,
    observers: Iterable[Observer] = (),
) -> Outcome:
    """Ask a live engine. Cancelling this closes every stream and returns the vote so far.

    Args:
        question: put into the template; a Prompt is sent as it is.
        engine: what grows the paths, such as an OpenAI-compatible server; the built-in model by default.
        strategy: a spec such as "ddc:warmup=8,tau=0.99", or a Strategy.
        paths: the budget.
        window: tokens a window; what the engine suggests, else 2048.
        parallel: paths that run at once.
        seed: of the run; every path derives its own.
        max_tokens: cap on the tokens of all paths together.
        deadline: seconds of wall clock after which the vote so far is taken.
        count: the order in which votes are counted, of "start" or of "finish".
        planned: run no more paths at once than twice what the strategy needs at least.
        template: with a place for the {question}; what the engine suggests, else a request to reason and to box.
        kind: of answer, "math" or "choice".
        extract: finds the answer in a path's text, in place of the kind's own way.
        observers: called with everything that happens.
    """
    remarks: tuple[str, ...] = ()
    if engine is None:
        engine, remarks = _builtin(question)
    options = RunOptions(
        paths=paths,
        window=(suggested_window(engine) or DEFAULT_WINDOW) if window is None else window,
        parallel=parallel,
        seed=seed,
        max_tokens=max_tokens,
        deadline=deadline,
        count=count,
        planned=planned,
    )
    session = Session(resolve(strategy), options)
    wording = template if template is not None else suggested_template(engine) or TEMPLATE
    out = await run_live(
        question if isinstance(question, Prompt) else render_prompt(question, wording),
        engine,
        session,
        extract=extract or extractor_for(kind),
        group=new_grouper(),
        observers=observers,
    )
    return replace(out, notes=(*out.notes, *remarks)) if remarks else out


def _builtin(question: str | Prompt) -> tuple[Engine, tuple[str, ...]]:
    """The model that comes with the package, and what its answers are worth."""
    from sureenough.engines.local.engine import Local
    from sureenough.reasoner import hint

    strange = hint(question if isinstance(question, str) else question.text)
    said = "answered by the built-in model, which knows school arithmetic only"
    return Local(), (said,) if strange is None else (said, strange)


def ask(
    question: str | Prompt, engine: Engine | None = None, strategy: str | Strategy = "ddc", **options: Any
) -> Outcome:
    """Ask a live engine and wait; the options are those of `aask`. Ctrl-C returns the vote so far."""
    prepare(engine)
    return _run_blocking(lambda: aask(question, engine, strategy, **options))


def _run_blocking(work: Callable[[], Coroutine[Any, Any, Outcome]]) -> Outcome:
    """Run to the end; beside the loop where one is running already, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work())
    return _ThreadedRun(work).result()


class _ThreadedRun(threading.Thread):
    """Work on a loop of its own, in a thread of its own."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, Outcome]]) -> None:
        super().__init__(name="sureenough", daemon=True)
        self._work = work
        self._outcome: Outcome | None = None
        self._error: BaseException | None = None
        self._interrupted = False
        self._cancel: Callable[[], object] = lambda: None

    def run(self) -> None:
        """What the thread does."""
        try:
            self._outcome = asyncio.run(self._held())
        except BaseException as error:  # handed to the caller's thread
            self._error = error

    async def _held(self) -> Outcome:
        task, loop = asyncio.ensure_future(self._work()), asyncio.get_running_loop()
        self._cancel = partial(loop.call_soon_threadsafe, task.cancel)
        if self._interrupted:  # before there was anything to cancel
            loop.call_soon(task.cancel)
        return await task

    def result(self) -> Outcome:
        """Wait for it; a first interrupt asks for the vote so far, a second one is not waited for."""
        self.start()
        with _interrupts(self._interrupt):
            self.join()
        if self._error is not None:
            raise self._error
        assert self._outcome is not None
        return self._outcome

    def _interrupt(self, number: int, frame: object) -> None:
        if self._interrupted:
            raise KeyboardInterrupt
        self._interrupted = True
        self._cancel()


@contextmanager
def _interrupts(heard: Callable[[int, Any], None]) -> Iterator[None]:
    """Hear Ctrl-C ourselves: the loop around us, whose turn it is not, would only take note of it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, heard)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before if before is not None else signal.default_int_handler)


def render_prompt(question: str, template: str = TEMPLATE) -> Prompt:
    """A question as it is put to a model."""
    if not question.strip():
        raise UsageError("the question is empty")
    try:
        text = template.format(question=question)
        placed = template.format(question="") != template.format(question="?")
    except (KeyError, IndexError, ValueError, AttributeError):
        raise UsageError(
            "the template has braces that are no {question}; write {{ and }} for braces that are meant"
        ) from None
    if not placed:
        raise UsageError("the template has no place for the question; write {question} where it belongs")
    return Prompt.user(text)
