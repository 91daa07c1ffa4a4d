"""JSON: the last value of a reply, values as keys, and whether a value matches a JSON Schema.

The order of keys and the notation of numbers make no difference. The validator is for schemas that clients send and
values that models write: it follows references inside the schema only, takes a bounded number of steps and uses no
backtracking expressions. Keywords that it cannot check are refused when the schema arrives.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Hashable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from itertools import zip_longest
from operator import ge, gt, le, lt
from typing import Any, Final, NamedTuple

from sureenough.answers.reading import compiled, encodable
from sureenough.errors import UsageError

_START = re.compile(r'\{(?=\s{0,80}["}])|\[(?=\s{0,80}["{\[\]\d\-tfn])')
MOST_BROKEN = 1_000  # attempts at text that is not JSON: each error counts the lines before it
_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*+"|[{}\[\]]', re.DOTALL)
_CITATION = re.compile(r"\[\s*(?:-?\d+|true|false)\s*\]")


def _refuse_constant(name: str) -> None:
    raise UsageError(f"{name} is not JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise UsageError("an object names a key twice")
    return dict(pairs)


DECODER = json.JSONDecoder(
    parse_int=Decimal, parse_float=Decimal, parse_constant=_refuse_constant, object_pairs_hook=_object
)
NOT_JSON = (ValueError, RecursionError, InvalidOperation)  # UsageError is a ValueError


def last_json(reply: str) -> str | None:
    """The whole reply, else the last fenced block, else the last object or array; None if that is cut off or broken."""
    fenced = reply.split("```")[1:-1:2]
    for text in (reply, *(block.partition("\n")[2] for block in fenced[-1:])):
        if _is_json(text.strip()):
            return text.strip()
    last, at, broken = None, 0, 0
    while (start := _START.search(reply, at)) is not None:
        try:
            _, at = DECODER.raw_decode(reply, start.start())
        except json.JSONDecodeError as error:
            end, broken = _after_broken(reply, start.start(), error), broken + 1
            if end is None or broken > MOST_BROKEN:
                return None
            at = end
            last = last if error.pos <= start.start() + 1 or reply[start.start()] == "[" else None
        except NOT_JSON:
            return None
        else:
            last = last if _CITATION.fullmatch(reply, start.start(), at) else reply[start.start() : at]
    return last


def _is_json(text: str) -> bool:
    try:
        DECODER.decode(text)
    except NOT_JSON:
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


# -- values as keys, and schemas


DEEPEST: Final = 100
"""Levels of a value that is compared."""
STEPS: Final = 50_000
"""Comparisons of a part of the value with a part of the schema; beyond them a value does not match."""
UNSUPPORTED: Final = frozenset(
    "if then else contains patternProperties propertyNames dependentRequired dependentSchemas dependencies "
    "unevaluatedItems unevaluatedProperties $dynamicRef $recursiveRef additionalItems".split()
)


def canonical(value: Any, depth: int = 0) -> Hashable:
    """A JSON value as a key: equal for values that differ in the order of keys or the notation of numbers."""
    if depth > DEEPEST:
        raise UsageError(f"JSON nested deeper than {DEEPEST} levels is not compared")
    if isinstance(value, dict):
        return "{", tuple(sorted((name, canonical(member, depth + 1)) for name, member in value.items()))
    if isinstance(value, list):
        return "[", tuple(canonical(member, depth + 1) for member in value)
    if not isinstance(value, Decimal):
        return type(value).__name__, value
    sign, digits, exponent = value.as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    bare = text.rstrip("0")
    return "number", (sign, bare, int(exponent) + len(text) - len(bare)) if text else (0, "", 0)


def prepared_schema(schema: Any) -> Any:
    """A schema to check values with; one that cannot be checked is refused with a UsageError that names the keyword."""
    schema = _decimals(schema)
    parts = [schema]
    while parts:
        part = parts.pop()
        if isinstance(part, bool):
            continue
        if not isinstance(part, dict):
            raise UsageError("a part of the schema is neither an object nor true or false")
        for name, value in part.items():
            if name in UNSUPPORTED:
                raise UsageError(f"the keyword {name} of JSON Schema is not supported here")
            takes = _KEYWORDS[name].takes if name in _KEYWORDS else _TYPES.get(_PARTS.get(name, ""))
            if takes is not None and not takes(value):
                raise UsageError(f"the schema's {name} is {str(value)[:80]}, which cannot be used")
        if "pattern" in part:
            compiled(part["pattern"])
        if "$ref" in part:
            _target(part["$ref"], schema)
        parts += [part[name] for name in ("items", "additionalProperties", "not") if name in part]
        parts += [one for name in ("anyOf", "oneOf", "allOf", "prefixItems") for one in part.get(name, ())]
        parts += [one for name in ("properties", "$defs", "definitions") for one in part.get(name, {}).values()]
    return schema


def validates(value: Any, schema: Any) -> bool:
    """Whether a value matches a prepared schema. Numbers are Decimal."""
    steps = iter(range(STEPS))

    def matches(value: Any, part: Any) -> bool:
        if next(steps, None) is None:
            raise UsageError("too many steps")
        if isinstance(part, bool):
            return part
        return (
            ("$ref" not in part or matches(value, _target(part["$ref"], schema)))
            and all(_KEYWORDS[name].holds(value, limit) for name, limit in part.items() if name in _KEYWORDS)
            and all(matches(value, one) for one in part.get("allOf", ()))
            and ("anyOf" not in part or any(matches(value, one) for one in part["anyOf"]))
            and ("oneOf" not in part or sum(matches(value, one) for one in part["oneOf"]) == 1)
            and ("not" not in part or not matches(value, part["not"]))
            and all(matches(member, one) for member, one in _members(value, part))
        )

    try:
        return matches(value, schema)
    except (RecursionError, UsageError):
        return False


def _members(value: Any, schema: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
    """The members of an object or the elements of an array, each with its schema."""
    if isinstance(value, dict):
        known, rest = schema.get("properties", {}), schema.get("additionalProperties", True)
        yield from ((member, known.get(name, rest)) for name, member in value.items())
    if isinstance(value, list):
        first, rest = schema.get("prefixItems", []), schema.get("items", True)
        yield from zip_longest(value, first[: len(value)], fillvalue=rest)


def _target(reference: str, root: Any) -> Any:
    """The part of the schema that a reference such as #/$defs/Step names."""
    if not reference.startswith("#"):
        raise UsageError(f"the schema refers to {reference[:80]!r}; only references inside it are followed")
    target = root
    for name in reference[1:].split("/")[1:]:
        name = name.replace("~1", "/").replace("~0", "~")
        if not isinstance(target, dict) or name not in target:
            raise UsageError(f"the schema refers to {reference[:80]!r}, which it does not define")
        target = target[name]
    if not isinstance(target, dict | bool):
        raise UsageError(f"the schema refers to {reference[:80]!r}, which is not a schema")
    return target


def _decimals(value: Any) -> Any:
    """Numbers as decimals, as those of values are."""
    if isinstance(value, dict):
        return {name: _decimals(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_decimals(member) for member in value]
    return value if isinstance(value, bool) or not isinstance(value, int | float) else Decimal(str(value))


def _is_multiple(value: Decimal, divisor: Decimal | int) -> bool:
    if not value:
        return True
    if not -300 <= value.adjusted() <= 300 or len(value.as_tuple().digits) > 1_000:
        return False
    return Fraction(value) % Fraction(divisor) == 0


Check = Callable[[Any, Any], bool]
_TYPES: Final[dict[str, Callable[[Any], bool]]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "number": lambda value: isinstance(value, Decimal),
    "integer": lambda value: isinstance(value, Decimal) and _is_multiple(value, 1),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}


def _listed(types: Any) -> list[Any]:
    return types if isinstance(types, list) else [types]


class _Keyword(NamedTuple):
    """A keyword that limits a value directly: values of which type, how, and what the limit may be."""

    type: str
    check: Check
    takes: Callable[[Any], bool]

    def holds(self, value: Any, limit: Any) -> bool:
        """Whether a value keeps to the limit; those of other types do."""
        return (self.type != "" and not _TYPES[self.type](value)) or self.check(value, limit)


def _is_size(limit: Any) -> bool:
    return isinstance(limit, Decimal) and limit >= 0


_SIZED: Final = {"Length": "string", "Items": "array", "Properties": "object"}
_KEYWORDS: Final[dict[str, _Keyword]] = {
    "type": _Keyword(
        "",
        lambda value, types: any(_TYPES[name](value) for name in _listed(types)),
        lambda types: all(isinstance(name, str) and name in _TYPES for name in _listed(types)),
    ),
    "enum": _Keyword(
        "", lambda value, allowed: canonical(value) in {canonical(one) for one in allowed}, _TYPES["array"]
    ),
    "const": _Keyword("", lambda value, only: canonical(value) == canonical(only), lambda only: True),
    "minimum": _Keyword("number", ge, _TYPES["number"]),
    "maximum": _Keyword("number", le, _TYPES["number"]),
    "exclusiveMinimum": _Keyword("number", gt, _TYPES["number"]),
    "exclusiveMaximum": _Keyword("number", lt, _TYPES["number"]),
    "multipleOf": _Keyword(
        "number", _is_multiple, lambda of: isinstance(of, Decimal) and of > 0 and of.adjusted() >= -300
    ),
    **{f"min{name}": _Keyword(kind, lambda v, least: len(v) >= least, _is_size) for name, kind in _SIZED.items()},
    **{f"max{name}": _Keyword(kind, lambda v, most: len(v) <= most, _is_size) for name, kind in _SIZED.items()},
    "pattern": _Keyword(
        "string", lambda value, pattern: compiled(pattern).search(encodable(value)) is not None, _TYPES["string"]
    ),
    "uniqueItems": _Keyword(
        "array", lambda value, on: not on or len(set(map(canonical, value))) == len(value), _TYPES["boolean"]
    ),
    "required": _Keyword(
        "object",
        lambda value, names: value.keys() >= {*names},
        lambda names: isinstance(names, list) and all(isinstance(name, str) for name in names),
    ),
}
_PARTS: Final = {
    "$ref": "string",
    **dict.fromkeys(("anyOf", "oneOf", "allOf", "prefixItems"), "array"),
    **dict.fromkeys(("properties", "$defs", "definitions"), "object"),
}
"""The types of keywords that hold other schemas."""
