"""The command line: one file per verb. Bad input ends with a message and exit code 2, never a traceback."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from io import TextIOWrapper
from keyword import iskeyword
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from sureenough import __version__
from sureenough.cli.terminal import echo
from sureenough.errors import EngineError, SureEnoughError, UsageError

GROUPS: Final[dict[str, dict[str, str]]] = {
    "Use": {
        "ask": "Ask a model and watch the vote.",
        "serve": "Serve consensus to OpenAI clients.",
        "doctor": "Check that a server returns what strategies need.",
    },
    "Measure": {
        "record": "Sample many questions into a pool.",
        "import": "Make pools of other programs' logs.",
        "replay": "Compare strategies on recorded paths, or explain one question.",
        "view": "Look at recorded runs and reports in a browser.",
    },
    "Research": {
        "bench": "Run an experiment of the paper.",
        "answers": "Compare two answers, or extract one from a text.",
        "strategies": "List the strategies, their options, and plug-ins.",
        "demo": "See what strategies save: one minute, on this machine.",
    },
}
"""Every verb in a line; its `command` is in the file of `module_name`."""
VERBS: Final = {name: about for group in GROUPS.values() for name, about in group.items()}
SETTINGS: Final[dict[str, dict[str, Any]]] = {
    "answers": {"ignore_unknown_options": True},  # -1 is an answer
}


def module_name(verb: str) -> str:
    """The file of a verb."""
    name = verb.replace("-", "_")
    return f"{name}_" if iskeyword(name) else name


class Verb(TyperCommand):
    """A verb: defaults from sureenough.toml, and errors of the library that name its options."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        for option in self.params:
            if getattr(option, "hidden", False):  # a setting of sureenough.toml: the command line does not have it
                option.opts, option.secondary_opts = [], []

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """List arguments, then options, those that are rarely needed last."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for option in self.get_params(ctx):
            record = option.get_help_record(ctx)
            if record is not None:
                default = "Arguments" if option.param_type_name == "argument" else "Options"
                groups.setdefault(getattr(option, "rich_help_panel", None) or default, []).append(record)
        for name in sorted(groups):  # Arguments, Options, Rarely needed
            with formatter.section(name):
                formatter.write_dl(groups[name])

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Name the settings that only sureenough.toml has."""
        names = [str(option.name).replace("_", "-") for option in self.params if not option.opts]
        if names:
            formatter.write_paragraph()
            formatter.write_text(f"Only in sureenough.toml (docs/serving.md): {', '.join(names)}.")

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Read sureenough.toml; one that cannot be used stops everything but --help."""
        from sureenough.cli.options import config_file, defaults, source_of

        if parent is not None and not extra.get("resilient_parsing"):  # completion needs no values
            try:
                extra["default_map"] = defaults(self, lambda: {name: parent.command.load(name) for name in VERBS})
            except UsageError as error:
                if not {"-h", "--help"} & set(args):
                    raise
                echo(f"sureenough: {error}", err=True)
        try:
            return super().make_context(info_name, args, parent, **extra)
        except typer.BadParameter as error:
            option: Any = error.param
            if error.ctx and option and source_of(error.ctx, option.name) == "DEFAULT_MAP":
                error.message += f" (in {config_file()})"
                if not option.opts:
                    error.param_hint = repr(option.name.replace("_", "-"))
            raise

    def invoke(self, ctx: Any) -> Any:
        """Run it; an error of the library about an argument names the option that sets it."""
        try:
            return super().invoke(ctx)
        except UsageError as error:
            flags = {option.name: flag for option in self.params for flag in option.opts if flag.startswith("--")}
            if error.argument not in flags:
                raise
            raise UsageError(error.naming(flags[error.argument])) from error


class Verbs(TyperGroup):
    """Imports a verb's file when the verb is called: a verb does not wait for what others import."""

    names_only = False

    def list_commands(self, ctx: Any) -> list[str]:
        return list(VERBS)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Complete the name of a verb without importing any."""
        self.names_only = True
        try:
            return super().shell_complete(ctx, incomplete)
        finally:
            self.names_only = False

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the verbs without importing them."""
        width = max(map(len, VERBS))
        for group, verbs in GROUPS.items():
            with formatter.section(group):
                formatter.write_dl([(f"{name:{width}}", about) for name, about in verbs.items()])

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if self.names_only:
            return Verb(cmd_name, help=VERBS[cmd_name])
        if cmd_name in VERBS:
            return self.load(cmd_name)
        for name in VERBS:  # "Did you mean" looks at those that are loaded
            self.load(name)
        return None

    def load(self, name: str) -> Any:
        """A verb, imported when it is first needed."""
        if name not in self.commands:
            single = typer.Typer(add_completion=False, rich_markup_mode=None)
            function = import_module(f"sureenough.cli.{module_name(name)}").command
            single.command(name, cls=Verb, context_settings=SETTINGS.get(name))(function)
            self.commands[name] = typer.main.get_command(single)
        return self.commands[name]


app = typer.Typer(
    name="sureenough",
    cls=Verbs,
    help="A reasoning model's best answer for a fraction of the tokens.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help loads faster, and is wider
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        echo(f"sureenough {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Options before the verb."""


def _allow_any_text() -> None:
    """Print `?` for what the encoding of a stream lacks, such as that of a redirected stream on Windows."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.encoding.lower() not in ("utf-8", "utf8"):
            stream.reconfigure(errors="replace")


def main() -> None:
    _allow_any_text()
    try:
        app()
    except SureEnoughError as error:
        sampled = error.tokens if isinstance(error, EngineError) else 0
        echo(f"sureenough: {error}" + (f" (its run had sampled {sampled:,} tokens)" if sampled else ""), err=True)
        sys.exit(3 if isinstance(error, EngineError) else 2)
    except BrokenPipeError:
        # The reader has closed the pipe (`| head`); Python must not complain about it on exit.
        sys.stderr.close()
        sys.exit(0)
    except (ConnectionError, TimeoutError) as error:  # our own engines raise none of these
        name = type(error).__name__
        echo(f"sureenough: the engine failed: {name}: {error}. An EngineError would cost it only the path", err=True)
        sys.exit(3)
    except OSError as error:
        place = "the result" if error.filename is None else os.fsdecode(error.filename)
        echo(f"sureenough: cannot write {place}: {error.strerror or error}", err=True)
        os._exit(2)  # a normal exit would try to write once more, and end in a traceback
