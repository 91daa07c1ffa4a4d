"""Options that several verbs share, each defined once, and the defaults of options from sureenough.toml.

A group of options becomes flags of a verb and reaches it as one object. The command line takes precedence over the
environment, and the environment over sureenough.toml.
"""

from __future__ import annotations

import inspect
import os
import shlex
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, get_type_hints

import typer

from sureenough.core.options import RunOptions
from sureenough.errors import UsageError
from sureenough.plugins import hint
from sureenough.redact import printable_command
from sureenough.strategies import COMPARED

CONFIG: Final = "sureenough.toml"
TABLE: Final = "TABLE"
"""The metavar of settings that are tables."""


def rare_option(*flags: str, **settings: Any) -> Any:
    """An option that most users leave alone."""
    return typer.Option(*flags, rich_help_panel="Rarely needed", **settings)


def file_option(help: str, **checks: Any) -> Any:
    """A setting that stands in sureenough.toml only, for what is chosen once: the command line does not have it."""
    return typer.Option(help=help, hidden=True, **checks)


STRATEGY_HELP: Final = "A strategy (`sureenough strategies` lists them), with options as in ddc:tau=0.99."
KIND_HELP: Final = "math, choice, text, exact, number, date, list, set or json, with options such as number:rel=1e-3"
GRADER_HELP: Final = "What grades mathematics: own, or math-verify as in many published results."

Kind = Annotated[str, typer.Option("--kind", help=f"Kind of answer: {KIND_HELP}.")]
PoolKind = Annotated[
    str | None, typer.Option("--kind", help=f"Kind of answer, by default that of the dataset or the pool: {KIND_HELP}.")
]
Strategies = Annotated[
    list[str] | None,
    typer.Option(
        "-s",
        "--strategy",
        help=f"{STRATEGY_HELP[:-1]}; repeat it, or give several in quotes. By default: {', '.join(COMPARED)}.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Sample up to four paths per dataset and model; estimate the rest.")
]
Jobs = Annotated[
    int | None, rare_option(help="Processes that replay; all cores by default if there is enough to do.", min=1)
]
Port = Annotated[int, typer.Option(help="Port to listen on; 0: any free one.", min=0, max=65535)]


def split_strategies(texts: Sequence[str] | None) -> list[str] | None:
    """The strategies of `-s "sc ac" -s ddc`; None without any, for the default ones."""
    return [name for text in texts for name in text.split()] if texts else None


class OptionGroup(NamedTuple):
    """Flags, and what makes an object of their values."""

    make: Callable[..., Any]
    flags: Mapping[str, tuple[Any, Any]]  # by name: annotation and default


def option_group(kind: Any, leave_out: Collection[str] = (), **defaults: Any) -> OptionGroup:
    """The fields of a dataclass that are annotated with options, with a verb's own defaults."""
    hints = get_type_hints(kind, include_extras=True)
    values = {field.name: field.default for field in fields(kind)} | defaults
    return OptionGroup(kind, {name: (hints[name], value) for name, value in values.items() if name not in leave_out})


def run_options(
    defaults: RunOptions | None,
    *,
    only: Collection[str] = (),
    notes: Mapping[str, str] | None = None,
    live: bool = True,
) -> OptionGroup:
    """The flags of a run's options, with help and limits from RunOptions.

    Args:
        defaults: values of the flags that are not given. None: the verb receives a dict, with None for these.
        only: the options of this verb; all of them by default.
        notes: what to add to an option's help.
        live: whether the verb has those that are for live runs.
    """
    flags, notes = {}, notes or {}
    hints = get_type_hints(RunOptions)
    for name, field in RunOptions.fields(live=live).items():
        if only and name not in only:
            continue
        about = field.metadata
        help = "; ".join([about["help"], *([notes[name]] if name in notes else [])])
        names = ["--" + name.replace("_", "-"), *([about["flag"]] if about["flag"] else [])]
        declare = rare_option if about["rare"] else typer.Option
        help = f"{help[0].upper()}{help[1:]}."
        option = declare(*names, help=help)
        default = getattr(defaults, name, None)
        flags[name] = (Annotated[hints[name] | None if default is None else hints[name], option], default)

    def make(**values: Any) -> RunOptions:
        return replace(defaults or RunOptions(), **{name: one for name, one in values.items() if one is not None})

    return OptionGroup(dict if defaults is None else make, flags)


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


@dataclass(frozen=True, slots=True)
class Prices:
    """What tokens cost."""

    price_in: Annotated[float | None, file_option("Price per million prompt tokens.", min=0, max=1e9)] = None
    price_out: Annotated[float | None, file_option("Price per million generated tokens.", min=0, max=1e9)] = None

    def cost(self, prompt: float, generated: float) -> float | None:
        """Money for these tokens, if a price was given."""
        if self.price_in is None and self.price_out is None:
            return None
        return (prompt * (self.price_in or 0.0) + generated * (self.price_out or 0.0)) / 1e6


RayAddress = Annotated[
    str | None,
    rare_option(
        "--ray",
        metavar="ADDRESS",
        help="Work on the nodes of a Ray cluster: HOST:PORT, or auto for that of RAY_ADDRESS or of this machine.",
    ),
]


def join(address: str | None, call: typer.Context) -> Any:
    """The cluster, until the command ends; None without an address."""
    if address is None:
        return None
    if call.params.get("dry_run"):
        raise UsageError("--dry-run samples on this machine: leave --ray out")
    words = sys.argv[1:]
    if printable_command(words) != shlex.join(words):
        raise UsageError(
            "Ray shows the command lines of its jobs to all its users, and this one has a URL with a password or a "
            "query: put the URL into SUREENOUGH_URL or a plan, or the key into SUREENOUGH_API_KEY"
        )
    from sureenough.ray.cluster import connected

    return call.with_resource(connected(address))


# sureenough.toml


LARGEST_CONFIG: Final = 1 << 20
"""Bytes of the file."""


def config_file() -> Path:
    """The file that SUREENOUGH_CONFIG names, else sureenough.toml in this folder."""
    return Path(os.environ.get("SUREENOUGH_CONFIG") or CONFIG)


def defaults(verb: Any, load_verbs: Callable[[], Mapping[str, Any]]) -> dict[str, Any] | None:
    """A verb's defaults from the file, if there is one. All verbs are loaded only to look up a name that it lacks."""
    file = config_file()
    if not os.environ.get("SUREENOUGH_CONFIG") and not file.exists():
        return None
    import tomllib

    try:
        with file.open("rb") as opened:
            content = opened.read(LARGEST_CONFIG + 1)
        if len(content) > LARGEST_CONFIG:
            raise UsageError(f"{file} is larger than {LARGEST_CONFIG:,} bytes, so it is not a file of options")
        table = tomllib.loads(content.decode())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"{file} cannot be used: {error}") from None
    own = table.pop(verb.name, {})
    if not isinstance(own, dict):
        raise UsageError(f"{file}: {verb.name} must be a table: [{verb.name}]")
    known = _options_by_name(verb)
    for name in own:
        if _identifier(name) not in known:
            names = sorted(_names(option)[0] for option in verb.params)
            raise UsageError(
                f"{file}: {verb.name} has no option {name!r}{hint(name, names)}; known: {', '.join(names)}"
            )
    if any(_identifier(name) not in known for name in table):
        _check_shared(table, load_verbs(), file)
    values = {_identifier(name): value for name, value in (table | own).items()}
    return {
        option.name: _checked(f"{file}: {name.replace('_', '-')}", option, values[name])
        for name, option in known.items()
        if name in values
    }


def _check_shared(table: dict[str, Any], verbs: Mapping[str, Any], file: Path) -> None:
    """Refuse names outside of the verbs' tables that no verb has."""
    known = {name for verb in verbs.values() for name in _options_by_name(verb)}
    words = [*verbs, *sorted(name.replace("_", "-") for name in known)]
    for name, value in table.items():
        if _identifier(name) not in known and not (name in verbs and isinstance(value, dict)):
            tables = f"tables are named {', '.join(verbs)}"
            raise UsageError(f"{file}: no verb has an option {name!r}{hint(name, words)}; {tables}")


def _checked(where: str, option: Any, value: Any) -> Any:
    """Refuse what the command line cannot say, and would read as something else: true as 1, a list as its text."""
    repeatable = getattr(option, "multiple", False) or option.nargs == -1
    if option.metavar == TABLE:
        fits, wanted = isinstance(value, dict), "a table"
    elif getattr(option, "is_flag", False):
        fits, wanted = isinstance(value, bool), "true or false"
    else:
        fits, wanted = not isinstance(value, (bool, dict) if repeatable else (bool, dict, list)), "one text or number"
    if not fits:
        raise UsageError(f"{where} must be {wanted}")
    return [value] if repeatable and not isinstance(value, list) else value


def _options_by_name(verb: Any) -> dict[str, Any]:
    """Options by their long flags (`json`) and by the names of their parameters (`as_json`)."""
    return {_identifier(name): option for option in verb.params for name in _names(option)}


def _names(option: Any) -> list[str]:
    """Its long flags without dashes, and the name of its parameter; messages use the first."""
    return [*(flag[2:] for flag in option.opts if flag.startswith("--")), option.name.replace("_", "-")]


def _identifier(name: str) -> str:
    return name.replace("-", "_")


def source_of(context: Any, name: str) -> str:
    """Where the value of an option is from: COMMANDLINE, ENVIRONMENT, DEFAULT_MAP (sureenough.toml) or DEFAULT."""
    source = context.get_parameter_source(name)
    return "" if source is None else str(source.name)


def is_typed(context: Any, name: str) -> bool:
    """Whether an option is from the command line, not from the environment or sureenough.toml."""
    return source_of(context, name) == "COMMANDLINE"
