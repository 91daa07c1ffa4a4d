"""The sizes of a run: which are possible, and what to say of those that are not."""

from __future__ import annotations

from numbers import Integral
from typing import Literal, SupportsInt, TypeGuard

from sureenough.core.strategy import Strategy
from sureenough.errors import UsageError

Count = Literal["start", "finish"]
"""The order in which votes are counted."""


def check_run_limits(
    strategy: Strategy, paths: int, window: int, parallel: int, max_tokens: int | None, count: str
) -> None:
    """Raise a UsageError that says what to change."""
    for name, value in (("paths", paths), ("window", window), ("parallel", parallel)):
        check_count(name, value)
    if max_tokens is not None and not _is_count(max_tokens):
        raise UsageError(f"max_tokens is {max_tokens!r}; it must be a whole number of at least 1, or left out")
    if count not in ("start", "finish"):
        raise UsageError(f"count is {count!r}; votes are counted in order of 'start' or of 'finish'")
    if paths < strategy.warmup:
        raise UsageError(
            f"{strategy.name} warms up with {strategy.warmup} paths, the budget is {paths}: "
            f"allow at least {strategy.warmup} paths, or ask for {strategy.name}:warmup={paths}"
        )


def check_count(name: str, value: object) -> None:
    """Sizes are whole numbers from 1 on."""
    if not _is_count(value):
        raise UsageError(f"{name} is {value!r}; it must be a whole number of at least 1")


def check_seconds(name: str, seconds: object) -> None:
    """Times are finite numbers of seconds, 0 or more."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < 1e9:
        raise UsageError(f"{name} is {seconds!r}; it must be a number of seconds, 0 or more")


def check_seed(seed: object) -> None:
    """Seeds are whole numbers from 0 on."""
    if not _is_integer(seed) or int(seed) < 0:
        raise UsageError(f"seed is {seed!r}; it must be a whole number of at least 0")


def suggested_window(longest: int) -> int:
    """A window that paths of this length fill several times: a power of two near a tenth of it."""
    size = 1
    while size * 2 <= longest // 10:
        size *= 2
    return size


def _is_count(value: object) -> bool:
    return _is_integer(value) and int(value) >= 1


def _is_integer(value: object) -> TypeGuard[SupportsInt]:
    """Numpy's integers count, booleans do not."""
    return not isinstance(value, bool) and isinstance(value, Integral)
