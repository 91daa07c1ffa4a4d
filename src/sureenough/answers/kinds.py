"""Kinds of answers. A judge says what the answer in a text is, which answers are the same, and which are right.

Kinds are selected by name wherever a run is started. To add one, add an entry to `BUILTIN`; another package announces
its judges by entry points of the group `sureenough.judges`, or is named as `module:attribute`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

from sureenough.answers.choice import choose
from sureenough.answers.compare import classes, number_classes
from sureenough.answers.grading import grade
from sureenough.answers.json_kind import Json
from sureenough.answers.reading import mathematical_answer, reply_of
from sureenough.answers.word_kinds import (
    Date,
    Exact,
    Items,
    KeyedKind,
    Number,
    Regex,
    Text,
    final_statement,
    normal_form,
    trimmed,
)
from sureenough.core.options import HasOptions, Rule, one_of, option
from sureenough.errors import UsageError
from sureenough.plugins import Registry
from sureenough.spec import marked_options, read_options


@runtime_checkable
class Judge(Protocol):
    """What an answer is, and when two are the same.

    A judge may also have `ask`, a sentence that is added to the prompt; `looks_for`, what `extract` reads, for users
    whose paths have no answer; and `for_question(question)`, which returns the judge of one question. `question` is its
    text, if that is known.
    """

    def extract(self, text: str) -> str | None:
        """The answer in a model's text, or None."""

    def classes(self, answers: Sequence[str]) -> Sequence[Hashable | None]:
        """The class of each answer, whatever their order."""

    def grade(self, gold: str, answer: str) -> bool:
        """Whether an answer is the gold one."""


FAULTS: Final = (Exception, SystemExit)
"""What the code of a caller's own judge may raise without ending a run."""


def trait(judge: Judge, name: str) -> object:
    """An optional attribute of a judge; None if there is none, or if the judge's own code fails."""
    try:
        return getattr(judge, name, None)
    except FAULTS:
        return None


# -- judges of one's own

Extract = Callable[[str], str | None]
Same = Callable[[str, str], bool]


@dataclass(frozen=True, slots=True)
class FunctionJudge:
    """A judge made of functions."""

    extract: Extract
    classes: Callable[[Sequence[str]], Sequence[Hashable | None]]
    grade: Same
    ask: str = ""


def judge(
    *,
    extract: Extract | None = None,
    same: Same | None = None,
    key: Callable[[str], Hashable] | None = None,
    grade: Same | None = None,
    ask: str = "",
) -> Judge:
    """A judge of your own.

    Args:
        extract: finds the answer in a model's text; by default what follows "Answer:", else the last line.
        same: whether two answers are the same; by default they are compared without case and extra space.
        key: instead of `same`: a value that is equal for answers that are the same.
        grade: whether an answer is right, from the gold answer and the answer; `same` or `key` by default.
        ask: a sentence that is added to the prompt.
    """
    if same is not None and key is not None:
        raise UsageError("give same or key, not both")
    for name, function in {"extract": extract, "same": same, "key": key, "grade": grade}.items():
        if function is not None and not callable(function):
            raise UsageError(f"{name} is {function!r}; it must be a function", argument=name)
    read = extract or (lambda text: trimmed(final_statement(text) or "") or None)
    if same is not None:
        return FunctionJudge(read, lambda answers: classes_by_same(answers, same), grade or same, ask)
    form = key or normal_form
    equal = grade or (lambda gold, answer: form(gold) == form(answer))
    return FunctionJudge(read, lambda answers: [form(answer) for answer in answers], equal, ask)


def classes_by_same(answers: Sequence[str], same: Same) -> list[int | None]:
    """Sorted answers each join the first class whose first member they equal both ways: their order is irrelevant."""
    joined: dict[str, str] = {}
    for answer in sorted(set(answers), key=lambda answer: (len(answer), answer)):
        founders = dict.fromkeys(joined.values())
        joined[answer] = next((one for one in founders if same(one, answer) and same(answer, one)), answer)
    return number_classes(map(joined.get, answers))


# -- kinds that a box marks: mathematics, and the letter of a choice


FLAG: Final = Rule("1 or 0", lambda value: value in (False, True))


@dataclass(frozen=True, slots=True)
class Math(HasOptions):
    """Mathematics: numbers, expressions, sets, intervals and more, compared by value. The options are for grading."""

    percent: bool = option(False, "28% is right if the gold answer is 0.28", FLAG)
    rounding: bool = option(False, "a rounded decimal is right", FLAG)
    decimal_comma: bool = option(False, "1,5 is right if the gold answer is 1.5", FLAG)
    fallback: str = option("none", "what to read from a reply without a marked answer", one_of("none", "last-number"))
    ask = "Please reason step by step, and put your final answer within \\boxed{}."
    looks_for = "a box or an announced value (\\boxed{…}, Answer: …)"

    def extract(self, text: str) -> str | None:
        return mathematical_answer(text, last_number_too=self.fallback == "last-number")

    def classes(self, answers: Sequence[str]) -> list[int | None]:
        return classes(answers)

    def grade(self, gold: str, answer: str) -> bool:
        return grade(gold, answer, percent=self.percent, rounding=self.rounding, decimal_comma=self.decimal_comma)


ALL_LETTERS: Final = "ABCDEFGHIJ"
_OFFERED = re.compile(r"(?:^[ \t]{0,8}[(\[*]{0,3}|\()([A-J])[*]{0,2}[).:\]]", re.MULTILINE)


def are_letters(letters: str) -> bool:
    return all(letter.isalpha() for letter in letters) and len({*letters.casefold()}) == len(letters)


LETTERS: Final = Rule("different letters, such as ABCD", are_letters)


@dataclass(frozen=True, slots=True)
class LetterChoice(KeyedKind):
    """One of several choices, by its letter."""

    letters: str = option("", "the letters that were offered; by default those in the question, or A to J", LETTERS)
    ask = "Please reason step by step, and put the letter of your final answer within \\boxed{}."

    @property
    def looks_for(self) -> str:
        letters = self.letters or ALL_LETTERS
        return f"one of the letters {letters}, in a box or announced (\\boxed{{{letters[0]}}}, Answer: {letters[0]})"

    def extract(self, text: str) -> str | None:
        reply = reply_of(text)
        return None if reply is None else choose(reply, self.letters or ALL_LETTERS)

    def key(self, answer: str) -> str:
        return answer.strip().casefold()

    def for_question(self, question: str | None) -> LetterChoice:
        return self if self.letters or question is None else LetterChoice(offered_letters(question))


def offered_letters(question: str) -> str:
    """The letters of the choices below a question, such as A) … B) …; empty if there are none."""
    marked = set(_OFFERED.findall(question))
    count = next((i for i, letter in enumerate(ALL_LETTERS) if letter not in marked), len(ALL_LETTERS))
    return ALL_LETTERS[:count] if count > 1 else ""


# -- by name

BUILTIN: Final[dict[str, Judge]] = {
    "math": Math(), "choice": LetterChoice(), "text": Text(), "exact": Exact(), "number": Number(), "date": Date(),
    "list": Items(), "set": Items(ordered=False), "json": Json(),
}  # fmt: skip


def as_judge(thing: Any) -> Judge:
    """A judge, a class of judges, or a pair of functions (extract, same), as a judge."""
    if isinstance(thing, type):
        try:
            thing = thing()
        except (Exception, SystemExit) as error:  # whatever the class of another package raises
            raise UsageError(
                f"{thing.__name__} cannot be made without arguments: {type(error).__name__}: {error}"[:300]
            ) from None
    if isinstance(thing, tuple) and len(thing) == 2 and all(map(callable, thing)):
        return judge(extract=thing[0], same=thing[1])
    if isinstance(thing, Judge):
        return thing
    raise UsageError(
        f"a kind of answer is a name such as 'math', a judge with extract, classes and grade, or a pair of functions "
        f"(extract, same), not {thing!r}"
    )


REGISTRY: Final = Registry("kind of answer", "judges", BUILTIN, as_judge)
REGEX: Final = "regex:"


def resolve_kind(kind: Any, *, registered_only: bool = False) -> Judge:
    """The judge of a kind: `math`, `number:rel=1e-3`, `regex:PATTERN`, `module:attribute`, or a judge.

    Args:
        kind: a name with options, or what `as_judge` accepts.
        registered_only: refuse `module:attribute` and `regex:`, for names that clients or files choose.
    """
    if not isinstance(kind, str):
        return as_judge(kind)
    if kind in (REGEX, REGEX.removesuffix(":")):
        raise UsageError("regex: names no pattern; write one after it, such as regex:(\\d+) points")
    if kind.startswith(REGEX) and not registered_only:
        return Regex(kind.removeprefix(REGEX))
    named = REGISTRY.find(kind, registered_only=registered_only)
    if named.options is None:
        return named.thing
    for known, value in read_options(named, kind, marked_options(named.thing)):
        named = named._replace(thing=known.write(named.thing, value))
    return named.thing


def for_question(judge: Judge, question: str | None = None) -> Judge:
    """The judge of one question, if the kind has one; else the judge itself."""
    specific = getattr(judge, "for_question", None)
    if specific is None:
        return judge
    try:
        return as_judge(specific(question))
    except UsageError:
        raise
    except (Exception, SystemExit) as error:  # a judge may be the caller's own
        raise UsageError(f"the judge failed on a question: {type(error).__name__}: {error}"[:300]) from None


def extract(
    text: str, kind: str = "math", *, choices: Iterable[str] = "ABCD", fallback: str | None = None
) -> str | None:
    """The answer in a model's reply; None if it has none.

    kind "choice": one of `choices`, a text or list of letters. fallback "last-number": if a mathematical reply
    announces nothing, its last number.
    """
    letters = list(choices) if isinstance(choices, Iterable) else []
    single = all(isinstance(letter, str) and len(letter) == 1 for letter in letters)
    if not letters or not single or not are_letters("".join(letters)):
        raise UsageError(f"choices must be different letters, such as 'ABCD' or ['A', 'B'], not {choices!r}")
    if fallback not in (None, "last-number"):
        raise UsageError(f"unknown fallback {fallback!r}; known: None, last-number")
    if kind == "choice":
        return LetterChoice("".join(letters)).extract(text)
    return Math(fallback=fallback or "none").extract(text) if kind == "math" else resolve_kind(kind).extract(text)
