"""`sureenough completion`: the script that completes verbs and options in a shell."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer
from typer.completion import get_completion_script  # type: ignore[attr-defined]


class Shell(StrEnum):
    """The shells that can complete."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"
    POWERSHELL = "powershell"


def command(shell: Annotated[Shell, typer.Argument(help="The shell.", show_default=False)]) -> None:
    """Print a shell's completion script, such as for `source <(sureenough completion bash)` in ~/.bashrc."""
    script = get_completion_script(prog_name="sureenough", complete_var="_SUREENOUGH_COMPLETE", shell=shell.value)
    typer.echo(script)
