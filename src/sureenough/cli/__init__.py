"""The command line: one file a verb. Bad input ends with a message and exit code 2, never a traceback."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from typer.core import TyperGroup

from sureenough.cli.config import defaults
from sureenough.errors import EngineError, SureEnoughError
from sureenough.version import __version__

VERBS: Final = {
    "ask": "ask",
    "demo": "demo",
    "doctor": "doctor",
    "record": "record",
    "replay": "replay",
    "serve": "serve",
    "view": "view",
    "bench": "bench",
    "report": "report",
    "answers": "answers",
    "explain": "explain",
    "strategies": "strategies",
    "serve-vllm": "serve_vllm",
}
"""Every verb, and the file in this folder that has its `command`."""
SETTINGS: Final[dict[str, dict[str, Any]]] = {
    "answers": {"ignore_unknown_options": True},  # -1 is an answer
    "serve-vllm": {"allow_extra_args": True, "ignore_unknown_options": True},
}


class Verbs(TyperGroup):
    """Imports a verb's file when the verb is called: nobody waits for what another verb needs."""

    def list_commands(self, ctx: Any) -> list[str]:
        """All verbs."""
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """One verb, or None."""
        if cmd_name not in VERBS:
            for name in VERBS:  # the one that was meant is looked for among those that are loaded
                self.get_command(ctx, name)
        elif cmd_name not in self.commands:
            alone = typer.Typer(add_completion=False)
            verb = import_module(f"sureenough.cli.{VERBS[cmd_name]}").command
            alone.command(cmd_name, context_settings=SETTINGS.get(cmd_name))(verb)
            self.commands[cmd_name] = typer.main.get_command(alone)
        return self.commands.get(cmd_name)


app = typer.Typer(
    name="sureenough",
    cls=Verbs,
    help="A reasoning model's best answer for a fraction of the tokens.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
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
    verbs = context.command
    assert isinstance(verbs, Verbs)
    context.default_map = defaults(lambda: {name: verbs.get_command(context, name) for name in VERBS})


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
