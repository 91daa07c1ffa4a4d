"""JSON values: when two are equal, and whether one matches a JSON Schema.

The validator is for schemas that clients send and values that models write: it follows references inside the schema
only, takes a bounded number of steps and uses no backtracking expressions. Keywords that it cannot check are refused
when the schema arrives.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from sureenough.answers.word_kinds import compiled, encodable
from sureenough.errors import UsageError

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
        members = sorted(value.items(), key=lambda member: member[0])
        return "{", tuple((name, canonical(member, depth + 1)) for name, member in members)
    if isinstance(value, list):
        return "[", tuple(canonical(member, depth + 1) for member in value)
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return type(value).__name__, value
    sign, digits, exponent = Decimal(value).as_tuple()
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
        unsupported = next((name for name in part if name in UNSUPPORTED), None)
        if unsupported is not None:
            raise UsageError(f"the keyword {unsupported} of JSON Schema is not supported here")
        wrong = next((name for name, form in _FORMS.items() if name in part and not form(part[name])), None)
        if wrong is not None:
            raise UsageError(f"the schema's {wrong} is {str(part[wrong])[:80]}, which cannot be used")
        if "pattern" in part:
            compiled(part["pattern"])
        if "$ref" in part:
            _target(part["$ref"], schema)
        parts += [part[name] for name in ("items", "additionalProperties", "not") if name in part]
        parts += [one for name in ("anyOf", "oneOf", "allOf", "prefixItems") for one in part.get(name, ())]
        parts += [one for name in ("properties", "$defs", "definitions") for one in part.get(name, {}).values()]
    return schema


def validates(value: Any, schema: Any) -> bool:
    """Whether a value matches a prepared schema. Numbers are int or Decimal."""
    try:
        return _Validator(schema).matches(value, schema)
    except (_OutOfSteps, RecursionError, UsageError):
        return False


class _OutOfSteps(Exception):
    pass


class _Validator:
    def __init__(self, root: Any) -> None:
        self.root, self.steps = root, STEPS

    def matches(self, value: Any, schema: Any) -> bool:
        self.steps -= 1
        if self.steps < 0:
            raise _OutOfSteps
        if isinstance(schema, bool):
            return schema
        return (
            ("$ref" not in schema or self.matches(value, _target(schema["$ref"], self.root)))
            and all(_CHECKS[name](value, limit) for name, limit in schema.items() if name in _CHECKS)
            and self._combined(value, schema)
            and (not isinstance(value, dict) or self._members(value, schema))
            and (not isinstance(value, list) or self._elements(value, schema))
        )

    def _combined(self, value: Any, schema: Mapping[str, Any]) -> bool:
        return (
            all(self.matches(value, one) for one in schema.get("allOf", ()))
            and ("anyOf" not in schema or any(self.matches(value, one) for one in schema["anyOf"]))
            and ("oneOf" not in schema or sum(self.matches(value, one) for one in schema["oneOf"]) == 1)
            and ("not" not in schema or not self.matches(value, schema["not"]))
        )

    def _members(self, value: dict[str, Any], schema: Mapping[str, Any]) -> bool:
        known, rest = schema.get("properties", {}), schema.get("additionalProperties", True)
        return all(name in value for name in schema.get("required", ())) and all(
            self.matches(member, known.get(name, rest)) for name, member in value.items()
        )

    def _elements(self, value: list[Any], schema: Mapping[str, Any]) -> bool:
        first, rest = schema.get("prefixItems", []), schema.get("items", True)
        return all(self.matches(item, first[i] if i < len(first) else rest) for i, item in enumerate(value))


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
    """Floats as decimals, which is what numbers of values are."""
    if isinstance(value, dict):
        return {name: _decimals(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_decimals(member) for member in value]
    return Decimal(str(value)) if isinstance(value, float) else value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def _is_multiple(value: int | Decimal, divisor: int | Decimal) -> bool:
    exact = Decimal(value)
    if not exact:
        return True
    if not -300 <= exact.adjusted() <= 300 or len(exact.as_tuple().digits) > 1_000:
        return False
    return Fraction(value) % Fraction(divisor) == 0


_TYPES: Final[dict[str, Callable[[Any], bool]]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "number": _is_number,
    "integer": lambda value: _is_number(value) and (isinstance(value, int) or _is_multiple(value, 1)),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}


def _has_type(value: Any, types: str | list[str]) -> bool:
    return any(_TYPES[name](value) for name in ([types] if isinstance(types, str) else types))


def _if(applies: Callable[[Any], bool], check: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """A check that values of other types pass."""
    return lambda value, limit: not applies(value) or check(value, limit)


_CHECKS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "type": _has_type,
    "enum": lambda value, allowed: canonical(value) in {canonical(one) for one in allowed},
    "const": lambda value, only: canonical(value) == canonical(only),
    "minimum": _if(_is_number, lambda value, limit: value >= limit),
    "maximum": _if(_is_number, lambda value, limit: value <= limit),
    "exclusiveMinimum": _if(_is_number, lambda value, limit: value > limit),
    "exclusiveMaximum": _if(_is_number, lambda value, limit: value < limit),
    "multipleOf": _if(_is_number, _is_multiple),
    "minLength": _if(_TYPES["string"], lambda value, limit: len(value) >= limit),
    "maxLength": _if(_TYPES["string"], lambda value, limit: len(value) <= limit),
    "pattern": _if(_TYPES["string"], lambda value, pattern: compiled(pattern).search(encodable(value)) is not None),
    "minItems": _if(_TYPES["array"], lambda value, limit: len(value) >= limit),
    "maxItems": _if(_TYPES["array"], lambda value, limit: len(value) <= limit),
    "uniqueItems": _if(_TYPES["array"], lambda value, on: not on or len(set(map(canonical, value))) == len(value)),
    "minProperties": _if(_TYPES["object"], lambda value, limit: len(value) >= limit),
    "maxProperties": _if(_TYPES["object"], lambda value, limit: len(value) <= limit),
}
"""Keywords that limit a value directly."""


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 0


def _are_types(value: Any) -> bool:
    names = value if isinstance(value, list) else [value]
    return all(isinstance(name, str) and name in _TYPES for name in names)


_FORMS: Final[dict[str, Callable[[Any], bool]]] = {
    "type": _are_types,
    "multipleOf": lambda value: _is_number(value) and value > 0 and Decimal(value).adjusted() >= -300,
    "uniqueItems": _TYPES["boolean"],
    "required": lambda value: isinstance(value, list) and all(isinstance(name, str) for name in value),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _is_number),
    **dict.fromkeys("minLength maxLength minItems maxItems minProperties maxProperties".split(), _is_count),
    **dict.fromkeys(("pattern", "$ref"), _TYPES["string"]),
    **dict.fromkeys(("enum", "anyOf", "oneOf", "allOf", "prefixItems"), _TYPES["array"]),
    **dict.fromkeys(("properties", "$defs", "definitions"), _TYPES["object"]),
}
"""What the value of a keyword must be."""
