"""Answers in words: texts, labels, lists, sets, and what a regular expression finds."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sureenough.answers.extract import reply_of
from sureenough.answers.statements import (
    BULLET,
    LONGEST,
    REASON,
    WHERE,
    KeyedKind,
    final_block,
    final_statement,
    key_or_text,
    normal_form,
    trimmed,
)
from sureenough.answers.value_kinds import Date, Number
from sureenough.core.strategy_options import Rule, check_options, one_of, option
from sureenough.errors import UsageError

_DENIED = re.compile(r"\b(?:not|no|never|neither|nor|cannot|rather than|instead of)\b|n['’]t\b", re.IGNORECASE)
_THOUSANDS = re.compile(r",(?!(?<=\d,)\d{3}(?!\d))")
_BRACKETS = (("\\{", "\\}"), ("{", "}"), ("[", "]"), ("(", ")"))
_MOST_ITEMS = 1_000


def _are_labels(labels: tuple[str, ...]) -> bool:
    forms = [normal_form(label) for label in labels]
    return len(labels) != 1 and all(forms) and len(set(forms)) == len(forms)


LABELS = Rule("two or more different labels, such as positive,negative", _are_labels)


@dataclass(frozen=True, slots=True)
class Text(KeyedKind):
    """A text, compared without case and extra space; or one of a few labels."""

    labels: tuple[str, ...] = option((), "the only possible answers", LABELS)

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def ask(self) -> str:
        return f"{REASON} gives {'one of: ' + ', '.join(self.labels) if self.labels else 'the answer'}."

    @property
    def looks_for(self) -> str:
        return f"{'one of the labels ' + ', '.join(self.labels) if self.labels else 'a text'} {WHERE}"

    def extract(self, text: str) -> str | None:
        statement = trimmed(final_statement(text) or "")
        return (self._label(statement) if self.labels else statement) or None

    def _label(self, statement: str) -> str | None:
        """The label that a statement is, or the only one that it names without denying it."""
        forms = {normal_form(label): label for label in self.labels}
        form = normal_form(statement)
        if form in forms:
            return forms[form]
        longest_first = sorted(forms, key=len, reverse=True)
        pattern = rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)"
        named = set(re.findall(pattern, form))
        return forms[named.pop()] if len(named) == 1 and not _DENIED.search(re.sub(pattern, "", form)) else None


@dataclass(frozen=True, slots=True)
class Exact(KeyedKind):
    """A text, compared character by character."""

    ask = f"{REASON} gives the answer."
    looks_for = f"a text {WHERE}"

    def extract(self, text: str) -> str | None:
        return final_statement(text)

    def key(self, answer: str) -> str:
        return answer.strip()


_ITEM_KEYS: dict[str, Callable[[str], Hashable | None]] = {
    "text": lambda item: normal_form(trimmed(item)),
    "exact": str.strip,
    "number": Number().key,
    "date": Date().key,
}


@dataclass(frozen=True, slots=True)
class Items(KeyedKind):
    """Several items: a list, in which their order counts, or a set."""

    of: str = option("text", "kind of the items", one_of(*_ITEM_KEYS))
    ordered: bool = True

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def ask(self) -> str:
        return f"{REASON} gives the items, separated by commas{', in order' if self.ordered else ''}."

    looks_for = f"items, as bullets or separated by commas, {WHERE}"

    def extract(self, text: str) -> str | None:
        block = final_block(text)
        if block is None:
            return None
        lines = block.splitlines()
        if len(lines) > 1 and not all(BULLET.match(line) for line in lines if line.strip()):
            block = next(line for line in lines if line.strip())
        return block.strip() if len(block) <= LONGEST and self.key(block) is not None else None

    def items(self, answer: str) -> list[str]:
        """The items of a JSON array, of bullets, or between semicolons or commas."""
        answer = answer.strip()
        lines = [line for line in answer.splitlines() if line.strip()]
        if len(answer) > LONGEST:
            return [answer]
        if lines and all(BULLET.match(line) for line in lines):
            return [BULLET.sub("", line, count=1).strip() for line in lines]
        for opening, closing in _BRACKETS:
            if answer.startswith(opening) and answer.endswith(closing):
                array = _json_array(answer)
                if array is not None:
                    return array
                answer = answer[len(opening) : -len(closing)]
                break
        commas = _THOUSANDS if self.of == "number" else re.compile(",")
        parts = answer.split(";") if ";" in answer else commas.split(answer)
        parts = [part.strip() for part in parts if part.strip()]
        if len(parts) > 1:
            parts[-1] = re.sub(r"^(?:and|or)\s+", "", parts[-1], flags=re.IGNORECASE)
        return parts

    def key(self, answer: str) -> Hashable | None:
        items = self.items(trimmed(answer))
        if not items or len(items) > _MOST_ITEMS:
            return None
        keys = [key_or_text(_ITEM_KEYS[self.of], item) for item in items]
        return tuple(keys) if self.ordered else frozenset(keys)


def _json_array(text: str) -> list[str] | None:
    try:
        values = json.loads(text, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, list) or any(isinstance(value, dict | list) for value in values):
        return None
    return [value if isinstance(value, str) else json.dumps(value) for value in values]


@dataclass(frozen=True, slots=True)
class Regex(KeyedKind):
    """What a regular expression finds last in a reply: its first group, else all of it. Compared as texts are."""

    pattern: str
    ask = ""

    @property
    def looks_for(self) -> str:
        return f"text that matches {self.pattern}"

    def __post_init__(self) -> None:
        compiled(self.pattern)

    def extract(self, text: str) -> str | None:
        reply, value = reply_of(text), None
        for match in compiled(self.pattern).finditer(encodable(reply or "")):
            value = match[1] if match.re.groups else match[0]
        return (value or "").strip() or None


def encodable(text: str) -> str:
    """The text as RE2 takes it, without halves of surrogate pairs."""
    return text.encode("utf-8", "replace").decode()


@lru_cache(maxsize=64)
def compiled(pattern: str) -> Any:
    """A regular expression that matches in linear time, whatever the text."""
    try:
        import re2
    except ImportError:
        raise UsageError(
            "a regular expression that reads a model's text needs RE2, which takes linear time: "
            "pip install 'sureenough[regex]'"
        ) from None
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(encodable(pattern), options)
    except re2.error as error:
        reason = error.args[0].decode("utf-8", "replace") if isinstance(error.args[0], bytes) else error
        raise UsageError(f"{pattern[:100]!r} is not a regular expression of RE2: {reason}") from None
