"""The façade: questions and recorded paths in, outcomes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sureenough.answers import REPLAY_SECONDS, Judge
from sureenough.core.outcome import Outcome
from sureenough.core.sizes import Count, refuse_bad_seconds, refuse_bad_seed
from sureenough.core.strategy import Strategy
from sureenough.drive import replay as run_recorded
from sureenough.errors import UsageError
from sureenough.spec import resolve
from sureenough.traces import RecordedPath

DEFAULT_WINDOW: Final = 2048
"""The paper's window, where neither caller nor pool says otherwise."""


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
    refuse_bad_seed(seed)
    if deadline is not None:
        refuse_bad_seconds("deadline", deadline)
    return run_recorded(
        recorded,
        resolve(strategy),
        paths=len(recorded) if paths is None else paths,
        window=DEFAULT_WINDOW if window is None else window,
        parallel=parallel,
        seed=seed,
        max_tokens=max_tokens,
        deadline=deadline,
        count=count,
        planned=planned,
        classes=_classes(sorted({path.answer for path in recorded if path.answer is not None})),
    )


def _classes(answers: list[str]) -> dict[str, int | None]:
    """The class of every answer; they depend on the set of answers alone."""
    return dict(zip(answers, Judge(REPLAY_SECONDS).classes(answers), strict=True))
