"""`sureenough serve-vllm MODEL ...`: vLLM's own server with the monitor inside; further options are vLLM's."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Final

import typer

from sureenough.engines.vllm.protocol import LONGEST, SOCKET
from sureenough.engines.vllm.versions import installed, refuse_untried
from sureenough.errors import UsageError

PROCESSOR: Final = "sureenough.engines.vllm.server.logits_processor:WatchProcessor"
ROUTE: Final = "sureenough.engines.vllm.server.middleware.RecordsMiddleware"


def command(
    context: typer.Context,
    model: Annotated[str, typer.Argument(help="Name or folder, as vLLM takes it.")],
    longest_window: Annotated[
        int, typer.Option(min=1, help="Tokens of the longest window that requests may ask for.")
    ] = 2048,
    show: Annotated[bool, typer.Option("--show", help="Print the command and the environment, start nothing.")] = False,
) -> None:
    """Serve a model with vLLM and watch paths inside it; all other options are handed to vLLM."""
    refuse_untried(installed())
    words = [*server(), "--model", model, "--logits-processors", PROCESSOR, "--middleware", ROUTE, *context.args]
    setting = {LONGEST: str(longest_window), "VLLM_USE_V2_MODEL_RUNNER": "0"}
    if show:
        place = os.environ.get(SOCKET, "$(mktemp -d)/desk")
        typer.echo(" ".join([f"{SOCKET}={place}", *(f"{name}={value}" for name, value in setting.items()), *words]))
        return
    # The folder outlives this program, which becomes the server.
    setting[SOCKET] = os.environ.get(SOCKET) or str(Path(tempfile.mkdtemp(prefix="sureenough-")) / "desk")
    try:
        os.execvpe(words[0], words, os.environ | setting)
    except OSError as error:
        raise UsageError(f"vLLM could not be started: {error}") from None


def server() -> list[str]:
    """How vLLM's server is started in this environment: as a module, which builds without metadata can do too."""
    return [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
