"""JSON answers: the last JSON value of a reply. The order of keys and the notation of numbers make no difference."""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

from sureenough.answers.extract import reply_of
from sureenough.answers.json_schema import canonical, validates
from sureenough.answers.statements import KeyedKind
from sureenough.core.strategy_options import Rule, option
from sureenough.errors import UsageError

LONGEST_INT = 400
_START = re.compile(r'\{(?=\s{0,80}["}])|\[(?=\s{0,80}["{\[\]\d\-tfn])')
MOST_BROKEN = 1_000  # attempts at text that is not JSON: each error counts the lines before it
_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*+"|[{}\[\]]', re.DOTALL)
ANY = Rule("names of fields", lambda names: True)


def _integer(text: str) -> int | Decimal:
    return int(text) if len(text) <= LONGEST_INT else Decimal(text)


def _refuse_constant(name: str) -> None:
    raise UsageError(f"{name} is not JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise UsageError("an object names a key twice")
    return dict(pairs)


_DECODER = json.JSONDecoder(
    parse_int=_integer, parse_float=Decimal, parse_constant=_refuse_constant, object_pairs_hook=_object
)
_NOT_JSON = (ValueError, RecursionError, InvalidOperation)  # UsageError is a ValueError


@dataclass(frozen=True, slots=True)
class Json(KeyedKind):
    """A JSON value, or some fields of an object."""

    fields: tuple[str, ...] = option((), "the fields of an object that are compared; all by default", ANY)
    schema: Mapping[str, Any] | None = field(default=None, hash=False)  # a value that does not match is not an answer

    @property
    def ask(self) -> str:
        named = f" object with the fields {', '.join(self.fields)}" if self.fields else ""
        return f"Please reason step by step, and end with the answer as one JSON {named.lstrip() or 'value'}."

    @property
    def looks_for(self) -> str:
        fields = f" with a field {' or '.join(self.fields)}" if self.fields else ""
        return f"complete JSON{fields}{' that matches the schema' if self.schema else ''}"

    def extract(self, text: str) -> str | None:
        reply = reply_of(text)
        answer = None if reply is None else last_json(reply)
        return answer if answer is not None and self.key(answer) is not None else None

    def key(self, answer: str) -> Hashable | None:
        try:
            value = _DECODER.decode(answer.strip())
            if self.schema is not None and not validates(value, self.schema):
                return None
            if not self.fields:
                return canonical(value)
        except _NOT_JSON:
            return None
        if not isinstance(value, dict) or value.keys().isdisjoint(self.fields):
            return None
        return tuple(canonical(value[name]) if name in value else None for name in self.fields)


def last_json(reply: str) -> str | None:
    """The whole reply, else the last fenced block, else the last object or array; None if that is cut off or broken."""
    fenced = reply.split("```")[1:-1:2]
    for text in (reply, *(block.partition("\n")[2] for block in fenced[-1:])):
        if _is_json(text.strip()):
            return text.strip()
    last, at, broken = None, 0, 0
    while (start := _START.search(reply, at)) is not None:
        try:
            value, at = _DECODER.raw_decode(reply, start.start())
        except json.JSONDecodeError as error:
            end, broken = _after_broken(reply, start.start(), error), broken + 1
            if end is None or broken > MOST_BROKEN:
                return None
            at = end
            last = last if error.pos <= start.start() + 1 or reply[start.start()] == "[" else None
        except _NOT_JSON:
            return None
        else:
            if not isinstance(value, list) or len(value) != 1 or not isinstance(value[0], int):  # [2] is a citation
                last = reply[start.start() : at]
    return last


def _is_json(text: str) -> bool:
    try:
        _DECODER.decode(text)
    except _NOT_JSON:
        return False
    return True


def _after_broken(reply: str, start: int, error: json.JSONDecodeError) -> int | None:
    """Where to look on after text that is not JSON; None if it is JSON that was cut off.

    A broken object is skipped whole: what is inside it is not the answer.
    """
    if error.pos >= len(reply.rstrip()) or error.msg.startswith("Unterminated string"):
        return None
    if error.pos <= start + 1 or reply[start] == "[":
        return max(error.pos, start + 1)
    depth = 0
    for bracket in _BRACKET.finditer(reply, start):
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(bracket[0], 0)
        if depth == 0:
            return max(bracket.end(), error.pos)
    return None
