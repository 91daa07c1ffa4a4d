"""Options that every verb with a server has, and the engine they make."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sureenough import reasoner
from sureenough.cli.options import CONFIG, file_option, rare_option
from sureenough.cli.terminal import echo
from sureenough.engines.base import Engine, named_engine
from sureenough.engines.load_balancer import LoadBalancer
from sureenough.engines.local.engine import Local
from sureenough.engines.local.models import HUB_PREFIX
from sureenough.engines.openai.client import OpenAI, Timeouts
from sureenough.engines.openai.errors import given_twice
from sureenough.errors import SureEnoughError, UsageError
from sureenough.plugins import described
from sureenough.redact import printable_url
from sureenough.spec import is_strategy_name

if TYPE_CHECKING:
    from sureenough.drivers.record import Executor

Url = Annotated[
    list[str] | None,
    typer.Option(
        help="The server, such as http://localhost:8000/v1; several with the same model share the paths. Without it a "
        "model runs on this machine.",
        envvar="SUREENOUGH_URL",
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        help="The model's name on the server. Without --url: FILE.gguf or hf:OWNER/NAME[:FILE]; the built-in model by "
        "default.",
        envvar="SUREENOUGH_MODEL",
    ),
]
Temperature = Annotated[float, typer.Option(help="Sampling temperature.")]
TopP = Annotated[float, file_option("Nucleus sampling.")]
Template = Annotated[
    str | None,
    rare_option(help="The prompt, containing {question}; by default it asks for reasoning and a boxed answer."),
]
FirstToken = Annotated[float, file_option("Seconds to wait for a path's first token.")]
Stall = Annotated[float, file_option("Seconds to wait between tokens.")]
Plugin = Annotated[
    str | None, rare_option("--engine", help="An engine of another package: its name, or module:attribute.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """Which model is sampled, where it runs, and how its tokens are drawn."""

    url: Url = None
    model: Model = None
    temperature: Temperature = 0.6
    top_p: TopP = 0.95
    max_path_tokens: Annotated[
        int | None, rare_option(help="The most tokens per path; the server's own limit, or 32,768, by default.")
    ] = None
    completions: Annotated[bool, file_option("Use the completions API instead of chat.")] = False
    first_token: FirstToken = 300.0
    stall: Stall = 60.0
    metrics: Annotated[
        bool,
        file_option("Count tokens made after a cancel by the server's counters; only if nothing else uses the server."),
    ] = False
    context: Annotated[
        int | None, file_option("Of a model on this machine: tokens of context for all paths together.", min=1)
    ] = None
    threads: Annotated[int | None, file_option("Of a model on this machine: threads; all cores by default.", min=1)] = (
        None
    )
    plugin: Plugin = None

    def any_engine(self, window: int | None = None, quiet: bool = False) -> Engine:
        """The engine of another package if one is named, else the model of the servers, or one on this machine."""
        if self.plugin is not None:
            return named_plugin(self.plugin, self.url, self.model)
        engines = [one.engine(window, quiet or n > 0) for n, one in enumerate(self.each_server())]
        return LoadBalancer(engines) if len(engines) > 1 else engines[0]

    def on_cluster(self, cluster: Any, window: int | None = None) -> Executor | None:
        """What samples on every node of a cluster, from an engine that is made there; None without a cluster."""
        if cluster is None:
            return None
        from sureenough.ray.jobs import RayJobs

        there = self if self.url else replace(self, model=absolute_model(self.model))
        return partial(RayJobs, cluster, partial(there.any_engine, window, quiet=True))

    def each_server(self) -> list[EngineOptions]:
        """The same options for one server at a time."""
        urls = self.url or []
        if (twice := given_twice(urls)) is not None:
            raise UsageError(f"--url {printable_url(twice)} is given twice; name every server once")
        return [replace(self, url=[url]) for url in urls] or [self]

    def engine(self, window: int | None = None, quiet: bool = False) -> OpenAI | Local:
        """The server's model, or one on this machine."""
        if not quiet:
            warn_if_cold(self.temperature)
        model, _, spec = (self.model or "").rpartition("@")
        if model and is_strategy_name(spec.strip().partition(":")[0]):
            raise UsageError(
                f"--model {self.model} ends in a strategy, and a strategy is not a model: give --model {model}; verbs "
                f"that vote take -s {spec}"
            )
        common: dict[str, Any] = {
            "temperature": self.temperature, "top_p": self.top_p, "max_path_tokens": self.max_path_tokens,
            "chat": not self.completions, "timeouts": Timeouts(first_token=self.first_token, stall=self.stall),
            "window": window,
        }  # fmt: skip
        if not self.url:
            return _local(self.model, quiet, context=self.context, threads=self.threads, **common)
        if self.model is None:
            raise UsageError(
                f"no model is named for {printable_url(self.url[0])}: give --model NAME, set SUREENOUGH_MODEL, or "
                f"write model = into {CONFIG}; without --url the built-in model answers"
            )
        if self.context is not None or self.threads is not None:
            raise UsageError(
                f"context and threads in {CONFIG} are for models on this machine: remove them, or leave --url out"
            )
        return OpenAI(self.url[0], self.model, metrics=self.metrics, **common)


def absolute_model(model: str | None) -> str | None:
    """A model on this machine, as a process in another folder finds it."""
    return str(Path(model).absolute()) if model is not None and Path(model).exists() else model


def named_plugin(name: str, url: object, model: object) -> Engine:
    """An engine of another package, ready to be opened."""
    if url or model:
        raise UsageError("--engine cannot be combined with --url or --model: it is the model")
    plugin = named_engine(name)
    try:
        plugin.prepare()  # here, where Ctrl-C reaches a download
    except SureEnoughError:
        raise
    except Exception as error:  # whatever the code of another package raises
        raise UsageError(f"the engine {name} cannot be prepared: {described(error)}") from None
    return plugin


def warn_if_cold(temperature: float) -> None:
    """Warn that voting is of no use at temperature 0."""
    if temperature == 0:
        echo(
            "Warning: with --temperature 0 all paths will be equal, so more than one path only costs tokens; "
            "0.6 is the default.",
            err=True,
        )


OTHER_MODELS: Final = "for others give --model FILE.gguf, --model hf:OWNER/NAME or --url"
GREETING: Final = f"The built-in model answers; it knows school arithmetic only ({OTHER_MODELS})."


def _local(model: str | None, quiet: bool, **options: Any) -> Local:
    """A model on this machine; the built-in one is announced."""
    if model in (None, reasoner.NAME):
        model = None
        if not quiet:
            echo(GREETING, err=True)
    elif not model.startswith(HUB_PREFIX) and not model.endswith(".gguf") and not Path(model).exists():
        raise UsageError(
            f"{model} is not a file: a server's model needs --url http://localhost:8000/v1 (or SUREENOUGH_URL, or url "
            f"in {CONFIG}); a model on this machine is a FILE.gguf or hf:OWNER/NAME"
        )
    engine = Local(model, **options)
    engine.prepare()  # here, where Ctrl-C reaches a download
    return engine


def print_counts(engine: Engine) -> None:
    """What each of several servers has done."""
    for one in engine.loads if isinstance(engine, LoadBalancer) else ():
        if one.started:
            echo(str(one), err=True)
