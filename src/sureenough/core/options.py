"""Options, defined once: dataclass fields with a line of help and a rule for their values.

Spec strings, help and errors are made from those of strategies and judges. Those of a run are `RunOptions`: Python, the
command line, TOML plans, HTTP requests and the page derive theirs; `RunKeywords` repeats their types for type checkers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from inspect import Parameter, signature
from math import inf
from numbers import Integral
from statistics import median
from typing import TYPE_CHECKING, Any, Final, TypedDict, TypeVar

from sureenough.errors import UsageError

if TYPE_CHECKING:
    from sureenough.core.strategy import Strategy

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Rule:
    """What an option's value must be, in words and as a test."""

    words: str
    holds: Callable[[Any], bool]


def option(default: Any, help: str, rule: Rule) -> Any:
    """A dataclass field that users may set by name, to values of the type of its default."""
    return field(default=default, metadata={"help": help, "rule": rule})


def options_of(part: object) -> tuple[Field[Any], ...]:
    """The fields of a strategy's part that are options."""
    if not hasattr(part, "__dataclass_fields__"):
        return ()
    return tuple(f for f in fields(part) if "rule" in f.metadata)  # type: ignore[arg-type]


class HasOptions:
    """A dataclass whose options are checked when it is made: values that break their rule are refused."""

    __slots__ = ()

    def __post_init__(self) -> None:
        for f in options_of(self):
            value, rule = getattr(self, f.name), f.metadata["rule"]
            if not rule.holds(value):
                raise UsageError(f"{f.name}={value} will not do: {f.name} is {rule.words} ({f.metadata['help']})")


def _is_fence(value: str) -> bool:
    if value == "tukey":
        return True
    digits = value[1:].replace(".", "", 1)
    return value[:1] == "p" and digits.isascii() and digits.isdigit() and float(value[1:]) <= 100


COUNT: Final = Rule("a whole number of at least 1", lambda n: n >= 1)
FEW: Final = Rule("a whole number from 1 to 64", lambda n: 1 <= n <= 64)
STEPS: Final = Rule("a whole number from 1 to 256", lambda n: 1 <= n <= 256)
TOKENS: Final = Rule("a whole number from 1 to 32768", lambda n: 1 <= n <= 32_768)
PERCENT: Final = Rule("a number from 0 to 100", lambda q: 0 <= q <= 100)
SHARE: Final = Rule("a number between 0 and 1, both excluded", lambda x: 0 < x < 1)
PROBABILITY: Final = Rule("a number from 0 to 1", lambda x: 0 <= x <= 1)
MODERATE: Final = Rule("a number from 0 to 10", lambda x: 0 <= x <= 10)
TEMPERATURE: Final = Rule("a number from 0.0001 to 1000", lambda x: 0.0001 <= x <= 1000)
NOT_NEGATIVE: Final = Rule("a number of at least 0", lambda x: 0 <= x < inf)
FENCE: Final = Rule("tukey, or p and a percentile such as p90", _is_fence)


def one_of(*names: str) -> Rule:
    """A rule for options that are one of a few words."""
    return Rule(" or ".join(names), lambda value: value in names)


# The options of a run.


def _run_option(
    default: Any,
    help: str,
    *,
    minimum: int = 1,
    fraction: str | None = None,
    flag: str | None = None,
    rare: bool = True,
    live: bool = False,
) -> Any:
    """A field of RunOptions. It can be None if that is the default.

    Args:
        default: its value in a replay.
        help: what it is.
        minimum: the smallest value.
        fraction: what it must be, in words, if it may be a fraction; without this it is a whole number.
        flag: a short flag on the command line.
        rare: whether help lists it among the options that are rarely needed.
        live: whether it is for live runs only, as recorded paths take no time.
    """
    number = int if fraction is None else float
    about = {"help": help, "minimum": minimum, "number": number, "fraction": fraction}
    return field(default=default, metadata=about | {"flag": flag, "rare": rare, "live": live})


def check_count(name: str, value: object, minimum: int = 1) -> None:
    """Refuse what is not a whole number of at least `minimum`; numpy's integers are, booleans are not."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < minimum:
        raise UsageError(f"{name} is {value!r}; it must be a whole number of at least {minimum}", argument=name)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How one question is run: budget, window, parallelism and caps."""

    paths: int | None = _run_option(None, "budget: the most paths to start per question", flag="-n", rare=False)
    window: int | None = _run_option(
        None,
        "tokens per window over which confidence is averaged; by default what the pool or the model suggests, else "
        "chosen from the lengths of the paths",
    )
    parallel: int = _run_option(1, "the most paths that run at once", rare=False)
    seed: int = _run_option(0, "seed of the run; each path derives its own", minimum=0)
    max_tokens: int | None = _run_option(None, "cap on the tokens of all paths together")
    deadline: float | None = _run_option(
        None,
        "seconds after which the run ends with the vote so far",
        minimum=0,
        fraction="a number of seconds, 0 or more",
        live=True,
    )
    hurry: float | None = _run_option(
        None,
        "how many more paths run at once than the vote may still need, as a share: 0 runs none more and spends the "
        "fewest tokens, 1 runs twice as many and takes less time; without it (inf), as many run as parallel allows",
        minimum=0,
        fraction="a number of at least 0, such as 0.5",
    )

    def __post_init__(self) -> None:
        if self.hurry == inf:  # files and the command line cannot say None
            object.__setattr__(self, "hurry", None)
        for option in fields(self):
            name, value, fraction = option.name, getattr(self, option.name), option.metadata["fraction"]
            if value is None and option.default is None:
                continue
            if fraction is None:
                check_count(name, value, option.metadata["minimum"])
                object.__setattr__(self, name, int(value))  # numpy's integers become Python's
            elif isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
                raise UsageError(f"{name} is {value!r}; it must be {fraction}", argument=name)

    @classmethod
    def fields(cls, *, live: bool = True) -> dict[str, Field[Any]]:
        """Every option by name, or those of recorded paths only; what `_run_option` takes is in their metadata."""
        return {option.name: option for option in fields(cls) if live or not option.metadata["live"]}

    def check_budget(self, strategy: Strategy, *, recorded: bool = False) -> None:
        """Refuse a budget, or so many recorded paths, that is smaller than the strategy's warm-up."""
        if self.paths is not None and self.paths < strategy.warmup:
            there = f"more than the {self.paths} recorded per question" if recorded else f"the budget is {self.paths}"
            verb = "record" if recorded else "allow"
            raise UsageError(
                f"{strategy.name} warms up with {strategy.warmup} paths, {there}: {verb} at least {strategy.warmup} "
                f"paths, or ask for {strategy.name}:warmup={fitting_warmup(self.paths)}",
                argument="paths",
            )

    def with_recorded(self, paths: int, strategy: Strategy) -> RunOptions:
        """With all recorded paths as the budget if there is none; refuses fewer than the warm-up."""
        if self.paths is not None:
            return self
        options = replace(self, paths=paths)
        options.check_budget(strategy, recorded=True)
        return options


class ReplayKeywords(TypedDict, total=False):
    """The run options of recorded paths as keyword arguments, for type checkers and editors."""

    paths: int | None
    window: int | None
    parallel: int
    seed: int
    max_tokens: int | None
    hurry: float | None


class RunKeywords(ReplayKeywords, total=False):
    """All run options as keyword arguments."""

    deadline: float | None


def takes_run_options(defaults: RunOptions, *, live: bool = True) -> Callable[[F], F]:
    """Show the run options in the signature and the documentation of a function that takes them as `**options`."""
    known = RunOptions.fields(live=live)

    def decorate(function: F) -> F:
        shown = signature(function)
        keywords = [one for one in shown.parameters.values() if one.kind is not Parameter.VAR_KEYWORD]
        keywords += [
            Parameter(name, Parameter.KEYWORD_ONLY, default=getattr(defaults, name), annotation=one.type)
            for name, one in known.items()
        ]
        function.__signature__ = shown.replace(parameters=keywords)  # type: ignore[attr-defined]
        lines = [f"        {name}: {one.metadata['help']}." for name, one in known.items()]
        function.__doc__ = "\n".join([str(function.__doc__).rstrip(), *lines])
        return function

    return decorate


def run_options(function: Callable[..., Any], defaults: RunOptions, options: Mapping[str, Any]) -> RunOptions:
    """The defaults with the options that a function received; an unknown one is refused with the known ones."""
    keywords = [one.name for one in signature(function).parameters.values() if one.kind is Parameter.KEYWORD_ONLY]
    for name in options:
        if name not in keywords:
            known = sorted(keywords, key=lambda name: name not in RunOptions.fields())
            raise UsageError(f"unknown option {name!r}; known: {', '.join(known)}", argument=name)
    return replace(defaults, **options)


LIVE_DEFAULTS: Final = RunOptions(paths=64, parallel=16, hurry=0.6)
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
