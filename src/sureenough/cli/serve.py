"""`sureenough serve`: an OpenAI-compatible endpoint that answers with the consensus, and a page to watch it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated

import typer

from sureenough.cli import engine
from sureenough.engines.openai.address import parse_url, without_secrets
from sureenough.errors import UsageError

if TYPE_CHECKING:
    from sureenough.server.settings import ServerSettings


def command(
    upstream: Annotated[
        str | None,
        typer.Option(help="The server to ask, up to and with /v1; none: the built-in model.", envvar="SUREENOUGH_URL"),
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option(help="Offer only this model; may be repeated. Without an upstream: FILE.gguf.")
    ] = None,
    strategy: Annotated[str, typer.Option("-s", "--strategy", help="Where a request names none.")] = "ddc",
    paths: Annotated[int, typer.Option(help="Budget of paths, where a request names none.", min=1)] = 64,
    parallel: Annotated[int, typer.Option(help="Paths of a request that run at once.", min=1)] = 16,
    window: Annotated[int | None, typer.Option(help="Tokens a window; 2048 by default.", min=1)] = None,
    temperature: engine.Temperature = 0.6,
    top_p: engine.TopP = 0.95,
    template: engine.Template = None,
    host: Annotated[
        str, typer.Option(help="Where to listen. Beyond this machine only with keys.", envvar="SUREENOUGH_HOST")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0: any free one.", min=0, max=65535, envvar="SUREENOUGH_PORT")] = 8000,
    allow_host: Annotated[list[str] | None, typer.Option(help="A further name of this server; repeatable.")] = None,
    key_file: Annotated[Path | None, typer.Option(help="Keys that clients need, one a line.")] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Listen beyond this machine without keys.")] = False,
    max_paths: Annotated[int, typer.Option(help="Paths of a request at most.", min=1)] = 512,
    max_parallel: Annotated[int, typer.Option(help="Paths of a request at once at most.", min=1)] = 64,
    max_tokens: Annotated[int, typer.Option(help="Tokens of all paths of a request at most.", min=1)] = 2_000_000,
    max_path_tokens: Annotated[int, typer.Option(help="Tokens of a path at most.", min=1)] = 32_768,
    max_seconds: Annotated[float, typer.Option(help="Seconds of a request at most.", min=0.1)] = 600.0,
    max_body: Annotated[int, typer.Option(help="Bytes of a request at most.", min=1)] = 1 << 20,
    max_requests: Annotated[int, typer.Option(help="Requests at once; more get 429.", min=1)] = 64,
    keep_runs: Annotated[Path | None, typer.Option(help="Keep every run in this folder, texts and all.")] = None,
    grace: Annotated[float, typer.Option(help="Seconds that running requests get at the end.", min=1)] = 20.0,
    log_requests: Annotated[bool, typer.Option("--log-requests", help="Write questions to the log.")] = False,
    first_token: engine.FirstToken = 300.0,
    stall: engine.Stall = 60.0,
) -> None:
    """Serve consensus to any OpenAI client, and a page to watch it think."""
    installed()
    from sureenough.server.settings import ServerLimits, ServerSettings, read_keys

    limits = ServerLimits(
        paths=max_paths, parallel=max_parallel, tokens=max_tokens, path_tokens=max_path_tokens, seconds=max_seconds,
        body=max_body, requests=max_requests,
    )  # fmt: skip
    settings = ServerSettings(
        upstream=upstream, models=tuple(model or ()), strategy=strategy, paths=paths, parallel=parallel, window=window,
        temperature=temperature, top_p=top_p, template=template, host=host, port=port, hosts=tuple(allow_host or ()),
        keys=read_keys(key_file), insecure=insecure, limits=limits, keep_runs=keep_runs, grace=grace,
        log_requests=log_requests, first_token=first_token, stall=stall,
    )  # fmt: skip
    shown = upstream and without_secrets(parse_url(upstream))
    run(settings, f"asking {shown}" if upstream else "asking the model on this machine")


def _keep_in(folder: Path | None) -> None:
    """Refuse, before anything runs, a folder in which no run could be kept."""
    if folder is None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UsageError(f"no run could be kept in {folder}: {error.strerror or error}") from None


def run(settings: ServerSettings, says: str, address: str = "/", told: Callable[[str], object] | None = None) -> None:
    """Serve until told to stop; says where, once it can be reached."""
    from sureenough.server.lifespan import listen, serve_until_stopped

    level = os.environ.get("SUREENOUGH_LOG", "").upper() or "INFO"
    if level not in logging.getLevelNamesMapping():
        raise UsageError(f"SUREENOUGH_LOG is {level}; it is one of DEBUG, INFO, WARNING, ERROR, CRITICAL")
    _keep_in(None if settings.showing else settings.keep_runs)
    logging.basicConfig(level=level, format="%(asctime)s %(message)s")
    listening = listen(settings)
    port = listening.getsockname()[1]
    shown = f"[{settings.host}]" if ":" in settings.host else settings.host
    url = f"http://{shown}:{port}"

    def ready() -> None:
        typer.echo(f"sureenough serves at {url}/v1, {says}; the page is {url}{address}")
        if told is not None:
            told(f"{url}{address}")

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve_until_stopped(settings, listening, ready))


def installed() -> None:
    """Refuse in words where the server's packages are missing."""
    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        raise UsageError("the server needs two packages more: pip install 'sureenough[serve]'")
