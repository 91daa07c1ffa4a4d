"""Defaults of every verb from sureenough.toml; the environment wins over it, and what is typed over both."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from sureenough.errors import UsageError

CONFIG: Final = "sureenough.toml"
Verbs = Mapping[str, Any]
"""The commands of the command line, by name."""


def defaults(load: Callable[[], Verbs]) -> dict[str, dict[str, Any]] | None:
    """What the verbs' defaults are, by sureenough.toml of this folder or by the file that SUREENOUGH_CONFIG names."""
    named = os.environ.get("SUREENOUGH_CONFIG")
    file = Path(named or CONFIG)
    if not named and not file.exists():
        return None
    try:
        said = tomllib.loads(file.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{file} cannot be used: {error}") from None
    verbs = load()
    return {name: _for_verb(verb, said, verbs, file) for name, verb in verbs.items()}


def _for_verb(verb: Any, said: dict[str, Any], verbs: Verbs, file: Path) -> dict[str, Any]:
    known = _options(verb)
    everybody = {name for one in verbs.values() for name in _options(one)}
    for_all = {name: value for name, value in said.items() if not (isinstance(value, dict) and name in verbs)}
    for name in for_all:
        if _plain(name) not in everybody:
            raise UsageError(f"{file}: no verb has an option {name!r}; tables are named {', '.join(verbs)}")
    own = said.get(str(verb.name), {})
    for name in own:
        if _plain(name) not in known:
            names = sorted({_shown(option) for option in verb.params})
            raise UsageError(f"{file}: {verb.name} has no option {name!r}; known: {', '.join(names)}")
    typed = {_plain(name): value for name, value in (for_all | own).items()}
    return {option.name: _value(option, typed[name]) for name, option in known.items() if name in typed}


def _options(verb: Any) -> dict[str, Any]:
    """Options by the names that are typed, and by those of their places in the code."""
    return {name: option for option in verb.params for name in (option.name, _plain(_shown(option)))}


def _shown(option: Any) -> str:
    """As it is typed, without its dashes."""
    long = [word for word in getattr(option, "opts", ()) if word.startswith("--")]
    return (long[0] if long else str(option.name)).lstrip("-")


def _plain(name: str) -> str:
    return name.replace("-", "_")


def _value(option: Any, value: Any) -> Any:
    """One word is a list of one where several may be typed."""
    several = getattr(option, "multiple", False) or getattr(option, "nargs", 1) == -1
    return [value] if several and not isinstance(value, list) else value
