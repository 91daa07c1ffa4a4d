"""The command line: one file a verb. Bad input ends with a message and exit code 2, never a traceback."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer
from rich.console import Console

from sureenough.cli import (
    answers,
    ask,
    bench,
    browse,
    demo,
    doctor,
    engine,
    explain,
    record,
    replay,
    report,
    serve,
    serve_vllm,
    strategies,
)  # fmt: skip
from sureenough.errors import EngineError, SureEnoughError
from sureenough.version import __version__

app = typer.Typer(
    name="sureenough",
    help="A reasoning model's best answer for a fraction of the tokens.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("ask")(ask.command)
app.command("demo")(demo.command)
app.command("doctor")(doctor.command)
app.command("record")(record.command)
app.command("replay")(replay.command)
app.command("serve")(serve.command)
app.command("view")(browse.command)
app.command("bench")(bench.command)
app.command("report")(report.command)
app.command("answers", context_settings={"ignore_unknown_options": True})(answers.command)  # -1 is an answer
app.command("explain")(explain.command)
app.command("strategies")(strategies.command)
app.command("serve-vllm", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(
    serve_vllm.command
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"sureenough {__version__}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Options that stand before the verb."""
    engine.defaults(context)


def main() -> None:
    """The console script."""
    try:
        app()
    except SureEnoughError as error:
        Console(stderr=True, highlight=False).print(f"sureenough: {error}", markup=False, soft_wrap=True)
        sys.exit(3 if isinstance(error, EngineError) else 2)
    except BrokenPipeError:
        # The reader went away (`| head`): nothing is left to say, and Python must not complain on exit.
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        sys.stderr.write(f"sureenough: cannot write the result: {error.strerror or error}\n")
        sys.stderr.flush()
        os._exit(2)  # a normal exit would try to write once more, and end in a traceback
