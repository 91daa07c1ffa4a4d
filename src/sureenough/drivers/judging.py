"""How drivers use a judge, whose faults cost votes but never a run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from typing import Final, TypeVar

from sureenough.answers import Judge
from sureenough.answers.compare import number_classes
from sureenough.answers.kinds import FAULTS, FunctionJudge, trait
from sureenough.drivers.blocking import in_daemon_thread
from sureenough.plugins import described

T = TypeVar("T")
INLINE_EXTRACTION: Final = 4_000
"""Characters of text up to which a built-in judge extracts on the event loop."""
SLOW_TRAITS: Final = ("schema", "pattern")
"""What a built-in judge has that may take long with any text: clients choose them."""
THREAD: Final = "sureenough-judge"


def extract_or_abstain(judge: Judge, text: str) -> tuple[str | None, str | None]:
    """The answer in a path's text, and a note if the judge failed: then the path has none."""
    try:
        answer: object = judge.extract(text)
    except FAULTS as error:
        return None, f"an answer could not be extracted, and its path abstains: {described(error)}"
    if answer is None:
        return None, None
    if isinstance(answer, str):
        return str.__str__(answer), None  # a class derived from str need not be hashable
    return None, f"an extracted answer is {type(answer).__name__} instead of a text, and its path abstains"


def classes_or_own(
    judge: Judge, answers: Sequence[str], known: Iterable[Iterable[str]] = ()
) -> tuple[dict[str, Hashable], str | None]:
    """The class of each answer, and a note if grouping failed: then every answer is a class of its own.

    Args:
        judge: used only if some answer is not in a known class.
        answers: without repetitions.
        known: classes of an earlier run; an answer that is new joins that of those that the judge finds the same.
    """
    recorded: dict[str, Hashable] = {answer: number for number, group in enumerate(known) for answer in group}
    if recorded.keys() >= set(answers):
        return {answer: recorded[answer] for answer in answers}, None
    note = None
    try:
        numbers = dict(zip(answers, number_classes(judge.classes(list(answers))), strict=True))
    except FAULTS as error:
        numbers = dict.fromkeys(answers)
        note = f"answers could not be compared, and count as different: {described(error)}"
    judged = {answer: ("new", answer if number is None else number) for answer, number in numbers.items()}
    joined = {judged[answer]: recorded[answer] for answer in reversed(answers) if answer in recorded}
    return {answer: recorded.get(answer, joined.get(judged[answer], judged[answer])) for answer in answers}, note


async def extract_in_run(judge: Judge, text: str) -> tuple[str | None, str | None]:
    """As `extract_or_abstain`, without holding up the event loop."""
    if (
        len(text) <= INLINE_EXTRACTION
        and not _is_own(judge)
        and all(trait(judge, name) is None for name in SLOW_TRAITS)
    ):
        return extract_or_abstain(judge, text)
    return await _in_thread(judge, partial(extract_or_abstain, judge, text))


async def classes_in_run(judge: Judge, answers: Sequence[str]) -> tuple[dict[str, Hashable], str | None]:
    """As `classes_or_own`, without holding up the event loop."""
    return await _in_thread(judge, partial(classes_or_own, judge, answers))


async def _in_thread(judge: Judge, call: Callable[[], T]) -> T:
    return await (in_daemon_thread(call, THREAD) if _is_own(judge) else asyncio.to_thread(call))


def _is_own(judge: Judge) -> bool:
    """Whether a judge runs code of the caller, which may take forever."""
    return isinstance(judge, FunctionJudge) or not type(judge).__module__.startswith("sureenough.")


def no_answer_note(judge: Judge, cut: int, ended: int) -> str:
    """Why no path gave an answer, and what to do.

    Args:
        judge: what looked for answers.
        cut: paths without an answer that their limit of tokens cut.
        ended: those that came to their own end.
    """
    if cut > ended:
        return (
            f"{cut} of {cut + ended} paths were cut at their limit of tokens before they gave an answer: allow more "
            "tokens per path (max_path_tokens, or max_tokens in a request)"
        )
    looks_for = trait(judge, "looks_for")
    what = looks_for[:300] if isinstance(looks_for, str) else "an answer that the judge can read"
    return (
        f"none of {cut + ended} paths has {what}: ask for that in the prompt or the template. If the question has a "
        "short answer of another kind, choose that kind; if it has none at all, paths cannot vote on it, and the model "
        "without a strategy is the one to ask"
    )
