"""Strategies as strings: `ddc:warmup=8,tau=0.99` ⇄ Strategy.

The options of a strategy are the marked fields of its parts (`core.options`), listed nowhere else.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, Final

from sureenough.core.options import COUNT, options_of
from sureenough.core.strategy import Strategy
from sureenough.errors import UsageError
from sureenough.plugins import Named, Registry, hint
from sureenough.strategies import SEARCHES, STRATEGIES, searching

PARTS: Final = tuple(part.name for part in fields(Strategy) if part.compare and part.name != "name")
"""The fields that make strategies differ: warmup, calibrate, stop, weigh, search."""
_FLAGS: Final = {"1": True, "true": True, "0": False, "false": False}


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a strategy or a judge: the type of its values, its help text, and the part that holds it."""

    name: str
    part: str | None  # the field whose value holds it; None: the owner itself
    type: Any
    help: str

    def read(self, owner: Any) -> Any:
        """Its value in this strategy or judge."""
        return getattr(owner if self.part is None else getattr(owner, self.part), self.name)

    def write(self, owner: Any, value: Any) -> Any:
        """The strategy or judge with this value."""
        if self.part is None:
            return replace(owner, **{self.name: value})
        part = replace(getattr(owner, self.part), **{self.name: value})
        return replace(owner, **{self.part: part})


def options(strategy: Strategy) -> dict[str, Option]:
    """Every option of a strategy by name."""
    known = {}
    if strategy.warmup:
        known["warmup"] = Option("warmup", None, int, "paths that run to their end before anything is decided")
    for name in PARTS:
        own = marked_options(getattr(strategy, name), name)
        if twice := own.keys() & known.keys():
            raise UsageError(f"two parts of the strategy {strategy.name} have the option {min(twice)}; rename one")
        known |= own
    return known


def marked_options(owner: object, part: str | None = None) -> dict[str, Option]:
    """The options among the fields of a dataclass."""
    return {one.name: Option(one.name, part, type(one.default), one.metadata["help"]) for one in options_of(owner)}


def _accepted(thing: object) -> Strategy:
    if not isinstance(thing, Strategy):
        raise UsageError(f"it is {type(thing).__name__}, not a sureenough.Strategy")
    return thing


REGISTRY: Final = Registry("strategy", "strategies", STRATEGIES, _accepted)
"""The strategies, those of other packages included."""
_others: dict[str, Strategy] = {}  # those that were used, by the name that led to them


def resolve(strategy: str | Strategy, *, registered_only: bool = False) -> Strategy:
    """A strategy from its spec string; a Strategy is returned unchanged. See `parse`."""
    if isinstance(strategy, Strategy):
        return strategy
    if not isinstance(strategy, str):
        raise UsageError(f"a strategy is a string such as 'ddc:tau=0.99' or a Strategy, not {strategy!r}")
    return parse(strategy, registered_only=registered_only)


def parse(text: str, *, registered_only: bool = False) -> Strategy:
    """`name` or `name:option=value,…`; unknown names are refused with the known ones.

    `module:attribute` names a strategy of another package, unless only registered names are allowed.
    """
    named = _find(text, registered_only=registered_only)
    strategy = named.thing
    if named.name not in STRATEGIES:
        strategy = _others[named.name] = replace(strategy, name=named.name)
    if named.options is None:
        return strategy
    explicit: list[str] = []
    for option, value in read_options(named, text, options(strategy)):
        strategy = option.write(strategy, value)
        explicit.append(option.name)
    return replace(strategy, explicit_options=tuple(explicit))


def is_strategy_name(name: str) -> bool:
    """Whether a registered strategy has this name, or one that searches for the paths of a registered strategy."""
    names = REGISTRY.names()
    method, plus, voting = name.partition("+")
    searches = voting.partition("+")[0] in SEARCHES
    return name in names or bool(plus and method in SEARCHES and voting in names and not searches)


def _find(text: str, *, registered_only: bool) -> Named[Strategy]:
    """A registered strategy; `phi+sure` is a search, and the strategy that votes on its paths."""
    name = text.strip().partition(":")[0]
    method, plus, _ = name.partition("+")
    if method not in SEARCHES or name in STRATEGIES:
        return REGISTRY.find(text, registered_only=registered_only)
    if not plus:
        raise UsageError(f"{method} searches for paths; name the strategy that votes on them too, such as {method}+sc")
    voting = REGISTRY.find(text.strip().removeprefix(f"{method}+"), registered_only=registered_only)
    strategy = searching(method, replace(voting.thing, name=voting.name))
    return voting._replace(name=strategy.name, thing=strategy)


def read_options(named: Named[Any], text: str, known: Mapping[str, Option]) -> Iterator[tuple[Option, Any]]:
    """The options of a spec, each with its value; unknown ones are refused with the known ones."""
    given: dict[str, str] = {}
    key = ""
    for item in (named.options or "").split(","):
        before, equals, value = (piece.strip() for piece in item.partition("="))
        if not equals and key and known[key].type is tuple:
            given[key] += f",{before}"
            continue
        if not equals or not before:
            raise UsageError(f"{text!r}: expected option=value, got {item!r}; {_known(named.name, known)}")
        key = before
        if key not in known:
            raise UsageError(f"{named.name} has no option {key!r}{hint(key, list(known))}; {_known(named.name, known)}")
        if key in given:
            raise UsageError(f"{text!r}: {key} is given twice")
        given[key] = value
    for key, value in given.items():
        yield known[key], _convert(named.name, known[key], value)


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
    builtin = STRATEGIES.get(strategy.name) or _others.get(strategy.name)
    shown = list(explicit)
    if builtin is not None:
        known, modified = _compare(strategy, builtin)
        shown += [name for name, option in known.items() if option.read(strategy) != option.read(builtin)]
    values = [f"{name}={_show(known[name].read(strategy))}" for name in dict.fromkeys(shown) if name in known]
    spec = f"{strategy.name}:{','.join(values)}" if values else strategy.name
    return f"{spec} (modified: {', '.join(modified)})" if modified else spec


def _compare(strategy: Strategy, builtin: Strategy) -> tuple[dict[str, Option], list[str]]:
    """The options that carry `builtin` towards `strategy`, and the parts that differ whatever their options are."""
    own = options(strategy)
    known = {name: option for name, option in options(builtin).items() if own.get(name) == option}
    for option in known.values():
        builtin = option.write(builtin, option.read(strategy))
    modified = [part for part in PARTS if getattr(strategy, part) != getattr(builtin, part)]
    return {name: option for name, option in known.items() if option.part not in modified}, modified


_cached_render = lru_cache(maxsize=256)(_render)


def _convert(name: str, option: Option, text: str) -> Any:
    refusal = f"{name}: {option.name}={text} will not do: {option.name} is"
    if option.type is tuple:
        return tuple(part.strip() for part in text.split(",") if part.strip())
    if option.type is bool:
        if text.lower() not in _FLAGS:
            raise UsageError(f"{refusal} 1 or 0")
        return _FLAGS[text.lower()]
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
    value = int(value) if isinstance(value, bool) else value
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)


def _known(name: str, known: Mapping[str, Option]) -> str:
    return f"known: {', '.join(known)}" if known else f"{name} takes no options"
