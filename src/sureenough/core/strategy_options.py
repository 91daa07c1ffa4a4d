"""Options of strategies are dataclass fields marked here; the spec grammar, help and errors read the marks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import Field, dataclass, field, fields
from typing import Any, Final

from sureenough.errors import UsageError


@dataclass(frozen=True, slots=True)
class Rule:
    """What an option's value must be, in words and as a test."""

    words: str
    holds: Callable[[Any], bool]


def option(default: Any, help: str, rule: Rule) -> Any:
    """A dataclass field that users may set by name, with a line of help and a rule for its values."""
    return field(default=default, metadata={"help": help, "rule": rule})


def options_of(part: object) -> tuple[Field[Any], ...]:
    """The fields of a strategy's part that are options."""
    if not hasattr(part, "__dataclass_fields__"):
        return ()
    return tuple(f for f in fields(part) if "rule" in f.metadata)  # type: ignore[arg-type]


def check_options(part: object) -> None:
    """Refuse option values that break their rule."""
    for f in options_of(part):
        value, rule = getattr(part, f.name), f.metadata["rule"]
        if not rule.holds(value):
            raise UsageError(f"{f.name}={value} will not do: {f.name} is {rule.words} ({f.metadata['help']})")


class HasOptions:
    """A dataclass whose options are checked when it is made."""

    __slots__ = ()

    def __post_init__(self) -> None:
        check_options(self)


def _is_fence(value: str) -> bool:
    if value == "tukey":
        return True
    digits = value[1:].replace(".", "", 1)
    return value[:1] == "p" and digits.isascii() and digits.isdigit() and float(value[1:]) <= 100


COUNT: Final = Rule("a whole number of at least 1", lambda n: n >= 1)
FEW: Final = Rule("a whole number from 1 to 64", lambda n: 1 <= n <= 64)
STEPS: Final = Rule("a whole number from 1 to 256", lambda n: 1 <= n <= 256)
TOKENS: Final = Rule("a whole number from 1 to 32768", lambda n: 1 <= n <= 32_768)
WHOLE: Final = Rule("a whole number of at least 0", lambda n: n >= 0)
PERCENT: Final = Rule("a number from 0 to 100", lambda q: 0 <= q <= 100)
SHARE: Final = Rule("a number between 0 and 1, both excluded", lambda x: 0 < x < 1)
PROBABILITY: Final = Rule("a number from 0 to 1", lambda x: 0 <= x <= 1)
MODERATE: Final = Rule("a number from 0 to 10", lambda x: 0 <= x <= 10)
TEMPERATURE: Final = Rule("a number from 0.0001 to 1000", lambda x: 0.0001 <= x <= 1000)
NOT_NEGATIVE: Final = Rule("a number of at least 0", lambda x: 0 <= x < float("inf"))
FLAG: Final = Rule("1 or 0", lambda value: value in (True, False))
FENCE: Final = Rule("tukey, or p and a percentile such as p90", _is_fence)


def one_of(*names: str) -> Rule:
    """A rule for options that are one of a few words."""
    return Rule(" or ".join(names), lambda value: value in names)
