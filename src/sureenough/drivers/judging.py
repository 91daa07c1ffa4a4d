"""How drivers use a judge, whose faults cost votes but never a run."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from sureenough.answers import Judge


def extract_or_abstain(judge: Judge, text: str) -> tuple[str | None, str | None]:
    """The answer in a path's text, and a note if the judge failed: then the path has none."""
    try:
        answer: object = judge.extract(text)
    except Exception as error:  # a judge may be the caller's own
        return None, f"an answer could not be extracted, and its path abstains: {type(error).__name__}: {error}"
    if answer is None or isinstance(answer, str):
        return answer, None
    return None, f"an extracted answer is {type(answer).__name__} instead of a text, and its path abstains"


def classes_or_own(judge: Judge, answers: Sequence[str]) -> tuple[dict[str, Hashable], str | None]:
    """The class of each answer, and a note if grouping failed: then every answer is a class of its own."""
    try:
        classes = dict(zip(answers, judge.classes(list(answers)), strict=True))
        hash(tuple(classes.values()))
        return {answer: answer if name is None else name for answer, name in classes.items()}, None
    except Exception as error:  # a judge may be the caller's own
        note = f"answers could not be compared, and count as different: {type(error).__name__}: {error}"
        return {answer: answer for answer in answers}, note
