"""The options of a run, defined once: Python, the command line, TOML plans, HTTP requests and the page derive theirs.

Each field carries its help text and the rule for its values; `RunOptions` checks them when it is made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from math import inf
from numbers import Integral
from statistics import median
from typing import TYPE_CHECKING, Any, Final, SupportsInt, TypeGuard

from sureenough.errors import UsageError

if TYPE_CHECKING:
    from sureenough.core.strategy import Strategy

Check = Callable[[str, Any], None]
"""Refuses a bad value of the option with this name."""


def _run_option(default: Any, help: str, check: Check, minimum: int) -> Any:
    """A field of RunOptions: its help text, its check, and the smallest of its values, all of which are numbers."""
    return field(default=default, metadata={"help": help, "check": check, "minimum": minimum})


def _optional(check: Check) -> Check:
    return lambda name, value: None if value is None else check(name, value)


def _is_integer(value: object) -> TypeGuard[SupportsInt]:
    """Numpy's integers count, booleans do not."""
    return not isinstance(value, bool) and isinstance(value, Integral)


def _is_amount(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, int | float) and 0 <= value < 1e9


def _check(rule: str, holds: Callable[[Any], bool]) -> Check:
    """Refuses the values for which a rule does not hold."""

    def check(name: str, value: object) -> None:
        if not holds(value):
            raise UsageError(f"{name} is {value!r}; {rule}")

    return check


check_count: Final = _check("it must be a whole number of at least 1", lambda n: _is_integer(n) and int(n) >= 1)
check_seed: Final = _check("it must be a whole number of at least 0", lambda n: _is_integer(n) and int(n) >= 0)
check_seconds: Final = _check("it must be a number of seconds, 0 or more", _is_amount)
_check_hurry: Final = _check(
    "it must be a number of at least 0, such as 0.25", lambda value: _is_amount(value) or value == inf
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How one question is run: budget, window, parallelism and caps."""

    paths: int | None = _run_option(
        None, "budget: the most paths to start per question", _optional(check_count), minimum=1
    )
    window: int | None = _run_option(
        None,
        "tokens per window over which confidence is averaged; by default what the pool or the model suggests, else "
        "chosen from the lengths of the paths",
        _optional(check_count),
        minimum=1,
    )
    parallel: int = _run_option(1, "the most paths that run at once", check_count, minimum=1)
    seed: int = _run_option(0, "seed of the run; each path derives its own", check_seed, minimum=0)
    max_tokens: int | None = _run_option(
        None, "cap on the tokens of all paths together", _optional(check_count), minimum=1
    )
    deadline: float | None = _run_option(
        None, "seconds after which the run ends with the vote so far", _optional(check_seconds), minimum=0
    )
    hurry: float | None = _run_option(
        None,
        "paths that may run at once per path that has ended, if that is more than twice what the vote may still need; "
        "0 spends the fewest tokens, more takes less time; without it, as many run as parallel allows",
        _optional(_check_hurry),
        minimum=0,
    )

    def __post_init__(self) -> None:
        for option in fields(self):
            value = getattr(self, option.name)
            option.metadata["check"](option.name, value)
            if _is_integer(value):
                object.__setattr__(self, option.name, int(value))  # numpy's integers become Python's
        if self.hurry == inf:  # files and the command line cannot say None
            object.__setattr__(self, "hurry", None)

    def check_budget(self, strategy: Strategy, *, recorded: bool = False) -> None:
        """Refuse a budget, or so many recorded paths, that is smaller than the strategy's warm-up."""
        if self.paths is not None and self.paths < strategy.warmup:
            there = f"more than the {self.paths} recorded per question" if recorded else f"the budget is {self.paths}"
            verb = "record" if recorded else "allow"
            raise UsageError(
                f"{strategy.name} warms up with {strategy.warmup} paths, {there}: {verb} at least {strategy.warmup} "
                f"paths, or ask for {strategy.name}:warmup={fitting_warmup(self.paths)}"
            )

    def with_recorded(self, paths: int, strategy: Strategy) -> RunOptions:
        """With all recorded paths as the budget if there is none; refuses fewer than the warm-up."""
        if self.paths is not None:
            return self
        options = replace(self, paths=paths)
        options.check_budget(strategy, recorded=True)
        return options

    @classmethod
    def fields(cls) -> dict[str, Field[Any]]:
        """Every option by name, with `help`, `check` and `minimum` in its metadata."""
        return {option.name: option for option in fields(cls)}


LIVE_DEFAULTS: Final = RunOptions(paths=64, parallel=16, hurry=0.25)
"""What `ask`, `serve` and the page start from."""

DEFAULT_WINDOW: Final = 2048
"""The paper's window: the longest that is chosen, and the one that is chosen from no lengths at all."""
SMALLEST_WINDOW: Final = 16
"""The shortest window that is chosen."""


def fitting_warmup(paths: int) -> int:
    """The warm-up for a budget that is smaller than a strategy's own: half of it; all of it would save nothing."""
    return max(1, paths // 2)


def choose_window(lengths: Sequence[int], longest: int = DEFAULT_WINDOW) -> int:
    """The largest power of two that is not above a quarter of the median length, nor above `longest`."""
    longest = min(longest, DEFAULT_WINDOW)
    most = min(longest, int(median(lengths) / 4)) if lengths else longest
    return max(min(SMALLEST_WINDOW, longest), 1 << max(0, most.bit_length() - 1))
