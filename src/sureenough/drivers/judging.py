"""How a live run reads a path's text: what its answer is, and which answers mean the same.

Both are plain callables, so that a caller can bring others; comparing may be slow, and runs off the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Final

from sureenough.answers import Judge, extract
from sureenough.errors import UsageError

Extract = Callable[[str], str | None]
"""The answer in a path's text, where there is one."""

Group = Callable[[Sequence[str]], Mapping[str, Hashable]]
"""The class of each answer."""

KINDS: Final = ("math", "choice")


def extractor_for(kind: str) -> Extract:
    """How answers of this kind are found."""
    if kind not in KINDS:
        raise UsageError(f"unknown kind of answer {kind!r}; known: {', '.join(KINDS)}")
    return partial(extract, kind=kind)


def new_grouper() -> Group:
    """A judge for one question, who remembers what was compared before."""
    judge = Judge()
    return lambda answers: dict(zip(answers, judge.classes(answers), strict=True))
