"""Strategies as strings: `ddc:warmup=8,tau=0.99` ⇄ Strategy.

The options of a strategy are the marked fields of its parts (`core.options`); there is no second list.
"""

from __future__ import annotations

import math
from dataclasses import Field, dataclass, fields, replace
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, get_type_hints

from sureenough.core.strategy import Strategy
from sureenough.core.strategy_options import COUNT, options_of
from sureenough.errors import UsageError
from sureenough.strategies import STRATEGIES


@dataclass(frozen=True, slots=True)
class Option:
    """A strategy's option: where it lives, what it takes, what it says."""

    name: str
    part: str | None  # the strategy's field that holds it; None: the strategy itself
    type: type
    says: str

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
    found = {}
    if strategy.warmup:
        says = "paths that run to their end before anything is decided"
        found["warmup"] = Option("warmup", None, int, says)
    for field in fields(strategy):
        part = getattr(strategy, field.name)
        found |= {f.name: _option(f, field.name, part) for f in options_of(part)}
    return found


def _option(field: Field[Any], part: str, owner: object) -> Option:
    kind = type(owner)
    if kind not in _types:
        _types[kind] = get_type_hints(kind)
    return Option(field.name, part, _types[kind][field.name], field.metadata["says"])


_types: dict[type, dict[str, Any]] = {}  # looking hints up is slow, and every replay renders its strategy


def resolve(strategy: str | Strategy) -> Strategy:
    """A strategy from its spec string, or as it is."""
    if isinstance(strategy, Strategy):
        return strategy
    if not isinstance(strategy, str):
        raise UsageError(f"a strategy is a string such as 'ddc:tau=0.99' or a Strategy, not {strategy!r}")
    return parse(strategy)


def parse(text: str) -> Strategy:
    """`name` or `name:option=value,…`; unknown names are refused with the known ones."""
    name, colon, rest = text.strip().partition(":")
    if name not in STRATEGIES:
        raise UsageError(f"unknown strategy {name!r}{_hint(name, STRATEGIES)}; known: {', '.join(STRATEGIES)}")
    strategy = STRATEGIES[name]
    if not colon:
        return strategy
    known = options(strategy)
    given: list[str] = []
    for item in rest.split(","):
        key, equals, value = (piece.strip() for piece in item.partition("="))
        if not equals or not key:
            raise UsageError(f"{text!r}: expected option=value, got {item!r}; {_known(name, known)}")
        if key not in known:
            raise UsageError(f"{name} has no option {key!r}{_hint(key, known)}; {_known(name, known)}")
        if key in given:
            raise UsageError(f"{text!r}: {key} is given twice")
        strategy = known[key].write(strategy, _convert(name, known[key], value))
        given.append(key)
    return replace(strategy, given=tuple(given))


def render(strategy: Strategy) -> str:
    """The spec string: options as the caller wrote them, then any others that differ from the recipe's."""
    try:
        return _remembered(strategy, strategy.given)
    except TypeError:  # a part of the caller's own need not be hashable
        return _render(strategy, strategy.given)


def _render(strategy: Strategy, given: tuple[str, ...]) -> str:
    known = options(strategy)
    recipe = STRATEGIES.get(strategy.name)
    shown = [name for name in given if name in known]
    if recipe is not None:
        standard = options(recipe)
        shown += [
            name
            for name, option in known.items()
            if name not in shown and name in standard and option.read(strategy) != standard[name].read(recipe)
        ]
    values = ",".join(f"{name}={_show(known[name].read(strategy))}" for name in shown)
    return f"{strategy.name}:{values}" if values else strategy.name


_remembered = lru_cache(maxsize=256)(_render)


def _convert(name: str, option: Option, text: str) -> Any:
    try:
        value = option.type(text)
    except ValueError:
        kind = "a whole number" if option.type is int else "a number"
        raise UsageError(f"{name}: {option.name}={text} will not do: {option.name} is {kind}") from None
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"{name}: {option.name}={text} will not do: {option.name} is a finite number")
    if option.name == "warmup" and not COUNT.holds(value):
        raise UsageError(f"{name}: warmup={text} will not do: warmup is {COUNT.words}")
    return value


def _show(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)


def _known(name: str, known: dict[str, Option]) -> str:
    return f"known: {', '.join(known)}" if known else f"{name} takes no options"


def _hint(word: str, known: dict[str, Any]) -> str:
    close = get_close_matches(word, known, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
