"""The command line as a whole: its verbs, what they load, options that they share, completion, and text of others."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
import typer.main
from typer.core import TyperCommand

from sureenough.cli import SETTINGS, VERBS, app, main
from sureenough.cli.options import defaults
from sureenough.core.options import RunOptions
from sureenough.errors import EngineError, UsageError
from tests.processes import sureenough

LOADED = """
import sys
sys.argv = ["sureenough", *{words!r}]
from sureenough.cli import main
try:
    main()
except SystemExit as ended:
    assert not ended.code
print(*[name for name in {heavy!r} if name in sys.modules], file=sys.stderr)
"""
NUMERIC = ("numpy", "scipy.special", "pyarrow", "matplotlib", "torch", "math_verify", "sympy")
HEAVY = (*NUMERIC, "aiohttp", "starlette", "rich", "importlib.metadata")
FOR_RUNS = {"numpy", "pyarrow", "rich", "importlib.metadata"}


def fresh(*words: str, **settings: Any) -> tuple[str, set[str]]:
    """What a command prints in a new interpreter, and which heavy modules it has loaded."""
    command = [sys.executable, "-c", LOADED.format(words=words, heavy=HEAVY)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, **settings)
    return done.stdout, set(done.stderr.split())


@pytest.mark.parametrize(
    ("words", "needed"),
    [
        (["--version"], set()),
        (["--help"], set()),
        (["strategies"], {"numpy", "importlib.metadata"}),
        (["replay", "--help"], FOR_RUNS),
        (["ask", "--help"], FOR_RUNS),
        (["bench", "--help"], FOR_RUNS),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_verb_loads_no_more_than_it_needs(words: list[str], needed: set[str]) -> None:
    assert fresh(*words)[1] <= needed


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_exists_and_has_a_help_text(name: str) -> None:
    command = verb(name)
    assert command.name == name
    assert len(command.help) > 20
    assert command.context_settings.items() >= SETTINGS.get(name, {}).items()
    text = sureenough(name, "--help").stdout
    assert text.startswith("Usage: ")
    assert "<bool>" not in text


def test_an_unknown_verb_and_a_suggestion() -> None:
    done = sureenough("strategis")
    assert done.returncode == 2
    assert "No such command 'strategis'. Did you mean 'strategies'?" in " ".join(done.stderr.split())


def unexpected() -> dict[str, Any]:
    raise AssertionError("other verbs were loaded")


def verb(name: str) -> Any:
    return cast(Any, typer.main.get_command(app)).get_command(None, name)


def test_defaults_of_a_verb_load_no_other_verb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "defaults.toml").write_text("paths = 9\n[ask]\njson = true\nmax-tokens = 5\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUREENOUGH_CONFIG", "")
    assert defaults(verb("ask"), unexpected) is None
    monkeypatch.setenv("SUREENOUGH_CONFIG", "defaults.toml")
    assert defaults(verb("ask"), unexpected) == {"paths": 9, "as_json": True, "max_tokens": 5}
    with pytest.raises(AssertionError, match="other verbs were loaded"):
        defaults(verb("strategies"), unexpected)


def test_a_file_of_defaults_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUREENOUGH_CONFIG", "/dev/zero")
    with pytest.raises(UsageError, match="/dev/zero is larger than 1,048,576 bytes"):
        defaults(verb("ask"), unexpected)


@pytest.mark.parametrize("text", ["= 3", "speed = 9", "[ask]\nspeed = 9", "\xff"])
def test_help_works_beside_a_bad_file_of_defaults(text: str, tmp_path: Path) -> None:
    (tmp_path / "sureenough.toml").write_bytes(text.encode("latin-1"))
    for words in (["--help"], ["ask", "--help"], ["ask", "-h"]):
        done = sureenough(*words, cwd=tmp_path)
        assert (done.returncode, "Usage:" in done.stdout) == (0, True)
        assert ("sureenough.toml" in done.stderr) == ("ask" in words)


@pytest.mark.parametrize("name", ["ask", "record", "replay", "bench"])
def test_run_options_derive_from_one_definition(name: str) -> None:
    flags = {option.name: option for option in verb(name).params}
    shared = [option for option in RunOptions.fields() if option in flags]
    if name in ("ask", "replay"):
        assert set(RunOptions.fields()) - set(shared) <= {"deadline"}
    for option in shared:
        if (name, option) != ("record", "window"):  # there it is what the pool suggests
            assert flags[option].help.lower().startswith(RunOptions.fields()[option].metadata["help"].lower())


@pytest.mark.parametrize(("name", "most"), [("bench", 25), ("serve", 20), ("ask", 20), ("record", 20)])
def test_options_are_few_and_rare_ones_come_last(name: str, most: int) -> None:
    text = sureenough(name, "--help").stdout
    assert len(re.findall(r"^  (?:-., )?--(?!help)[a-z-]+", text, re.MULTILINE)) <= most
    assert text.index("\nOptions:\n") < text.index("\nRarely needed:\n")


def test_variables_are_documented() -> None:
    configuration = Path("docs/serving.md").read_text("utf-8").partition("\n## Configuration\n")[2]
    rows = [line for line in configuration.splitlines() if line.startswith("| ")]
    source = "".join(file.read_text("utf-8") for file in Path("src").rglob("*.py"))
    variables = {"URL", "MODEL", "API_KEY", "SERVE_KEYS", "CONFIG"}
    assert set(re.findall(r"SUREENOUGH_(?!VLLM)([A-Z_]+)", source)) == variables
    assert all(any(f"`SUREENOUGH_{name}`" in row for row in rows) for name in variables)


@pytest.mark.parametrize("name", ["ask", "serve"])
def test_settings_of_the_file_are_no_options(name: str) -> None:
    for words in (["--top-p", "0.9"], ["--first-token", "5"], ["--limits", "3"]):
        done = sureenough(name, *words)
        assert (done.returncode, f"No such option: {words[0]}" in done.stderr) == (2, True)
    assert "Only in sureenough.toml (docs/serving.md): " in sureenough(name, "--help").stdout


@pytest.mark.parametrize(
    ("message", "argument", "expected"),
    [
        ("window is 0; it must be 1", "window", "--window is 0; it must be 1"),
        (
            "requests use paths=64 by default; fewer paths do",
            "paths",
            "requests use --paths 64 by default; fewer paths do",
        ),
        ("as_json is 3", "as_json", "--json is 3"),
        ("shorter ones (max_path_tokens), or", "max_path_tokens", "shorter ones (--max-path-tokens), or"),
        ("give max_path_tokens=5 or less", "max_path_tokens", "give --max-path-tokens 5 or less"),
        ("top_p is 5", "top_p", "top_p is 5"),
        ("question is 5", "question", "question is 5"),
        ("paths is 0", None, "paths is 0"),
    ],
)
def test_errors_of_the_library_name_options(
    message: str, argument: str | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(context: object) -> None:
        raise pickle.loads(pickle.dumps(UsageError(message, argument=argument)))  # as from another process

    monkeypatch.setattr(TyperCommand, "invoke", lambda self, context: fails(context))
    with pytest.raises(UsageError) as caught:
        verb("ask").invoke(None)
    assert str(caught.value) == expected


class _Foreign(EngineError):
    """Of another package, which does not call our initialiser."""

    def __init__(self) -> None:
        Exception.__init__(self, "out of breath")


@pytest.mark.parametrize(("tokens", "more"), [(0, ""), (1234, " (its run had sampled 1,234 tokens)")])
def test_the_error_of_an_engine_says_what_its_run_had_sampled(
    tokens: int, more: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error = _Foreign()
    if tokens:
        error.tokens = tokens

    def fails() -> None:
        raise error

    monkeypatch.setattr("sureenough.cli.app", fails)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 3
    assert capsys.readouterr().err == f"sureenough: out of breath{more}\n"


def test_completion_imports_no_verb_and_works_beside_a_bad_file_of_defaults(tmp_path: Path) -> None:
    (tmp_path / "sureenough.toml").write_text("speed = 9")
    for line, completions in (
        ("sureenough re", {"record", "replay"}),
        ("sureenough ask --max", {"--max-tokens", "--max-path-tokens"}),
    ):
        words = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" ")), "_SUREENOUGH_COMPLETE": "complete_bash"}
        text, heavy = fresh(cwd=tmp_path, env=os.environ | words)
        assert set(text.split()) == completions
        assert heavy <= {"importlib.metadata"} or "ask" in line
