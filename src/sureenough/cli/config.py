"""Defaults of the options of verbs from sureenough.toml.

The environment takes precedence over sureenough.toml, and the command line over both.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from sureenough.errors import UsageError
from sureenough.plugins import hint

CONFIG: Final = "sureenough.toml"
TABLE: Final = "TABLE"
"""The metavar of settings that are tables."""
LARGEST: Final = 1 << 20
"""Bytes of that file."""


def defaults(verb: Any, load_verbs: Callable[[], Mapping[str, Any]]) -> dict[str, Any] | None:
    """A verb's defaults from sureenough.toml in this folder, or from the file that SUREENOUGH_CONFIG names."""
    file = config_file()
    if not os.environ.get("SUREENOUGH_CONFIG") and not file.exists():
        return None
    import tomllib

    try:
        with file.open("rb") as opened:
            content = opened.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise UsageError(f"{file} has more than {LARGEST:,} bytes: it is not a file of options; name another one")
        table = tomllib.loads(content.decode("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"{file} cannot be used: {error}") from None
    own = table.pop(verb.name, {})
    known = options_by_name(verb)
    if not isinstance(own, dict):
        raise UsageError(f"{file}: {verb.name} must be a table: [{verb.name}]")
    for name in own:
        if _identifier(name) not in known:
            names = sorted({_flag(option) for option in verb.params})
            shown = f"{name!r}{hint(name, names)}; known: {', '.join(names)}"
            raise UsageError(f"{file}: {verb.name} has no option {shown}")
    if any(_identifier(name) not in known for name in table):
        _check_shared(table, load_verbs(), file)
    values = {_identifier(name): value for name, value in (table | own).items()}
    return {
        option.name: _checked(f"{file}: {name.replace('_', '-')}", option, values[name])
        for name, option in known.items()
        if name in values
    }


def config_file() -> Path:
    """The file that SUREENOUGH_CONFIG names, else sureenough.toml in this folder."""
    return Path(os.environ.get("SUREENOUGH_CONFIG") or CONFIG)


def _checked(where: str, option: Any, value: Any) -> Any:
    """Refuse what the command line cannot say, and would read as something else: true as 1, a list as its text."""
    repeatable = getattr(option, "multiple", False) or option.nargs == -1
    if option.metavar == TABLE:
        if not isinstance(value, dict):
            raise UsageError(f"{where} must be a table")
    elif getattr(option, "is_flag", False):
        if not isinstance(value, bool):
            raise UsageError(f"{where} must be true or false")
    elif isinstance(value, bool):
        as_option = f", as --{_flag(option)} does" if option.opts else ""
        raise UsageError(f"{where} takes a value{as_option}, not true or false")
    elif isinstance(value, dict) or (isinstance(value, list) and not repeatable):
        raise UsageError(f"{where} takes one value, not a {'table' if isinstance(value, dict) else 'list'}")
    return [value] if repeatable and not isinstance(value, list) else value


def _check_shared(table: dict[str, Any], verbs: Mapping[str, Any], file: Path) -> None:
    """Refuse names outside of the verbs' tables that no verb has."""
    known = {name for verb in verbs.values() for name in options_by_name(verb)}
    words = [*verbs, *sorted(name.replace("_", "-") for name in known)]
    for name, value in table.items():
        if _identifier(name) not in known and not (name in verbs and isinstance(value, dict)):
            tables = f"tables are named {', '.join(verbs)}"
            raise UsageError(f"{file}: no verb has an option {name!r}{hint(name, words)}; {tables}")


def options_by_name(verb: Any) -> dict[str, Any]:
    """Options by their flags (`json`, and aliases), and by the names of their parameters (`as_json`)."""
    return {_identifier(name): option for option in verb.params for name in (option.name, *_flags(option))}


def _flags(option: Any) -> list[str]:
    """The long flags, without their dashes."""
    return [word.lstrip("-") for word in option.opts if word.startswith("--")]


def _flag(option: Any) -> str:
    """The flag that messages name."""
    return (_flags(option) or [str(option.name).replace("_", "-")])[0]


def _identifier(name: str) -> str:
    return name.replace("-", "_")


def is_typed(context: Any, name: str) -> bool:
    """Whether an option is from the command line, not from the environment or sureenough.toml."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
