"""`sureenough ask`: one question, live. Exit codes: 0 an answer, 1 no answer, 2 bad usage, 3 the engine failed.

Standard output is for the answer, so that a script can use it; everything else goes to standard error.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

import typer

from sureenough import reasoner
from sureenough.api import ask
from sureenough.cli.engine import OTHER_MODELS, EngineOptions, Template
from sureenough.cli.live_display import display
from sureenough.cli.options import (
    CONFIG,
    STRATEGY_HELP,
    AsJson,
    Kind,
    Prices,
    option_group,
    rare_option,
    run_options,
    with_options,
)
from sureenough.cli.terminal import echo, echo_json, echo_wrapped
from sureenough.core.options import LIVE_DEFAULTS, RunOptions
from sureenough.core.outcome import Spent
from sureenough.drivers.observers import Observer, WinnerTranscript
from sureenough.drivers.run_log import LineReader, RunHead, RunLogWriter, save_log
from sureenough.engines.local.engine import Local
from sureenough.errors import EngineError, UsageError
from sureenough.pools.durable import check_writable, is_system_file
from sureenough.spec import resolve
from sureenough.strategies import DEFAULT_STRATEGY

NOT_UTF8: Final = "the question is not text in UTF-8: convert it, for example with `iconv -f latin1 -t utf-8`"


@with_options(server=option_group(EngineOptions), run=run_options(LIVE_DEFAULTS), prices=option_group(Prices))
def command(
    *,
    question: Annotated[
        str | None,
        typer.Argument(
            help="The question; - or nothing reads it from standard input. One that begins with a dash goes after --."
        ),
    ] = None,
    strategy: Annotated[str, typer.Option("-s", "--strategy", help=STRATEGY_HELP)] = DEFAULT_STRATEGY,
    run: RunOptions,
    kind: Kind = "math",
    template: Template = None,
    server: EngineOptions,
    learn: Annotated[
        Path | None, rare_option(help="Keep what is learned about the model's confidence in this file.")
    ] = None,
    prices: Prices,
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Print the path that the answer is from, and how the run went.")
    ] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print only the answer.")] = False,
    as_json: AsJson = False,
    log: Annotated[
        Path | None, rare_option(help="Write the run's log, with all texts, to this file; `view` shows it.")
    ] = None,
) -> None:
    """Ask a model and watch the vote. Ctrl-C ends the run with the vote so far."""
    resolve(strategy)  # refused before a model is loaded
    question = _question(question)
    engine = server.any_engine(quiet=quiet)
    if not quiet and isinstance(engine, Local) and engine.builtin and (hint := reasoner.hint(question)) is not None:
        echo(f"Hint: {hint} ({OTHER_MODELS}).", err=True)
    winner = WinnerTranscript()
    started = time.monotonic()
    head: RunHead = {"question": question, "model": server.model or "built-in", "strategy": strategy}
    with display(as_json or quiet) as readers, _logged(head, log, readers) as writer:
        observers: list[Observer] = [winner, writer]
        out = ask(
            question, engine, strategy, kind=kind, template=template, observers=observers, learn=learn, **asdict(run)
        )
        writer.end(out)
    cost = prices.cost(out.tokens.prompt + out.tokens.reread, out.tokens.total)
    shown = winner.of(out.answer)
    path, text = (shown.path, shown.text) if shown is not None else (None, None)
    if as_json:
        extra = {"seconds": round(time.monotonic() - started, 3), "cost": cost, "path": path, "text": text}
        echo_json(json.dumps(out.to_json() | extra, allow_nan=False))
    else:
        if verbose and text is not None:
            echo(f"--- path {path}\n{text}\n---", err=True)
        if verbose:
            echo_wrapped("\n".join([out.explain(), *_remarks(out.tokens)]), err=True)
        if not quiet:
            price = "" if cost is None else f", cost {cost:.6f}"
            echo_wrapped("\n".join([*([] if verbose else out.noted()), out.brief() + price]), err=True)
        if out.answer is not None:
            echo(out.answer)
    raise typer.Exit(0 if out.answer is not None else 1)


def _question(question: str | None) -> str:
    if question is None or question == "-":
        if sys.stdin is None or (question is None and sys.stdin.isatty()):
            raise UsageError("the question is missing; give it as an argument or on standard input")
        try:
            question = sys.stdin.read()
        except UnicodeDecodeError:  # whether bytes of other encodings are accepted depends on the locale
            raise UsageError(NOT_UTF8) from None
    if not question.isascii() and question != question.encode("utf-8", "replace").decode():
        raise UsageError(NOT_UTF8)
    if not question.strip():
        raise UsageError("the question is empty; give it as an argument or on standard input")
    return question


@contextmanager
def _logged(head: RunHead, file: Path | None, readers: tuple[LineReader, ...]) -> Iterator[RunLogWriter]:
    """The run's log, which is saved if a file is named."""
    if file is not None:
        _check_log(file)
    writer = RunLogWriter(head | {"begun": time.time()}, *readers)
    try:
        yield writer
    except EngineError as error:
        writer.end(None, {"message": str(error)})
        raise
    finally:
        if file is not None and (writer.view.result or writer.view.error):
            try:
                save_log(file, writer.with_texts())
            except OSError as error:  # as on a full disk, which must not take the answer with it
                echo(f"Warning: the log could not be written to {file}: {error.strerror}", err=True)


def _check_log(file: Path) -> None:
    """Refuse a log that cannot be written before anything is paid for."""
    if is_system_file(file) or (file.exists() and not file.is_file()):
        raise UsageError(f"{file} is not a place for a log; name a file to write, such as run.jsonl")
    try:
        check_writable(file)
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}; write the log elsewhere") from None


def _remarks(spent: Spent) -> Iterator[str]:
    """What the token counts leave out."""
    if not spent.prompt_known:
        yield "Prompt: an unknown number of tokens, as no path was read to its end; not included above."
    elif spent.prompt:
        yield f"Prompt: {spent.prompt:,} tokens in all requests of paths, not included in the tokens above."
    if spent.reread:
        cached = f", {spent.reread_cached:,} of them cached" if spent.reread_cached else ""
        yield f"Prompts of searches: {spent.reread:,} tokens{cached}, not included either."
    if not spent.overrun_known:
        yield (
            "Tokens that the server generated after streams were closed are unknown and not included "
            f"(metrics = true in {CONFIG} counts them)."
        )
