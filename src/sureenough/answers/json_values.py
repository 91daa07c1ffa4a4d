"""JSON: the last value of a reply, values as keys, and whether a value matches a JSON Schema.

The order of keys and the notation of numbers make no difference. The validator is for schemas that clients send and
values that models write: it follows references inside the schema only, uses no backtracking expressions, and gives up
on what would take long. A schema that is too large, and keywords that it cannot check, are refused when it arrives.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Hashable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from itertools import chain, zip_longest
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
"""Levels of a value that is compared, and of a schema."""
MOST_VALUES: Final = 10_000
"""Names and values of all kinds in a schema."""
LONGEST_SCHEMA: Final = 200_000
"""Characters of all names and texts in a schema."""
MOST_PATTERNS: Final = 50
"""Regular expressions in a schema."""
STEPS: Final = 200_000
"""What checking a value may cost: a step for each part that is looked at, and for each keyword and name that it is
compared with. A value that costs more does not match."""
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
    _check_size(schema)
    schema = _decimals(schema)
    parts, seen, patterns = [schema], dict[int, Any](), dict[str, None]()
    while parts:
        part = parts.pop()
        if id(part) in seen or isinstance(part, bool):
            continue
        if not isinstance(part, dict):
            raise UsageError("a part of the schema is neither an object nor true or false")
        _check_keywords(part)
        seen[id(part)] = part
        patterns |= {part["pattern"]: None} if "pattern" in part else {}
        parts += [_target(part["$ref"], schema)] if "$ref" in part else []
        parts += [part[name] for name in ("items", "additionalProperties", "not") if name in part]
        parts += [one for name in ("anyOf", "oneOf", "allOf", "prefixItems") for one in part.get(name, ())]
        parts += [one for name in ("properties", "$defs", "definitions") for one in part.get(name, {}).values()]
    if len(patterns) > MOST_PATTERNS:
        raise UsageError(f"the schema has {len(patterns):,} patterns; at most {MOST_PATTERNS} are supported")
    for pattern in patterns:
        compiled(pattern)
    keys = [(part, {name: _KEYS[name](part[name]) for name in _KEYS if name in part}) for part in seen.values()]
    for part, own in keys:  # not before all are formed: a reference may lead into a constant
        part.update(own)
    return schema


def _check_size(schema: Any) -> None:
    """Refuse what would take long to prepare, level by level."""
    level, values, characters = [schema], 0, 0
    for _ in range(DEEPEST):
        values += len(level)
        characters += sum(len(value) for value in level if isinstance(value, str))
        if values > MOST_VALUES or characters > LONGEST_SCHEMA:
            raise UsageError(
                f"the schema is too large: at most {MOST_VALUES:,} names and values, with {LONGEST_SCHEMA:,} characters"
            )
        objects = [[*value, *value.values()] for value in level if isinstance(value, dict)]
        level = list(chain(*objects, *(value for value in level if isinstance(value, list))))
    if level:
        raise UsageError(f"the schema is nested deeper than {DEEPEST} levels")


def _check_keywords(part: Mapping[str, Any]) -> None:
    for name, value in part.items():
        if name in UNSUPPORTED:
            raise UsageError(f"the keyword {name} of JSON Schema is not supported here")
        takes = _KEYWORDS[name].takes if name in _KEYWORDS else _TYPES.get(_PARTS.get(name, ""))
        if takes is not None and not takes(value):
            raise UsageError(f"the schema's {name} is {str(value)[:80]}, which cannot be used")


def validates(value: Any, schema: Any) -> bool:
    """Whether a value matches a prepared schema. Numbers are Decimal."""
    left = STEPS

    def matches(value: Any, part: Any) -> bool:
        nonlocal left
        left -= _cost(value, part)
        if left < 0:
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


_READ_WHOLE: Final = frozenset({"enum", "const", "uniqueItems", "multipleOf"})
"""Keywords for which all of a value is read."""
_CHARACTERS: Final = 16
"""Characters that are read in about the time of a step."""
_PATTERN_WORK: Final = 2_000
"""Characters, times the size of an expression, that are matched in about the time of a step."""


def _cost(value: Any, part: Any) -> int:
    """Steps to compare a value with a part of a schema, without those for their parts."""
    if isinstance(part, bool):
        return 1
    steps = 1 + len(part)
    for limit in part.values():
        if isinstance(limit, list):
            steps += len(limit)
        elif isinstance(limit, str):
            steps += len(limit) // _CHARACTERS
    if isinstance(value, dict | list):
        steps += len(value)
    elif isinstance(value, str) and "pattern" in part:
        steps += len(value) * compiled(part["pattern"]).programsize // _PATTERN_WORK
    return steps if _READ_WHOLE.isdisjoint(part) else steps + _size(value)


def _size(value: Any) -> int:
    """Steps to read all of a value; more than are left are not counted."""
    steps, parts = 0, [value]
    while parts and steps <= STEPS:
        part = parts.pop()
        steps += 1
        if isinstance(part, dict):
            steps += sum(len(name) for name in part) // _CHARACTERS
            parts += part.values()
        elif isinstance(part, list):
            parts += part
        elif isinstance(part, str | Decimal):
            steps += len(part if isinstance(part, str) else part.as_tuple().digits) // _CHARACTERS
    return steps


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
    "enum": _Keyword("", lambda value, keys: canonical(value) in keys, _TYPES["array"]),
    "const": _Keyword("", lambda value, key: canonical(value) == key, lambda only: True),
    "minimum": _Keyword("number", ge, _TYPES["number"]),
    "maximum": _Keyword("number", le, _TYPES["number"]),
    "exclusiveMinimum": _Keyword("number", gt, _TYPES["number"]),
    "exclusiveMaximum": _Keyword("number", lt, _TYPES["number"]),
    "multipleOf": _Keyword(
        "number", _is_multiple, lambda of: isinstance(of, Decimal) and of > 0 and abs(of.adjusted()) <= 300
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
_KEYS: Final[dict[str, Callable[[Any], Hashable]]] = {
    "enum": lambda allowed: frozenset(map(canonical, allowed)),
    "const": canonical,
}
"""Keywords whose values a prepared schema holds as keys, since these are compared."""
_PARTS: Final = {
    "$ref": "string",
    **dict.fromkeys(("anyOf", "oneOf", "allOf", "prefixItems"), "array"),
    **dict.fromkeys(("properties", "$defs", "definitions"), "object"),
}
"""The types of keywords that hold other schemas."""
