"""`sureenough schema`: JSON schemas of sureenough.toml and of plans, derived from the definitions that read them."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

import msgspec
import typer

from sureenough.cli.config import options_by_name
from sureenough.core.options import RunOptions

DIALECT: Final = "http://json-schema.org/draft-07/schema#"
"""What editors' TOML plug-ins read."""
Schema = dict[str, Any]


class File(StrEnum):
    """The files that have a schema."""

    CONFIG = "config"
    PLAN = "plan"


def command(
    file: Annotated[
        File, typer.Argument(help="config: sureenough.toml. plan: a plan of `sureenough bench`.", show_default=False)
    ],
) -> None:
    """Print the JSON schema of a TOML file, with which editors complete and check it."""
    from sureenough.cli import VERBS, app

    group: Any = typer.main.get_command(app)
    verbs = {name: group.load(name) for name in VERBS}
    schema = config_schema(verbs) if file is File.CONFIG else plan_schema(verbs["bench"])
    typer.echo(json.dumps(schema, indent=2, ensure_ascii=False))


def config_schema(verbs: Mapping[str, Any]) -> Schema:
    """Every option of every verb, and a table for each verb."""
    tables = {name: _table(_verb_options(verb)) for name, verb in verbs.items()}
    shared: dict[str, list[Schema]] = {}
    for table in tables.values():
        for name, value in table["properties"].items():
            schemas = shared.setdefault(name, [])
            if value not in schemas:
                schemas.append(value)
    properties = {name: found[0] if len(found) == 1 else {"anyOf": found} for name, found in sorted(shared.items())}
    for name, table in tables.items():  # `answers` and `report` may be options, too
        properties[name] = {"anyOf": [properties[name], table]} if name in properties else table
    return {"$schema": DIALECT, "title": "sureenough.toml"} | _table(properties)


def _verb_options(verb: Any) -> dict[str, Schema]:
    """The options of a verb under every name that sureenough.toml accepts."""
    parameters = inspect.signature(verb.callback, eval_str=True).parameters
    return {
        spelling: _option(option, parameters[option.name].annotation)
        for name, option in options_by_name(verb).items()
        for spelling in {name, name.replace("_", "-")}
    }


def _option(option: Any, annotation: Any) -> Schema:
    """The values of an option, with its help text and limits."""
    info = None
    if get_origin(annotation) is Annotated:
        annotation, info = get_args(annotation)[:2]
    schema = _values(annotation)
    for bound, keyword in (("min", "minimum"), ("max", "maximum")):
        if getattr(info, bound, None) is not None:
            schema = schema | {keyword: getattr(info, bound)}
    if getattr(option, "multiple", False) or option.nargs == -1:
        schema = {"anyOf": [schema["items"], schema]} if "items" in schema else schema
    return schema | ({"description": option.help} if getattr(option, "help", None) else {})


def _values(annotation: Any) -> Schema:
    """A type as JSON schema: paths are strings, and what may be None is left out of the file instead."""
    if get_origin(annotation) in (Union, UnionType):
        kinds = [one for one in get_args(annotation) if one is not type(None)]
        return _values(kinds[0]) if len(kinds) == 1 else {"anyOf": [_values(one) for one in kinds]}
    if get_origin(annotation) is list:
        return {"type": "array", "items": _values(get_args(annotation)[0])}
    if annotation is Path:
        return {"type": "string"}
    schema: Schema = msgspec.json.schema(annotation)
    return schema["$defs"][annotation.__name__] if "$ref" in schema else schema


def plan_schema(bench: Any) -> Schema:
    """The keys of a plan, described by the options of `bench` that have the same names."""
    from sureenough.bench.plan import BenchPlan, DatasetChoice, EngineChoice, plan_keys
    from sureenough.bench.settings import ReplaySettings

    parts = (BenchPlan, DatasetChoice, EngineChoice, RunOptions, ReplaySettings)
    _, types = msgspec.json.schema_components(parts, ref_template="#/definitions/{name}")
    values = {**types["BenchPlan"]["properties"], **types["ReplaySettings"]["properties"], "limit": {"type": "integer"}}
    for name, field in RunOptions.fields().items():
        values[name] = types["RunOptions"]["properties"][name] | field.metadata["schema"]
        values[name]["description"] = field.metadata["help"]
    values["datasets"]["items"] = {"anyOf": [{"type": "string"}, values["datasets"]["items"]]}
    help_texts = {option.name: option.help for option in bench.params if getattr(option, "help", None)}
    keys = {}
    for name in (*plan_keys(), "limit"):
        described = {"description": help_texts[name]} if name in help_texts else {}
        for spelling in {name, name.replace("_", "-")}:
            keys[spelling] = _without_null(described | values[name])
    tables = {name: _without_null(types[name]) for name in ("DatasetChoice", "EngineChoice")}
    for table in tables.values():
        table["additionalProperties"] = False
    return {"$schema": DIALECT, "title": "A plan of sureenough bench", "definitions": tables} | _table(keys)


def _table(properties: Mapping[str, Schema]) -> Schema:
    return {"type": "object", "additionalProperties": False, "properties": dict(sorted(properties.items()))}


def _without_null(schema: Any) -> Any:
    """TOML has no null: a key is left out instead, so neither values nor defaults are null."""
    if isinstance(schema, list):
        return [_without_null(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {name: _without_null(value) for name, value in schema.items() if (name, value) != ("default", None)}
    choices = [one for one in kept.get("anyOf", []) if one != {"type": "null"}]
    if len(choices) == 1:
        kept.pop("anyOf")
        return choices[0] | kept
    return kept | ({"anyOf": choices} if choices else {})
