"""The reference pages of the site, generated from the code."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import typer

import sureenough as se
from sureenough.answers.json_values import LONGEST_SCHEMA, MOST_PATTERNS, MOST_VALUES
from sureenough.answers.reading import LONGEST_PATTERN, PATTERN_MEMORY
from sureenough.cli import GROUPS, VERBS, app
from sureenough.cli.options import LARGEST_CONFIG
from sureenough.core.options import LIVE_DEFAULTS, RunOptions
from sureenough.drivers.run_log import LINE_BYTES
from sureenough.engines.openai.client import LARGEST_ERROR, Timeouts
from sureenough.engines.openai.errors import LONGEST_TEXT, LONGEST_WAIT
from sureenough.engines.openai.http import LARGEST_BODY, LARGEST_HEADER, TURN_BYTES
from sureenough.engines.openai.reply import LONGEST_PATH, TOKEN_BYTES
from sureenough.engines.openai.sse import LARGEST_EVENT
from sureenough.engines.watch.protocol import MOST_TOKENS
from sureenough.plugins import LONGEST_SPEC
from sureenough.pools import schema as pool
from sureenough.pools.footer import FREE_VALUES, LARGEST_FOOTER, VALUES_PER_BYTE
from sureenough.pools.learner import MOST_STATES
from sureenough.server.app import KEEP_ALIVE, LONGEST_HEAD
from sureenough.server.consensus import LOGGED_QUESTION, ServerState
from sureenough.server.kept_runs import LISTED
from sureenough.server.requests import DEEPEST_BODY, LONGEST_MODEL
from sureenough.server.routes import UPLOAD_SECONDS, Routes, document
from sureenough.server.settings import ServerLimits, ServerSettings
from sureenough.spec import options
from sureenough.strategies import DEFAULT_STRATEGY, STRATEGIES

EXIT_CODES: Final = (
    ("0", "done; `ask` has an answer, `doctor` found no failed check"),
    ("1", "`ask`: no path gave an answer; `answers --extract`: the text has none; `doctor`: a check failed"),
    ("2", "wrong usage, a file that cannot be read or written; the message says what to do"),
    ("3", "the engine or the server failed; `record` and `bench` continue if the same command is given again"),
    ("130", "Ctrl-C; `ask` instead ends with the vote so far"),
)
STATUS_CODES: Final = (
    (
        "400",
        "an invalid field, option or strategy; above a limit; `missing_logprobs`: `sc`, `ac` and `esc` do without",
    ),
    ("401", "a wrong key"),
    ("403, 421", "a request from another site's page; an unknown host name"),
    ("404", "a model that is not offered, here or upstream"),
    ("408, 413, 415", "the body did not arrive in 60 s; it is too large; it is not JSON"),
    ("429", "too many requests at once, with `Retry-After`"),
    ("501", "the page of an endpoint of several processes, which cannot start runs"),
    ("502, 503, 504", "the upstream failed, cannot be reached, or took too long; 503 also while the server shuts down"),
)
MEASURES: Final = (
    (
        "posterior",
        "`ddc`, `ac`",
        "every path as one vote: the probability that the leader holds more than half (`ac`: beats the second)",
    ),
    ("weighted_posterior", "`ddc`", "the same by the paper's weights; sampling stops above tau"),
    ("leader_share", "`deepconf-low`, `deepconf-high`", "the leader's share of the vote weight; sampling stops at tau"),
    (
        "expected_gain",
        "`sure`",
        "vote share that the rest of the budget would gain on average; sampling stops at delta or below",
    ),
)


def table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


def commands() -> str:
    """Every verb, from its own --help."""
    from typer.testing import CliRunner

    os.environ.update(COLUMNS="100", NO_COLOR="1")
    rows = ((group, f"[`{verb}`](#{verb})", about) for group, verbs in GROUPS.items() for verb, about in verbs.items())
    parts = [
        "# Commands",
        table(("to", "verb", ""), rows),
        "Below, each verb as its own `--help` describes it. [Strategies and options](strategies.md) lists what "
        "`--strategy` takes; [sureenough.toml](../serving.md#configuration) keeps options that repeat.",
        "## Exit codes",
        table(("code", "meaning"), iter(EXIT_CODES)),
    ]
    for verb, summary in VERBS.items():
        shown = CliRunner().invoke(app, [verb, "--help"], prog_name="sureenough")
        parts += [f"## {verb}", summary, f"```text\n{shown.stdout.strip()}\n```"]
    return "\n\n".join(parts) + "\n"


def strategies() -> str:
    """Every strategy with its options and defaults."""
    parts = ["# Strategies and options", f"`{DEFAULT_STRATEGY}` is the default. [How to choose](../strategies.md)"]
    for name, strategy in STRATEGIES.items():
        known = options(strategy).values()
        rows = ((f"`{one.name}`", f"`{one.read(strategy)}`", one.help) for one in known)
        shown = table(("option", "default", "meaning"), rows) if known else "It has no options."
        parts += [f"## {name}", f"{strategy.summary[0].upper()}{strategy.summary[1:]}.", shown]
    return "\n\n".join(parts) + "\n"


def openapi() -> dict[str, Any]:
    """The document that a server sends as /openapi.json."""
    return document(Routes(ServerState(ServerSettings())).endpoints)


def http() -> str:
    """Every endpoint and every object of a request, from the OpenAPI document."""
    found = openapi()
    parts = [
        "# HTTP API",
        found["info"]["description"],
        "[Serving](../serving.md) has examples. A server has this as `/openapi.json`, the site [a copy](openapi.json).",
    ]
    rows = (
        (f"`{method.upper()} {path}`", operation["summary"], ", ".join(f"`{code}`" for code in operation["responses"]))
        for path, operations in found["paths"].items()
        for method, operation in operations.items()
    )
    parts += [
        table(("endpoint", "", "status codes"), rows),
        "Errors have OpenAI's shape. If the upstream fails after a path has ended, the response is the vote so far.",
        table(("status", "when"), iter(STATUS_CODES)),
        "What the stop rule measured last has one field per meaning in `sureenough`; the others are null:",
        table(("field", "strategies", "meaning"), ((f"`{name}`", *rest) for name, *rest in MEASURES)),
    ]
    for name, schema in found["components"]["schemas"].items():
        parts += [f"## {name}", schema.get("description", "")]
        required = schema.get("required", ())
        parts.append(
            table(
                ("field", "type", ""),
                (
                    (f"`{field}`", kind(value), "required" if field in required else value.get("description", ""))
                    for field, value in schema.get("properties", {}).items()
                ),
            )
        )
    return "\n\n".join(part for part in parts if part) + "\n"


def kind(schema: dict[str, Any]) -> str:
    """A JSON schema in a few words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(kind(one) for one in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"array of {kind(schema.get('items', {}))}"
    limits = [f"{sign} {schema[key]}" for key, sign in (("minimum", "≥"), ("maximum", "≤")) if key in schema]
    return " ".join([str(schema.get("type", "any")), *limits])


def python() -> str:
    """Every name that the package exports, from its docstring and annotations."""
    rows = (
        (f"`{name}`", f"`{getattr(LIVE_DEFAULTS, name)}`", f"`{field.default}`", field.metadata["help"])
        for name, field in RunOptions.fields().items()
    )
    parts = [
        "# Python API",
        "Everything here is exported by the package: `import sureenough as se`.",
        "## Options of a run",
        "Keyword arguments of `ask`, `aask`, `replay` and `compare`, which has no deadline.",
        table(("option", "live", "replay", "meaning"), rows),
    ]
    groups: dict[str, list[str]] = {"Functions": [], "Classes": [], "Errors": []}
    for name in sorted(se.__all__):
        thing = getattr(se, name)
        if inspect.isclass(thing):
            groups["Errors" if issubclass(thing, Exception) else "Classes"].append(name)
        elif inspect.isfunction(thing):
            groups["Functions"].append(name)
    for heading, names in groups.items():
        parts.append(f"## {heading}")
        parts += [f"::: {getattr(se, name).__module__}.{name}" for name in names]
    return "\n\n".join(parts) + "\n"


TIMES: Final = Timeouts()
LIMITS: Final[dict[str, tuple[tuple[str, object], ...]]] = {
    "a request to `serve`": (
        ("bytes of a head", LONGEST_HEAD),
        ("seconds for a body to arrive", UPLOAD_SECONDS),
        ("levels of JSON", DEEPEST_BODY),
        ("characters of a model's name with its strategy", LONGEST_MODEL),
        ("characters of a strategy's spec", LONGEST_SPEC),
        ("characters of names and texts in a JSON Schema", LONGEST_SCHEMA),
        ("names and values in a JSON Schema", MOST_VALUES),
        ("regular expressions in a JSON Schema", MOST_PATTERNS),
        ("characters of a regular expression", LONGEST_PATTERN),
        ("bytes of memory of a compiled regular expression", PATTERN_MEMORY),
        ("seconds of a connection between requests", KEEP_ALIVE),
    ),
    "what `serve` keeps": (
        ("runs that ended and that pages may still show", "as `requests`"),
        ("kept runs in the list", LISTED),
        ("states of what was learned; that of the fewest questions makes room", MOST_STATES),
        ("characters of a question in the log, on one escaped line", LOGGED_QUESTION),
    ),
    "an upstream": (
        ("bytes of one event of a stream", LARGEST_EVENT),
        ("bytes that are parsed in one turn of the event loop, of all streams of a server", TURN_BYTES),
        ("tokens of a path by a server's own count; larger counts are ignored", MOST_TOKENS),
        ("tokens of a path without a limit of its own", LONGEST_PATH),
        ("bytes of a path's text per token of its limit", TOKEN_BYTES),
        ("bytes of an error that are read", LARGEST_ERROR),
        ("characters of an error that are shown", LONGEST_TEXT),
        ("bytes of any other response that is read whole", LARGEST_BODY),
        ("bytes of a line of a head", LARGEST_HEADER),
        ("seconds for a connection", TIMES.connect),
        ("seconds of the longest pause that it may ask for", LONGEST_WAIT),
    ),
    "files": (
        ("bytes of a pool's footer", LARGEST_FOOTER),
        ("values in any pool, however small", FREE_VALUES),
        ("further values per byte of a pool", VALUES_PER_BYTE),
        ("bytes of a line of a run log", LINE_BYTES),
        ("bytes of `sureenough.toml`", LARGEST_CONFIG),
    ),
}
"""Limits that cannot be set, by what they hold for."""
TIMED: Final = (
    ("an upstream", "seconds for a path's first token", TIMES.first_token, "`first-token` of every verb that samples"),
    ("an upstream", "seconds between two tokens", TIMES.stall, "`stall` of every verb that samples"),
)


def limits() -> str:
    """Everything that the other side can make large or slow."""
    settable = [("`serve`", one.metadata["help"], one.default, f"`{one.name.replace('_', '-')}`, `[serve.limits]`")
                for one in fields(ServerLimits)]  # fmt: skip
    fixed = [(whose, what, value, "fixed") for whose, rows in LIMITS.items() for what, value in rows]
    rows = ((whose, what, number(value), where) for whose, what, value, where in [*settable, *TIMED, *fixed])
    return (
        "# Limits\n\nWhat clients, servers and files can make large or slow has a limit. Tables such as "
        "`[serve.limits]` belong to [sureenough.toml](serving.md#configuration).\n\n"
        f"{table(('of', 'limit', 'default', 'set it with'), rows)}\n"
        "`python scripts/docs_reference.py` writes this page from the code.\n"
    )


def number(value: Any) -> str:
    """A limit as people read it."""
    return str(value).lower() if isinstance(value, bool | str) else f"{int(value):,}"


def files() -> str:
    """Pools as their code defines them, and where the other formats are described."""
    rows = [
        *((f"`{name}`", f"`{column}`", "required") for name, column in pool.REQUIRED.items()),
        *((f"`{name}`", f"`{column}`", "optional") for name, column in pool.OPTIONAL.items()),
    ]
    return f"""# File formats

## Pools
A pool is a Parquet file with one row per path. `peak` and `conf` have one value per token; `finish` is `stop` or
`length`; rows of a question stand together.

{table(("column", "Arrow type", ""), iter(rows))}
The file's metadata has a key `{pool.KEY.decode()}` with a JSON object (schema {pool.VERSION}):
{", ".join(f"`{name}`" for name in pool.PoolInfo.__slots__ if name != "more")}.

## Questions
JSON lines, CSV or Parquet with a column `question`, and optionally `id`, `gold`, `kind` and `level`
([which strategy for my data](../start.md#which-strategy-for-my-data)).

## Run folders and journals
[Benchmarks](../bench.md#the-run-folder) describes the folder of a run; a journal holds paths that are being recorded,
one JSON line with a checksum each.

## Run log
One JSON line per change of a run ([the run log](../serving.md#the-run-log)).

## Plans and sureenough.toml
[Plans](../bench.md#plans), and [sureenough.toml](../serving.md#configuration).
"""


def environment() -> str:
    """Every variable that sets an option, and the options of every verb in sureenough.toml."""
    group: Any = typer.main.get_command(app)
    used: dict[str, dict[str, list[str]]] = {}
    keys = []
    settings: dict[tuple[str, str, str], list[str]] = {}
    for verb in VERBS:
        for option in group.load(verb).params:
            if not option.opts:
                settings.setdefault((option.name.replace("_", "-"), option.help, str(option.default)), []).append(verb)
            flag = next((word for word in getattr(option, "opts", ()) if word.startswith("--")), "")
            if flag and option.envvar:
                used.setdefault(str(option.envvar), {}).setdefault(flag, []).append(verb)
        names = [word for option in group.load(verb).params for word in option.opts if word.startswith("--")]
        keys.append((f"`[{verb}]`", " ".join(f"`{name[2:]}`" for name in names)))
    rows = ((f"`{name}`", "; ".join(f"`{flag}` of {', '.join(verbs)}" for flag, verbs in flags.items()))
            for name, flags in sorted(used.items()))  # fmt: skip
    only = (
        (f"`{name}`", ", ".join(verbs), about, default) for (name, about, default), verbs in sorted(settings.items())
    )
    return f"""# Environment and sureenough.toml

[Configuration](../serving.md#configuration) explains the order of precedence, and lists variables that are not options.

## Settings that only the file has
{table(("setting", "verbs", "meaning", "default"), only)}

## Variables
{table(("variable", "option"), rows)}
## Keys of sureenough.toml
Names outside of tables apply to every verb that has such an option.

{table(("table", "keys"), iter(keys))}"""


PAGES: Final[dict[str, Callable[[], str]]] = {
    "reference/commands.md": commands,
    "reference/strategies.md": strategies,
    "reference/http.md": http,
    "reference/openapi.json": lambda: json.dumps(openapi(), indent=1),
    "reference/python.md": python,
    "reference/files.md": files,
    "reference/environment.md": environment,
}


LIMITS_PAGE: Final = Path(__file__).parent.parent / "docs" / "limits.md"

if __name__ == "__main__":
    LIMITS_PAGE.write_text(limits(), "utf-8")
