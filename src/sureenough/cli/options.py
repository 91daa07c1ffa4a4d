"""Options that several verbs share, each defined once: a group becomes flags of a verb and reaches it as one object."""

from __future__ import annotations

import inspect
import re
import shlex
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial, wraps
from math import inf
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, get_type_hints

import typer

from sureenough.core.options import RunOptions
from sureenough.errors import UsageError
from sureenough.redact import printable_command
from sureenough.strategies import COMPARED

if TYPE_CHECKING:
    from sureenough.drivers.record import Executor
    from sureenough.engines.base import Engine

NOTES: Final = {"hurry": "inf is without it"}
STRATEGY_HELP: Final = "A strategy (`sureenough strategies` lists them), with options as in ddc:tau=0.99."
GRADER_HELP: Final = "What grades mathematics: own, or math-verify as in many published results."
STRATEGIES_HELP: Final = (
    f"{STRATEGY_HELP[:-1]}; repeat it, or give several in quotes. By default: {', '.join(COMPARED)}."
)


def rare_option(*flags: str, **settings: Any) -> Any:
    """An option that most users leave alone."""
    return typer.Option(*flags, rich_help_panel="Rarely needed", **settings)


def file_option(help: str, **checks: Any) -> Any:
    """A setting that stands in sureenough.toml only, for what is chosen once: the command line does not have it."""
    return typer.Option(help=help, hidden=True, **checks)


KIND_HELP: Final = "math, choice, text, exact, number, date, list, set or json, with options such as number:rel=1e-3"
Kind = Annotated[str, typer.Option("--kind", help=f"Kind of answer: {KIND_HELP}.")]
PoolKind = Annotated[
    str | None, typer.Option("--kind", help=f"Kind of answer, by default that of the dataset or the pool: {KIND_HELP}.")
]


def split_strategies(texts: Sequence[str]) -> list[str]:
    """The strategies of `-s "sc ac" -s ddc`."""
    return [name for text in texts for name in text.split()]


class OptionGroup(NamedTuple):
    """Flags, and what makes an object of their values."""

    make: Callable[..., Any]
    flags: Mapping[str, tuple[Any, Any]]  # by name: annotation and default


def option_group(kind: Any, leave_out: Collection[str] = (), **defaults: Any) -> OptionGroup:
    """The fields of a dataclass that are annotated with options, with a verb's own defaults."""
    hints = get_type_hints(kind, include_extras=True)
    values = {field.name: field.default for field in fields(kind)} | defaults
    return OptionGroup(kind, {name: (hints[name], value) for name, value in values.items() if name not in leave_out})


def with_options(**groups: OptionGroup) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace parameters of a verb by the flags of a group; the verb receives the object that the group makes."""

    def decorate(verb: Callable[..., None]) -> Callable[..., None]:
        @wraps(verb)
        def command(**values: Any) -> None:
            for name, group in groups.items():
                values[name] = group.make(**{flag: values.pop(flag) for flag in group.flags})
            verb(**values)

        parameters = []
        for name, parameter in inspect.signature(verb, eval_str=True).parameters.items():
            flags = groups[name].flags if name in groups else {name: (parameter.annotation, parameter.default)}
            parameters += [
                inspect.Parameter(flag, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
                for flag, (annotation, default) in flags.items()
            ]
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return command

    return decorate


def run_options(
    defaults: RunOptions | None,
    *,
    only: Collection[str] = (),
    notes: Mapping[str, str] | None = None,
    in_file: Collection[str] = (),
    live: bool = True,
) -> OptionGroup:
    """The flags of a run's options, with help and limits from RunOptions.

    Args:
        defaults: values of the flags that are not given. None: the verb receives a dict, with None for these.
        only: the options of this verb; all of them by default.
        notes: what to add to an option's help.
        in_file: options that only sureenough.toml has.
        live: whether the verb has those that are for live runs.
    """
    flags = {}
    hints = get_type_hints(RunOptions)
    for name, field in RunOptions.fields(live=live).items():
        if only and name not in only:
            continue
        about = field.metadata
        help = "; ".join([about["help"], *(one[name] for one in (NOTES, notes or {}) if name in one)])
        help = f"{help[0].upper()}{help[1:]}."
        names = ["--" + name.replace("_", "-"), *([about["flag"]] if about["flag"] else [])]
        declare = rare_option if about["rare"] else typer.Option
        option = file_option(help) if name in in_file else declare(*names, help=help)
        default = getattr(defaults, name, None)
        flags[name] = (Annotated[hints[name] | None if default is None else hints[name], option], default)

    def make(**values: Any) -> Any:
        given = {name: value for name, value in values.items() if value is not None}
        checked = replace(defaults or RunOptions(), **given)
        return values if defaults is None else checked

    return OptionGroup(make, flags)


@dataclass(frozen=True, slots=True)
class Prices:
    """What tokens cost."""

    price_in: Annotated[float | None, file_option("Price per million prompt tokens.")] = None
    price_out: Annotated[float | None, file_option("Price per million generated tokens.")] = None

    def __post_init__(self) -> None:
        bad = next((price for price in (self.price_in, self.price_out) if price and not 0 <= price < inf), None)
        if bad is not None:
            raise UsageError(f"a price is {bad}; it must be a number of at least 0, per million tokens")

    def cost(self, prompt: float, generated: float) -> float | None:
        """Money for these tokens, if a price was given."""
        if self.price_in is None and self.price_out is None:
            return None
        return (prompt * (self.price_in or 0.0) + generated * (self.price_out or 0.0)) / 1e6


RAY: Final = "--ray"
RayAddress = Annotated[
    str | None,
    rare_option(
        RAY,
        metavar="[ADDRESS]",
        help="Work on the nodes of a Ray cluster: HOST:PORT; without it that of RAY_ADDRESS or of this machine.",
    ),
]


def with_addresses(words: Sequence[str]) -> list[str]:
    """The words of a command, with `--ray` as `--ray=auto` unless an address follows it."""
    complete = []
    for at, word in enumerate(words):
        has_address = re.fullmatch(r"auto|ray://.*|[\w.\[\]:-]*:\d+", " ".join(words[at + 1 : at + 2]))
        complete.append(f"{RAY}=auto" if word == RAY and not has_address else word)
    return complete


def join(address: str | None, call: typer.Context, *, dry_run: bool = False) -> Any:
    """The cluster, until the command ends; None without an address."""
    if address is None:
        return None
    if dry_run:
        raise UsageError("--dry-run samples on this machine: leave --ray out")
    words = sys.argv[1:]
    if printable_command(words) != shlex.join(words):
        raise UsageError(
            "Ray shows the command lines of its jobs to all its users, and this one has a URL with a password or a "
            "query: put the URL into SUREENOUGH_URL or a plan, or the key into SUREENOUGH_API_KEY"
        )
    from sureenough.ray.cluster import connected

    return call.with_resource(connected(address))


def on_cluster(cluster: Any, make_engine: Callable[[], Engine]) -> Executor:
    """What samples on every node, from an engine that is made there."""
    from sureenough.ray.jobs import RayJobs

    return partial(RayJobs, cluster, make_engine)
