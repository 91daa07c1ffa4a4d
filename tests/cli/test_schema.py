"""JSON schemas for editors: they have the names that the verbs have, and refuse what the verbs refuse."""

from __future__ import annotations

import json
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import typer

from sureenough.bench.plan import plan_keys, read_plan
from sureenough.cli import VERBS, app
from sureenough.cli.config import options_by_name
from sureenough.errors import UsageError
from tests.processes import sureenough

DOCS = Path(__file__).parents[2] / "docs"


@cache
def schema(file: str) -> dict[str, Any]:
    done = sureenough("schema", file)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def accepts(file: str, text: str) -> bool:
    return bool(jsonschema_rs.validator_for(schema(file)).is_valid(tomllib.loads(text)))


def documented(page: str) -> str:
    block = re.search(r"```toml\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    assert block is not None
    return block[1]


@pytest.mark.parametrize(("file", "page"), [("config", "configuration.md"), ("plan", "bench.md")])
def test_the_documented_file_is_accepted(file: str, page: str) -> None:
    assert accepts(file, documented(page))


def test_the_schema_of_sureenough_toml_has_every_option_of_every_verb() -> None:
    group: Any = typer.main.get_command(app)
    tables = schema("config")["properties"]
    for verb in VERBS:
        known = set(options_by_name(group.load(verb)))
        assert {name.replace("-", "_") for name in tables[verb]["properties"]} == known
        assert known <= tables.keys(), "outside of tables, too"


def test_the_schema_of_plans_has_every_key() -> None:
    assert {name.replace("-", "_") for name in schema("plan")["properties"]} == {*plan_keys(), "limit"}


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        ("port = 8080", True),
        ("port = 99999", False),
        ("speed = 9", False),
        ("[ask]\npaths = 32\nmax-path-tokens = 8192\njson = true", True),
        ("[ask]\npaths = 'many'", False),
        ("[ask]\nport = 8080", False),
        ("[replay]\nstrategy = ['sc', 'ac']", True),
        ("[replay]\nstrategy = 'sc'", True),
    ],
)
def test_values_of_sureenough_toml(text: str, accepted: bool) -> None:
    assert accepts("config", text) is accepted


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        ("experiment = 'main'\nlive-repeats = 2\nlimit = 3\ndatasets = ['math500']", True),
        ("datasets = [{dataset = 'mine.csv', columns = {question = 'text'}}]", True),
        ("datasets = [{data = 'mine.csv'}]", False),
        ("engines = [{model = 'm', url = 'http://localhost:8000/v1'}]", True),
        ("engines = [{model = 'm', speed = 9}]", False),
        ("paths = 0", False),
        ("count = 'finish'", True),
        ("count = 'never'", False),
        ("options = {}", False),
        ("repeats = 'five'", False),
    ],
)
def test_plans_are_accepted_by_the_schema_if_they_can_be_read(text: str, accepted: bool, tmp_path: Path) -> None:
    assert accepts("plan", text) is accepted
    file = tmp_path / "plan.toml"
    file.write_text(text)
    if accepted:
        read_plan(file, {})
    else:
        with pytest.raises(UsageError):
            read_plan(file, {})


def test_an_unknown_file_is_refused_with_the_known_ones() -> None:
    done = sureenough("schema", "pool")
    assert done.returncode == 2
    assert "config" in done.stderr
    assert "plan" in done.stderr
