"""Strategies as strings: `ddc:warmup=8,tau=0.99` ⇄ Strategy.

The options of a strategy are the marked fields of its parts (`core.strategy_options`), listed nowhere else.
"""

from __future__ import annotations

import math
from dataclasses import Field, dataclass, fields, replace
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, Final, get_type_hints

from sureenough.core.strategy import Strategy
from sureenough.core.strategy_options import COUNT, options_of
from sureenough.errors import UsageError
from sureenough.strategies import STRATEGIES

PARTS: Final = tuple(part.name for part in fields(Strategy) if part.compare and part.name != "name")
"""The fields that make strategies differ: warmup, calibrate, stop, weigh."""
LONGEST_SPEC: Final = 500
"""Characters of a spec string, which error messages quote."""


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a strategy: its type, its help text, and the part of the strategy that holds it."""

    name: str
    part: str | None  # the strategy's field that holds it; None: the strategy itself
    type: type
    help: str

    def read(self, strategy: Strategy) -> Any:
        """Its value in this strategy."""
        return getattr(strategy if self.part is None else getattr(strategy, self.part), self.name)

    def write(self, strategy: Strategy, value: Any) -> Strategy:
        """The strategy with this value."""
        if self.part is None:
            return replace(strategy, **{self.name: value})
        part = replace(getattr(strategy, self.part), **{self.name: value})
        return replace(strategy, **{self.part: part})


def options(strategy: Strategy) -> dict[str, Option]:
    """Every option of a strategy by name."""
    known = {}
    if strategy.warmup:
        known["warmup"] = Option("warmup", None, int, "paths that run to their end before anything is decided")
    for name in PARTS:
        part = getattr(strategy, name)
        known |= {field.name: _option(field, name, part) for field in options_of(part)}
    return known


def _option(field: Field[Any], part: str, owner: object) -> Option:
    kind = type(owner)
    if kind not in _types:
        _types[kind] = get_type_hints(kind)
    return Option(field.name, part, _types[kind][field.name], field.metadata["help"])


_types: dict[type, dict[str, Any]] = {}  # get_type_hints is slow, and every replay renders its strategy


def resolve(strategy: str | Strategy) -> Strategy:
    """A strategy from its spec string; a Strategy is returned unchanged."""
    if isinstance(strategy, Strategy):
        return strategy
    if not isinstance(strategy, str):
        raise UsageError(f"a strategy is a string such as 'ddc:tau=0.99' or a Strategy, not {strategy!r}")
    return parse(strategy)


def parse(text: str) -> Strategy:
    """`name` or `name:option=value,…`; unknown names are refused with the known ones."""
    if len(text) > LONGEST_SPEC:
        raise UsageError(f"the strategy has {len(text):,} characters; a spec has at most {LONGEST_SPEC}")
    name, colon, rest = text.strip().partition(":")
    if name not in STRATEGIES:
        raise UsageError(f"unknown strategy {name!r}{_hint(name, STRATEGIES)}; known: {', '.join(STRATEGIES)}")
    strategy = STRATEGIES[name]
    if not colon:
        return strategy
    known = options(strategy)
    explicit: list[str] = []
    for item in rest.split(","):
        key, equals, value = (piece.strip() for piece in item.partition("="))
        if not equals or not key:
            raise UsageError(f"{text!r}: expected option=value, got {item!r}; {_known(name, known)}")
        if key not in known:
            raise UsageError(f"{name} has no option {key!r}{_hint(key, known)}; {_known(name, known)}")
        if key in explicit:
            raise UsageError(f"{text!r}: {key} is given twice")
        strategy = known[key].write(strategy, _convert(name, known[key], value))
        explicit.append(key)
    return replace(strategy, explicit_options=tuple(explicit))


def render(strategy: Strategy) -> str:
    """The spec string: options as the caller wrote them, then others that differ from the built-in strategy's.

    A strategy that has a built-in name but differs in a way that no option expresses is marked: `ddc (modified: stop)`.
    """
    try:
        return _cached_render(strategy, strategy.explicit_options)
    except TypeError:  # a part of the caller's own need not be hashable
        return _render(strategy, strategy.explicit_options)


def _render(strategy: Strategy, explicit: tuple[str, ...]) -> str:
    known, modified = options(strategy), list[str]()
    builtin = STRATEGIES.get(strategy.name)
    shown = list(explicit)
    if builtin is not None:
        known, modified = _compare(strategy, builtin)
        shown += [name for name, option in known.items() if option.read(strategy) != option.read(builtin)]
    values = [f"{name}={_show(known[name].read(strategy))}" for name in dict.fromkeys(shown) if name in known]
    spec = f"{strategy.name}:{','.join(values)}" if values else strategy.name
    return f"{spec} (modified: {', '.join(modified)})" if modified else spec


def _compare(strategy: Strategy, builtin: Strategy) -> tuple[dict[str, Option], list[str]]:
    """The options that carry `builtin` towards `strategy`, and the parts that differ whatever their options are."""
    kinds = {part: type(getattr(strategy, part)) for part in PARTS}
    same = options(builtin).keys() & options(strategy).keys()
    known = {
        name: option
        for name, option in options(builtin).items()
        if name in same and (option.part is None or kinds[option.part] is type(getattr(builtin, option.part)))
    }
    for option in known.values():
        builtin = option.write(builtin, option.read(strategy))
    modified = [part for part in PARTS if getattr(strategy, part) != getattr(builtin, part)]
    return {name: option for name, option in known.items() if option.part not in modified}, modified


_cached_render = lru_cache(maxsize=256)(_render)


def _convert(name: str, option: Option, text: str) -> Any:
    refusal = f"{name}: {option.name}={text} will not do: {option.name} is"
    try:
        value = option.type(text)
    except ValueError:
        raise UsageError(f"{refusal} {'a whole number' if option.type is int else 'a number'}") from None
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"{refusal} a finite number")
    if option.name == "warmup" and not COUNT.holds(value):
        raise UsageError(f"{refusal} {COUNT.words}")
    return value


def _show(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)


def _known(name: str, known: dict[str, Option]) -> str:
    return f"known: {', '.join(known)}" if known else f"{name} takes no options"


def _hint(word: str, known: dict[str, Any]) -> str:
    close = get_close_matches(word, known, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
