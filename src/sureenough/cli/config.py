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
    known = {option.name for option in verb.params}
    several = {option.name for option in verb.params if getattr(option, "multiple", False)}  # one word is a list of one
    everybody = {option.name for one in verbs.values() for option in one.params}
    found = {}
    for name, value in said.items():
        key = name.replace("-", "_")
        if isinstance(value, dict) and name in verbs:
            continue
        if key not in everybody:
            raise UsageError(f"{file}: no verb has an option {name!r}; tables are named {', '.join(verbs)}")
        if key in known:
            found[key] = [value] if isinstance(value, str) and key in several else value
    for name, value in said.get(str(verb.name), {}).items():
        if name.replace("-", "_") not in known:
            raise UsageError(f"{file}: {verb.name} has no option {name!r}; known: {', '.join(sorted(map(str, known)))}")
        key = name.replace("-", "_")
        found[key] = [value] if isinstance(value, str) and key in several else value
    return found
