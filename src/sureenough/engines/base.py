"""What an engine is: an object that streams one path per call, a few tokens at a time.

`Engine` has a default for everything but `stream`. An object with nothing but `stream` is an engine, too: `as_engine`
gives it the defaults.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, nullcontext
from typing import Any, Final, Protocol

from sureenough.core.options import DEFAULT_WINDOW
from sureenough.engines.requests import ExtendOptions, Prompt, TokenStream
from sureenough.errors import CannotExtend, UsageError
from sureenough.plugins import Registry


class SupportsStream(Protocol):
    """The least that an engine must have."""

    def stream(self, prompt: Prompt, *, seed: int) -> TokenStream:
        """Generate one path; see `Engine.stream`."""


StartRequest = Callable[["Engine"], TokenStream]
"""Starts a path or a continuation on an engine."""


class Engine:
    """Base class of engines, with a default for every ability that an engine may lack."""

    stops_at_once: bool = False  # whether closing a path ends its generation without further, uncounted tokens
    window: int | None = None  # tokens per window that suit the model
    longest_window: int = DEFAULT_WINDOW  # tokens per window that it can watch
    max_path_tokens: int | None = None  # the most tokens of a path, and of each continuation that a search samples
    template: str | None = None  # wording of questions that suits the model, with a place for {question}
    servers: int = 1  # on which paths run; a path that one of several loses can be sampled again at once

    def stream(self, prompt: Prompt, *, seed: int) -> TokenStream:
        """Generate one path as lists of tokens or as `Chunk`s. Closing the generator cancels the path.

        Raises:
            EngineError: the path is lost.
        """
        raise NotImplementedError

    def extend(self, prompt: Prompt, beginning: str, options: ExtendOptions, *, seed: int) -> TokenStream:
        """Continue the beginning of a reply; what is streamed does not repeat it. Closing the generator cancels it.

        Raises:
            CannotExtend: this engine cannot.
        """
        raise CannotExtend(f"{self.model_name()} cannot be extended: {self._kind()} engines only start paths")

    def open(self, *, parallel: int) -> AbstractAsyncContextManager[Engine]:
        """The engine to use for one run, with up to this many paths in parallel; holds connections and the like."""
        return nullcontext(self)

    def prepare(self) -> object:
        """Download or check what a run needs. Called before the event loop starts, so that Ctrl-C works."""
        return None

    def model_name(self) -> str:
        """The model, as far as the engine knows it; what is learned of its confidence is kept under this name."""
        return self._kind()

    def _kind(self) -> str:
        return type(self).__name__

    def sampling(self) -> dict[str, Any]:
        """The parameters with which tokens are sampled, as they are sent."""
        return {}

    async def generated_tokens(self) -> int | None:
        """Tokens generated since the engine was opened, by the server's own count, cancelled paths included."""
        return None

    async def responds(self) -> bool | None:
        """Whether an engine that is open responds to a small request; None if that cannot be checked."""
        return None

    def impatient(self) -> Engine:
        """The same engine, open already, that soon gives up on a server that is busy: others can be tried."""
        return self


class ClosedEngine(Engine):
    """An engine that generates only while it is open. A run opens it once; a single request, for itself."""

    def stream(self, prompt: Prompt, *, seed: int) -> TokenStream:
        return self._opened_for(lambda ready: ready.stream(prompt, seed=seed))

    def extend(self, prompt: Prompt, beginning: str, options: ExtendOptions, *, seed: int) -> TokenStream:
        return self._opened_for(lambda ready: ready.extend(prompt, beginning, options, seed=seed))

    async def _opened_for(self, request: StartRequest) -> TokenStream:
        async with self.open(parallel=1) as ready, aclosing(request(ready)) as chunks:
            async for chunk in chunks:
                yield chunk


class _Adapted(Engine):
    """An object that is not derived from `Engine`, with the defaults for all that it lacks."""

    def __init__(self, engine: SupportsStream) -> None:
        self._class = type(engine).__name__
        for name in vars(Engine):
            if not name.startswith("_") and hasattr(engine, name):
                setattr(self, name, getattr(engine, name))

    def _kind(self) -> str:
        return self._class


def as_engine(engine: SupportsStream) -> Engine:
    """Any object with `stream` as an `Engine`."""
    if isinstance(engine, type) or not callable(getattr(engine, "stream", None)):
        given = repr(engine) if isinstance(engine, str) else getattr(engine, "__name__", type(engine).__name__)
        raise UsageError(
            f"the engine is {given}; it must be an object with a method stream, such as OpenAI(url, model=…), or None "
            "for the built-in model. A strategy comes after it, or as strategy='sure'"
        )
    return engine if isinstance(engine, Engine) else _Adapted(engine)


class SharedEngine(Engine):
    """An engine that is open already and serves several runs at once; the server's counters would mix these."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        for name in ("window", "longest_window", "stops_at_once", "template", "max_path_tokens"):
            setattr(self, name, getattr(engine, name))

    def stream(self, prompt: Prompt, *, seed: int) -> TokenStream:
        return self._engine.stream(prompt, seed=seed)

    def extend(self, prompt: Prompt, beginning: str, options: ExtendOptions, *, seed: int) -> TokenStream:
        return self._engine.extend(prompt, beginning, options, seed=seed)

    def model_name(self) -> str:
        return self._engine.model_name()


@asynccontextmanager
async def opened(engine: SupportsStream, parallel: int) -> AsyncIterator[Engine]:
    """An engine ready for a run."""
    async with as_engine(engine).open(parallel=parallel) as ready:
        yield as_engine(ready)


# -- engines of other packages, by entry point or as `module:attribute`


def _accepted(thing: Any) -> Engine:
    """An engine, or what makes one when it is called: a class, or a function without arguments."""
    if isinstance(thing, type) or not hasattr(thing, "stream"):
        if not callable(thing):
            raise UsageError(f"it is {type(thing).__name__}, which has no method stream")
        try:
            thing = thing()
        except Exception as error:  # whatever the code of another package raises
            raise UsageError(f"making the engine failed: {type(error).__name__}: {error}"[:300]) from None
    if not hasattr(thing, "stream"):
        raise UsageError(f"it makes {type(thing).__name__}, which has no method stream")
    return as_engine(thing)


REGISTRY: Final[Registry[Engine]] = Registry("engine", "engines", {}, _accepted)


def named_engine(text: str) -> Engine:
    """The engine of an installed package by its name, or `module:attribute`."""
    named = REGISTRY.find(text)
    if named.options is not None:
        raise UsageError(f"{text!r}: an engine takes no options here; set them where {named.name} is defined")
    return named.thing
