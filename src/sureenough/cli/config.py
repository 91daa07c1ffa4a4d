"""Defaults of the options of verbs from sureenough.toml.

The environment takes precedence over sureenough.toml, and the command line over both.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from sureenough.errors import UsageError

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
            raise UsageError(f"{file}: {verb.name} has no option {_hinted(name, names)}; known: {', '.join(names)}")
    if any(_identifier(name) not in known for name in table):
        _check_shared(table, load_verbs(), file)
    values = {_identifier(name): value for name, value in (table | own).items()}
    given = {name: option for name, option in known.items() if name in values}
    for name, option in given.items():
        _check_value(file, name.replace("_", "-"), option, values[name])
    return {option.name: _as_list(option, values[name]) for name, option in given.items()}


def config_file() -> Path:
    """The file that SUREENOUGH_CONFIG names, else sureenough.toml in this folder."""
    return Path(os.environ.get("SUREENOUGH_CONFIG") or CONFIG)


def _check_value(file: Path, name: str, option: Any, value: Any) -> None:
    """Refuse what the command line cannot say, and would read as something else: true as 1, a list as its text."""
    if getattr(option, "metavar", None) == TABLE:
        if not isinstance(value, dict):
            raise UsageError(f"{file}: {name} must be a table")
    elif getattr(option, "is_flag", False):
        if not isinstance(value, bool):
            raise UsageError(f"{file}: {name} must be true or false")
    elif isinstance(value, bool):
        as_option = f", as --{_flag(option)} does" if _flags(option) else ""
        raise UsageError(f"{file}: {name} takes a value{as_option}, not true or false")
    elif isinstance(value, dict) or (isinstance(value, list) and not _is_repeatable(option)):
        raise UsageError(f"{file}: {name} takes one value, not a {'table' if isinstance(value, dict) else 'list'}")


def _check_shared(table: dict[str, Any], verbs: Mapping[str, Any], file: Path) -> None:
    """Refuse names outside of the verbs' tables that no verb has."""
    known = {name for verb in verbs.values() for name in options_by_name(verb)}
    words = [*verbs, *sorted(name.replace("_", "-") for name in known)]
    for name, value in table.items():
        if _identifier(name) not in known and not (name in verbs and isinstance(value, dict)):
            raise UsageError(
                f"{file}: no verb has an option {_hinted(name, words)}; tables are named {', '.join(verbs)}"
            )


def _hinted(name: str, known: list[str]) -> str:
    from sureenough.plugins import hint

    return f"{name!r}{hint(name, known)}"


def options_by_name(verb: Any) -> dict[str, Any]:
    """Options by their flags (`json`, and aliases), and by the names of their parameters (`as_json`)."""
    return {_identifier(name): option for option in verb.params for name in (option.name, *_flags(option))}


def _flags(option: Any) -> list[str]:
    """The long flags, without their dashes."""
    return [word.lstrip("-") for word in getattr(option, "opts", ()) if word.startswith("--")]


def _flag(option: Any) -> str:
    """The flag that messages name."""
    return (_flags(option) or [str(option.name).replace("_", "-")])[0]


def _identifier(name: str) -> str:
    return name.replace("-", "_")


def _as_list(option: Any, value: Any) -> Any:
    """A single value is a list of one if the option can be repeated."""
    return [value] if _is_repeatable(option) and not isinstance(value, list) else value


def _is_repeatable(option: Any) -> bool:
    return bool(getattr(option, "multiple", False) or getattr(option, "nargs", 1) == -1)


def is_typed(context: Any, name: str) -> bool:
    """Whether an option is from the command line, not from the environment or sureenough.toml."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
