"""Options that every verb with a server has, and the engine they make."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import Annotated, Any

import typer

from sureenough import reasoner
from sureenough.cli.config import CONFIG
from sureenough.engines.local import hub
from sureenough.engines.local.engine import Local
from sureenough.engines.openai.client import OpenAI, Timeouts
from sureenough.errors import UsageError

Url = Annotated[
    str | None,
    typer.Option(help="The server, such as http://localhost:8000/v1; none: this machine.", envvar="SUREENOUGH_URL"),
]
Model = Annotated[
    str | None,
    typer.Option(
        help="The name under which the server offers it. Without a server: FILE.gguf, hf:OWNER/NAME[:FILE], or "
        "nothing for the built-in model.",
        envvar="SUREENOUGH_MODEL",
    ),
]
Context = Annotated[int | None, typer.Option(help="Without a server: tokens of context for all paths together.", min=1)]
Threads = Annotated[int | None, typer.Option(help="Without a server: threads; all cores by default.", min=1)]
Temperature = Annotated[float, typer.Option(help="Sampling temperature.", envvar="SUREENOUGH_TEMPERATURE")]
TopP = Annotated[float, typer.Option(help="Nucleus sampling.", envvar="SUREENOUGH_TOP_P")]
MaxPathTokens = Annotated[
    int | None, typer.Option(help="Tokens a path at most; the server's own limit, or 32,768, by default.")
]
Template = Annotated[
    str | None,
    typer.Option(help="The prompt, with a place for the {question}; by default it asks to reason and box."),
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
    context: int | None = None,
    threads: int | None = None,
    window: int | None = None,
) -> OpenAI | Local:
    """The engine that these options describe: a server's model, or one on this machine."""
    common: dict[str, Any] = {
        "temperature": temperature, "top_p": top_p, "max_path_tokens": max_path_tokens, "chat": not completions,
        "timeouts": Timeouts(first_token=first_token, stall=stall), "window": window,
    }  # fmt: skip
    if url is None:
        return _local(model, context=context, threads=threads, **common)
    if model is None:
        raise UsageError(
            f"which model of {url}? Give --model NAME, set SUREENOUGH_MODEL, or write model into {CONFIG}; "
            "without --url the built-in model is asked"
        )
    if context is not None or threads is not None:
        raise UsageError("--context and --threads are for models on this machine, without --url; a server has its own")
    return OpenAI(url, model, metrics=metrics, **common)


def _local(model: str | None, **options: Any) -> Local:
    """A model on this machine; the built-in one is announced."""
    if model is None:
        typer.echo(reasoner.greeting(), err=True)
    elif not model.startswith(hub.PREFIX) and not model.endswith(".gguf") and not Path(model).exists():
        raise UsageError(
            f"where is {model}? A server's model needs --url http://localhost:8000/v1 (or SUREENOUGH_URL, or url in "
            f"{CONFIG}); a model on this machine is a FILE.gguf or hf:OWNER/NAME"
        )
    engine = Local(model, **options)
    engine.prepare()  # here, where Ctrl-C reaches a download
    return engine


def hint(engine: OpenAI | Local, question: str) -> None:
    """One honest line where the built-in model is asked what it has never learnt."""
    strange = reasoner.hint(question) if isinstance(engine, Local) and engine.builtin else None
    if strange is not None:
        typer.echo(f"Hint: {strange}.", err=True)


def client(engine: OpenAI | Local) -> OpenAI:
    """The engine as a client of a server: its settings as they go over the wire."""
    return engine if isinstance(engine, OpenAI) else engine.wire()


def kind(engine: OpenAI | Local) -> str:
    """What a pool says of where its paths are from."""
    return "openai" if isinstance(engine, OpenAI) else "local"


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
