"""`sureenough serve`: an OpenAI-compatible endpoint that answers with the consensus, and a page that shows it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, Any, Final

import typer

from sureenough.cli import engine
from sureenough.cli.options import (
    KIND_HELP,
    TABLE,
    OptionGroup,
    Port,
    RayAddress,
    file_option,
    join,
    rare_option,
    run_options,
    with_options,
)
from sureenough.cli.terminal import echo
from sureenough.core.options import LIVE_DEFAULTS, RunOptions
from sureenough.errors import UsageError
from sureenough.redact import printable_url
from sureenough.server.settings import ServerLimits, ServerSettings, read_keys

DEFAULTS: Final = ServerSettings()
NOTES: Final = dict.fromkeys(("paths", "parallel", "hurry"), "if a request does not say")
SETTINGS: Final[dict[str, Any]] = {
    "strategy": Annotated[
        str, typer.Option("-s", "--strategy", help="Strategy of requests that ask for a vote and name none.")
    ],
    "kind": Annotated[str, typer.Option(help=f"Kind of answer, if a request names none: {KIND_HELP}.")],
    "window": Annotated[int | None, file_option(f"Of requests: {RunOptions.fields()['window'].metadata['help']}.")],
    "temperature": engine.Temperature,
    "top_p": engine.TopP,
    "template": engine.Template,
    "host": Annotated[str, typer.Option(help="Address to listen on; other machines need keys.")],
    "port": Port,
    "insecure": Annotated[bool, rare_option("--insecure", help="Listen to other machines without keys.")],
    "keep_runs": Annotated[Path | None, typer.Option(help="Keep every run in this folder, with questions and texts.")],
    "state": Annotated[
        Path | None, rare_option(help="Keep in this folder what is learned about each model's confidence.")
    ],
    "log_requests": Annotated[bool, file_option("Write questions to the log.")],
    "log_level": Annotated[str, file_option("DEBUG, INFO, WARNING, ERROR or CRITICAL.")],
    "first_token": engine.FirstToken,
    "stall": engine.Stall,
}
"""The fields of ServerSettings that are options as they are."""


def _settings() -> OptionGroup:
    own = {name: (option, getattr(DEFAULTS, name)) for name, option in SETTINGS.items()}
    return OptionGroup(dict, {**run_options(LIVE_DEFAULTS, only=NOTES, notes=NOTES).flags, **own})


@with_options(settings=_settings())
def command(
    *,
    call: typer.Context,
    url: engine.Url = None,
    model: Annotated[
        list[str] | None, typer.Option(help="Offer only this model; repeatable. Without --url: FILE.gguf.")
    ] = None,
    plugin: engine.Plugin = None,
    settings: dict[str, Any],
    allow_host: Annotated[list[str] | None, rare_option(help="Another host name of this server; repeatable.")] = None,
    key_file: Annotated[Path | None, typer.Option(help="File with the keys that clients need, one per line.")] = None,
    limits: Annotated[Any, file_option("What requests may use.", metavar=TABLE, parser=dict)] = None,
    ray: RayAddress = None,
    ray_options: Annotated[
        str | None,
        rare_option(
            help='With --ray: options of the deployment, such as {"num_replicas": 4}; 2 by default.', metavar="JSON"
        ),
    ] = None,
) -> None:
    """Serve consensus to any OpenAI client, and a page that shows runs live."""
    check_installed()
    engine.warn_if_cold(settings["temperature"])
    deployment = _deployment(ray, ray_options)
    if ray is not None:
        if plugin is not None:
            raise UsageError("--engine runs in this process: leave --ray out, or serve the model and give its --url")
        if settings["state"] is not None:
            raise UsageError("--state keeps what one process learns, and each replica learns by itself: leave it out")
        model = model if url else [str(engine.absolute_model(one)) for one in model or ()]
    chosen = ServerSettings(
        upstream=url[0] if url else None,
        more_upstreams=tuple((url or [])[1:]),
        engine=None if plugin is None else engine.named_plugin(plugin, url, model),
        models=(plugin,) if plugin else tuple(model or ()),
        hosts=tuple(allow_host or ()),
        keys=read_keys(key_file),
        limits=ServerLimits.of(limits or {}),
        **settings,
    )
    shown = ", ".join(map(printable_url, url or ()))
    description = f"upstream {shown}" if url else f"with {plugin or 'the model on this machine'}"
    cluster = join(ray, call)
    if cluster is None:
        serve(chosen, description)
    else:
        serve_on_ray(cluster, chosen, deployment, description)


def _deployment(ray: str | None, text: str | None) -> dict[str, Any]:
    if ray is None and text is not None:
        raise UsageError("--ray-options are for Ray Serve: add --ray auto")
    try:
        options = json.loads(text or "{}")
    except (ValueError, RecursionError):
        options = None
    if not isinstance(options, dict):
        raise UsageError(
            '--ray-options must be a JSON object such as {"autoscaling_config": {"min_replicas": 1, "max_replicas": 8}}'
        )
    return options if "autoscaling_config" in options else {"num_replicas": 2, **options}


def serve(
    settings: ServerSettings, description: str, page: str = "/", when_ready: Callable[[str], object] | None = None
) -> None:
    """Serve until a signal; prints the address once it can be reached."""
    from sureenough.server.app import listen, serve_until_stopped

    _prepare(settings)
    listening = listen(settings)
    url = _url(settings, listening.getsockname()[1])

    def ready() -> None:
        echo(f"sureenough serves at {url}/v1, {description}; the page is {url}{page}")
        if when_ready is not None:
            when_ready(f"{url}{page}")

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve_until_stopped(settings, listening, ready))


def serve_on_ray(cluster: Any, settings: ServerSettings, deployment: dict[str, Any], description: str) -> None:
    """Serve with replicas on the cluster until a signal; prints the address once it can be reached."""
    from sureenough.ray.serve import RayEndpoint
    from sureenough.server.app import listen

    _prepare(settings)
    if settings.port == 0:
        raise UsageError("Ray Serve needs to know its port: give --port")
    listen(settings).close()  # Ray Serve would try a port that is in use again and again
    url = _url(settings, settings.port)

    def ready() -> None:
        echo(f"sureenough serves at {url}/v1 with Ray Serve, {description}")

    with contextlib.suppress(KeyboardInterrupt):
        RayEndpoint(cluster, settings, deployment).run(ready)


def _prepare(settings: ServerSettings) -> None:
    """Refuse folders in which nothing could be kept, before anything runs, and start the log."""
    kept = [] if settings.view_only else [("runs", settings.keep_runs), ("what is learned", settings.state)]
    for what, folder in kept:
        try:
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
                with TemporaryFile(dir=folder):
                    pass
        except OSError as error:
            raise UsageError(f"{what} cannot be kept in {folder}: {error.strerror}; name another folder") from None
    logging.basicConfig(level=settings.log_level.upper(), format="%(asctime)s %(message)s")


def _url(settings: ServerSettings, port: int) -> str:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"http://{host}:{port}"


def check_installed() -> None:
    """Refuse to start if the server's packages are missing."""
    if any(find_spec(package) is None for package in ("starlette", "uvicorn", "prometheus_client")):
        raise UsageError("the server needs further packages: pip install 'sureenough[serve]'")
