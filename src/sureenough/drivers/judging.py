"""How a live run reads answers: what the answer in a path's text is, and which answers mean the same.

Both are plain callables, so that a caller can bring others.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Final

from sureenough.answers import Judge, extract
from sureenough.errors import UsageError

Extract = Callable[[str], str | None]
"""The answer in a path's text, or None."""

Group = Callable[[Sequence[str]], Mapping[str, Hashable]]
"""The class of each answer."""

KINDS: Final = ("math", "choice")


def extractor_for(kind: str) -> Extract:
    """The function that finds answers of this kind."""
    if kind not in KINDS:
        raise UsageError(f"unknown kind of answer {kind!r}; known: {', '.join(KINDS)}")
    return partial(extract, kind=kind)


def new_grouper() -> Group:
    """Groups the answers of one question, and remembers what it has compared."""
    judge = Judge()
    return lambda answers: dict(zip(answers, judge.classes(answers), strict=True))


def classes_or_own(group: Group, answers: Sequence[str]) -> tuple[dict[str, Hashable], str | None]:
    """The class of each answer, and a note if grouping failed: then every answer is a class of its own."""
    try:
        classes = group(list(answers))
        return {answer: classes.get(answer, answer) for answer in answers}, None
    except Exception as error:  # a judge may be the caller's own: its faults cost votes, not the run
        note = f"answers could not be compared, and count as different: {type(error).__name__}: {error}"
        return {answer: answer for answer in answers}, note
