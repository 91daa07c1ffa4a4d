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
    looks_for = getattr(judge, "looks_for", None)
    what = looks_for[:300] if isinstance(looks_for, str) else "an answer that the judge can read"
    return (
        f"none of {cut + ended} paths has {what}: ask for that in the prompt or the template. If the question has a "
        "short answer of another kind, choose that kind; if it has none at all, paths cannot vote on it, and the model "
        "without a strategy is the one to ask"
    )
