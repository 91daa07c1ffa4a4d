"""Options that every verb with a server has, and the engine they make.

The environment and sureenough.toml give defaults; what is typed wins, then the environment.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from sureenough.engines.openai import OpenAI, Timeouts
from sureenough.errors import UsageError

CONFIG: Final = "sureenough.toml"
Verbs = Mapping[str, Any]
"""The commands of the command line, by name."""

Url = Annotated[str | None, typer.Option(help="The server, such as http://localhost:8000/v1.", envvar="SUREENOUGH_URL")]
Model = Annotated[
    str | None, typer.Option(help="The name under which the server offers it.", envvar="SUREENOUGH_MODEL")
]
Temperature = Annotated[float, typer.Option(help="Sampling temperature.", envvar="SUREENOUGH_TEMPERATURE")]
TopP = Annotated[float, typer.Option(help="Nucleus sampling.", envvar="SUREENOUGH_TOP_P")]
MaxPathTokens = Annotated[
    int | None, typer.Option(help="Tokens a path at most; the server's own limit, or 32,768, by default.")
]
Completions = Annotated[bool, typer.Option("--completions", help="Ask for plain completions instead of chat.")]
FirstToken = Annotated[float, typer.Option(help="Seconds to wait for a path's first token.")]
Stall = Annotated[float, typer.Option(help="Seconds to wait between tokens.")]
Metrics = Annotated[
    bool,
    typer.Option(
        "--metrics", help="Read the server's counters for tokens made after cancels; when it serves only you."
    ),
]
PriceIn = Annotated[float | None, typer.Option(help="Price of a million prompt tokens.", envvar="SUREENOUGH_PRICE_IN")]
PriceOut = Annotated[
    float | None, typer.Option(help="Price of a million generated tokens.", envvar="SUREENOUGH_PRICE_OUT")
]


def server(
    url: str | None,
    model: str | None,
    *,
    temperature: float,
    top_p: float,
    max_path_tokens: int | None,
    completions: bool,
    first_token: float,
    stall: float,
    metrics: bool = False,
) -> OpenAI:
    """The engine that these options describe."""
    if url is None or model is None:
        raise UsageError(
            "which server and model? Give --url http://localhost:8000/v1 and --model NAME, "
            f"or set SUREENOUGH_URL and SUREENOUGH_MODEL, or write url and model into {CONFIG}"
        )
    return OpenAI(
        url,
        model,
        temperature=temperature,
        top_p=top_p,
        max_path_tokens=max_path_tokens,
        chat=not completions,
        timeouts=Timeouts(first_token=first_token, stall=stall),
        metrics=metrics,
    )


def cost(prompt: int, made: int, price_in: float | None, price_out: float | None) -> float | None:
    """Money for these tokens, where a price was given."""
    if price_in is None and price_out is None:
        return None
    return (prompt * (price_in or 0.0) + made * (price_out or 0.0)) / 1e6


def refuse_bad_prices(*prices: float | None) -> None:
    """Prices are checked before anything is spent."""
    wrong = next((price for price in prices if price is not None and not 0 <= price < inf), None)
    if wrong is not None:
        raise UsageError(f"a price is {wrong}; it must be a number of at least 0, for a million tokens")


def defaults(context: typer.Context) -> None:
    """Read sureenough.toml of this folder, or the file that SUREENOUGH_CONFIG names: a table a verb, or for all."""
    named = os.environ.get("SUREENOUGH_CONFIG")
    file = Path(named or CONFIG)
    if named is None and not file.exists():
        return
    try:
        said = tomllib.loads(file.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{file} cannot be used: {error}") from None
    verbs: Verbs = getattr(context.command, "commands", {})
    context.default_map = {name: _for_verb(verb, said, verbs, file) for name, verb in verbs.items()}


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
