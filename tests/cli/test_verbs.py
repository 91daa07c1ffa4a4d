"""The command line as a whole: every verb is there, and nobody waits for what another verb needs."""

from __future__ import annotations

import subprocess
import sys
from typing import Any, cast

import pytest
import typer.main

from sureenough.cli import SETTINGS, VERBS, app
from sureenough.cli.config import defaults

LOADED = """
import sys
sys.argv = ["sureenough", *{words!r}]
from sureenough.cli import main
try:
    main()
except SystemExit:
    pass
print(*[name for name in {heavy!r} if name in sys.modules], file=sys.stderr)
"""
HEAVY = ("numpy", "scipy.special", "pyarrow", "aiohttp", "matplotlib", "starlette", "torch", "math_verify", "sympy")


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("words", "needed"),
    [
        (["--version"], set()),
        (["strategies"], {"numpy"}),
        (["explain", "--help"], {"numpy", "pyarrow"}),
        (["ask", "--help"], {"numpy", "pyarrow"}),
        (["bench", "--help"], {"numpy", "pyarrow"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_verb_loads_no_more_than_it_needs(words: list[str], needed: set[str]) -> None:
    done = run("-c", LOADED.format(words=words, heavy=HEAVY))
    assert set(done.stderr.split()) <= needed


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_is_there_and_says_what_it_does(name: str) -> None:
    group = cast(Any, typer.main.get_command(app))
    verb = group.get_command(None, name)
    assert verb.name == name
    assert len(verb.help) > 20
    assert verb.context_settings.items() >= SETTINGS.get(name, {}).items()


def test_a_verb_that_is_not_there_and_the_one_that_was_meant() -> None:
    done = run("-m", "sureenough", "strategis")
    assert done.returncode == 2
    assert "No such command 'strategis'. Did you mean 'strategies'?" in " ".join(done.stderr.split())


def test_without_a_file_of_defaults_no_verb_is_loaded(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUREENOUGH_CONFIG", "")

    def load() -> dict[str, Any]:
        raise AssertionError("verbs were loaded")

    assert defaults(load) is None
