"""`sureenough ask`: one question, live. Exit codes: 0 answered, 1 no answer, 2 usage, 3 engine."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.live import Live

from sureenough.api import ask
from sureenough.cli import engine
from sureenough.cli.live_display import LiveDisplay, PathTexts, PlainDisplay
from sureenough.core.outcome import Outcome
from sureenough.drivers.observers import Observer
from sureenough.engines.local.engine import Local
from sureenough.errors import UsageError


def command(
    question: Annotated[str | None, typer.Argument(help="The question; - or nothing reads standard input.")] = None,
    url: engine.Url = None,
    model: engine.Model = None,
    file: Annotated[Path | None, typer.Option("-f", "--file", help="Read the question from a file.")] = None,
    strategy: Annotated[
        str, typer.Option("-s", "--strategy", help="Such as ddc:tau=0.99.", envvar="SUREENOUGH_STRATEGY")
    ] = "ddc",
    paths: Annotated[int, typer.Option(help="Budget of paths.", envvar="SUREENOUGH_PATHS")] = 64,
    parallel: Annotated[int, typer.Option(help="Paths that run at once.", envvar="SUREENOUGH_PARALLEL")] = 16,
    window: Annotated[int | None, typer.Option(help="Tokens a window; what the model suggests, else 2048.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the run.")] = 0,
    max_tokens: Annotated[int | None, typer.Option(help="Cap on the tokens of all paths.")] = None,
    deadline: Annotated[float | None, typer.Option(help="Seconds after which the vote so far is taken.")] = None,
    count: Annotated[str, typer.Option(help="Count votes in order of start, or of finish.")] = "start",
    planned: Annotated[bool, typer.Option("--planned", help="Run no more at once than the strategy needs.")] = False,
    kind: Annotated[str, typer.Option(help="Kind of answer: math or choice.")] = "math",
    template: engine.Template = None,
    temperature: engine.Temperature = 0.6,
    top_p: engine.TopP = 0.95,
    max_path_tokens: engine.MaxPathTokens = None,
    completions: engine.Completions = False,
    first_token: engine.FirstToken = 300.0,
    stall: engine.Stall = 60.0,
    metrics: engine.Metrics = False,
    context: engine.Context = None,
    threads: engine.Threads = None,
    price_in: engine.PriceIn = None,
    price_out: engine.PriceOut = None,
    show_path: Annotated[bool, typer.Option("--show-path", help="Print the text that the answer is from.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Ask a model and watch the vote settle. Ctrl-C takes the vote so far."""
    engine.refuse_bad_prices(price_in, price_out)
    asked = _question(question, file)
    server = engine.server(
        url,
        model,
        temperature=temperature,
        top_p=top_p,
        max_path_tokens=max_path_tokens,
        completions=completions,
        first_token=first_token,
        stall=stall,
        metrics=metrics,
        context=context,
        threads=threads,
    )
    engine.hint(server, asked)
    options: dict[str, Any] = {
        "paths": paths, "parallel": parallel, "window": window, "seed": seed, "max_tokens": max_tokens,
        "deadline": deadline, "count": count, "planned": planned, "kind": kind, "template": template,
    }  # fmt: skip
    texts = PathTexts()
    began = time.monotonic()
    with watching(paths, as_json) as observer:
        watchers = [*([observer] if observer else []), *([texts] if show_path or as_json else [])]
        out = ask(asked, server, strategy, observers=watchers, **options)
    money = engine.cost(out.tokens.prompt, out.tokens.total, price_in, price_out)
    found = texts.of(out.answer)
    if as_json:
        said = out.to_json() | {"seconds": round(time.monotonic() - began, 3), "cost": money}
        path = {"path": found[0], "text": found[1]} if found else {"path": None, "text": None}
        typer.echo(json.dumps(said | path, allow_nan=False))
    else:
        if show_path and found:
            typer.echo(f"--- path {found[0]}\n{found[1]}\n---")
        typer.echo("\n".join([out.explain(), *_bill(out, money, isinstance(server, Local))]))
    raise typer.Exit(0 if out.answer is not None else 1)


def _question(question: str | None, file: Path | None) -> str:
    if file is not None:
        if question is not None:
            raise UsageError("give the question or a file, not both")
        try:
            return file.read_text("utf-8")
        except UnicodeDecodeError:
            raise UsageError(f"{file} is no text in UTF-8") from None
        except OSError as error:
            raise UsageError(f"{file} cannot be read: {error.strerror or error}") from None
    if question is None or question == "-":
        if sys.stdin is None or (question is None and sys.stdin.isatty()):
            raise UsageError("what is the question? Give it as an argument, with --file, or on standard input")
        question = sys.stdin.read()
    if not question.isascii() and question != question.encode("utf-8", "replace").decode():
        raise UsageError("the question is no text in UTF-8")
    return question


@contextmanager
def watching(paths: int, as_json: bool) -> Iterator[Observer | None]:
    """The observer that suits where the output goes: a screen, lines, or nothing beside JSON."""
    console = Console()
    if as_json:
        yield None
    elif not console.is_terminal:
        yield PlainDisplay(typer.echo)
    else:
        with Live(console=console, auto_refresh=False, transient=True) as live:
            yield LiveDisplay(live, paths)


def _bill(out: Outcome, money: float | None, here: bool) -> list[str]:
    spent = out.tokens
    lines = []
    if spent.prompt:
        lines.append(f"Prompt: {spent.prompt:,} tokens in all answered requests, apart from the tokens above.")
        if spent.prompt * 5 > spent.total and not here:
            lines.append(
                "Hint: a server that reads the prompt anew for every path spends much on it here; "
                "turn its prefix cache on, where it has one."
            )
    if not spent.overrun_known:
        lines.append(
            "What the server still made after streams were closed is unknown, and not in these numbers (see --metrics)."
        )
    if money is not None:
        lines.append(f"Cost: {money:.6f} at the prices given.")
    return lines
