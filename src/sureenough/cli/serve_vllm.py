"""`sureenough serve-vllm MODEL ...`: vLLM's own server with the monitor inside; all other options go to vLLM."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from sureenough.cli.terminal import echo
from sureenough.engines.watch.protocol import LOGITS_PROCESSOR, MIDDLEWARE, SCHEDULER, SOCKET_ENV, server_environment
from sureenough.errors import UsageError
from sureenough.vllm import check_version


def command(
    context: typer.Context,
    model: Annotated[str, typer.Argument(help="Name or folder of a model, as for vLLM.")],
    longest_window: Annotated[int, typer.Option(min=1, help="Tokens of the longest window of a watched path.")] = 2048,
    show: Annotated[
        bool, typer.Option("--show", help="Print the command with its environment; start nothing.")
    ] = False,
) -> None:
    """Serve a model with vLLM and watch paths inside it; all other options go to vLLM."""
    check_version()
    # Only vLLM's command starts several API servers; builds without metadata have none, so else this is the module.
    several = any(word.partition("=")[0] in ("--api-server-count", "-asc") for word in context.args)
    started = ["cli.main", "serve"] if several else ["openai.api_server", "--model"]
    words = [sys.executable, "-m", f"vllm.entrypoints.{started[0]}", started[1], model]
    words += ["--logits-processors", LOGITS_PROCESSOR, "--middleware", MIDDLEWARE, "--scheduler-cls", SCHEDULER]
    words += ["--enable-prompt-tokens-details", *context.args]  # replies say how much of a prompt was cached
    if show:
        given = os.environ.get(SOCKET_ENV)
        socket_path = shlex.quote(given) if given else "$(mktemp -d)/records.sock"
        variables = server_environment(socket_path, longest_window)
        echo(" ".join([*(f"{name}={value}" for name, value in variables.items()), shlex.join(words)]))
        return
    if sys.platform == "win32":  # execvpe would return to the shell, and vLLM needs Unix sockets
        raise UsageError("vLLM does not run on Windows; start this in WSL, or give other verbs the --url of a server")
    with tempfile.TemporaryDirectory(prefix="sureenough-") as folder:  # it outlives this program
        socket_path = os.environ.get(SOCKET_ENV) or str(Path(folder) / "records.sock")
        try:
            os.execvpe(words[0], words, os.environ | server_environment(socket_path, longest_window))
        except OSError as error:
            raise UsageError(f"vLLM could not be started: {error}") from None
