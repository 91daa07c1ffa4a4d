"""The contract of engines: what they receive, what they send, and what they are.

An engine streams one path per call, a piece at a time. `Engine` has a default for everything but `stream`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple, Self

from sureenough.core.events import Summary, Token
from sureenough.core.options import DEFAULT_WINDOW
from sureenough.core.pruning import Gate
from sureenough.errors import CannotExtend, UsageError
from sureenough.plugins import Registry

# -- what an engine receives: prompts, and how a beginning is continued

Message = Mapping[str, Any]
"""A chat message of the OpenAI protocol: a role, content, and possibly more."""
THINK_TAG: Final = "<think>"
"""Opens a model's thinking, in its text or at the end of its prompt."""
THINK_END_TAG: Final = "</think>"


class WatchOptions(NamedTuple):
    """How a path is watched. Engines that watch paths themselves send a summary in place of signals."""

    window: int | None  # None: not known yet
    gate: Gate | None  # None: every token's signals will be needed
    report_unheard: Callable[[int], None] | None = None  # takes a cancelled path's tokens beyond those passed on


@dataclass(frozen=True, slots=True)
class Prompt:
    """The messages of a request, and whether the confidence of the reply will be read."""

    messages: tuple[Message, ...]
    signals: bool = True  # False: engines may leave out log-probabilities, and summaries of paths that they watch
    watch: WatchOptions | None = None  # for engines that watch their own paths; others ignore it

    @classmethod
    def user(cls, text: str, *, system: str | None = None, signals: bool = True) -> Self:
        """A single turn, after a system message if one is given."""
        head = [] if system is None else [{"role": "system", "content": system}]
        return cls((*head, {"role": "user", "content": text}), signals)

    @property
    def text(self) -> str:
        """For servers that take plain text: all contents, separated by blank lines."""
        return "\n\n".join(str(message["content"]) for message in self.messages)

    @property
    def last_text(self) -> str:
        """The text of the last message; empty if it has none."""
        content = self.messages[-1].get("content") if self.messages else None
        parts = content if isinstance(content, list) else [{"text": content}]
        return "\n".join(str(part["text"]) for part in parts if isinstance(part, dict) and part.get("text"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtendOptions:
    max_tokens: int
    stop: tuple[str, ...] = ()  # texts at which it ends; they are not part of the continuation
    temperature: float | None = None  # None: the engine's
    top_p: float | None = None  # None: the engine's
    confidence: bool = True  # False: of each token, only its own log-probability is needed, not those of candidates

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise UsageError(f"max_tokens is {self.max_tokens}; it must be at least 1", argument="max_tokens")
        if "" in self.stop:
            raise UsageError("stop contains an empty text, at which everything would end; leave it out")

    def sampling(self, engine: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters that replace those of the engine, whose stop texts apply if these have none.

        Raises:
            UsageError: the engine has stop texts, and it would not be known which text ended the continuation.
        """
        if self.stop and engine.get("stop"):
            raise UsageError(
                f"stop={engine['stop']!r} cannot be combined with a search that samples line by line, such as mur and "
                "phi, since not all servers say which text ended a line: leave it out, or use predictive"
            )
        own = {"temperature": self.temperature, "top_p": self.top_p, "max_tokens": self.max_tokens}
        return {name: value for name, value in own.items() if value is not None} | (
            {"stop": list(self.stop)} if self.stop else {}
        )


def is_thinking(text: str) -> bool:
    """Whether a text ends inside of its thinking: the last tag decides."""
    return text.rfind(THINK_TAG) > text.rfind(THINK_END_TAG)


# -- what an engine sends: the pieces of a path or of a continuation, and its end


@dataclass(frozen=True, slots=True)
class Piece:
    """Tokens that arrived together, whose texts are all of the text. A plain list of tokens means the same."""

    tokens: Sequence[Token]
    logprobs: Sequence[float] = ()  # of the sampled tokens; only continuations have them
    unread: ClassVar = 0

    @property
    def text(self) -> str:
        return "".join([token.text for token in self.tokens])


@dataclass(frozen=True, slots=True)
class Report:
    """How much a path has grown whose tokens come without signals; nothing, if it is only a sign of life."""

    tokens: ClassVar = ()
    unread: int = 0  # tokens
    text: str = ""
    estimated: bool = False  # whether the path's token count so far is a guess
    tail: float | None = None  # the confidence of the last window so far, from engines that watch their own paths


@dataclass(frozen=True, slots=True)
class End:
    """The end of a path or of a continuation. A stream may end without one."""

    tokens: ClassVar = ()
    finish: str = "stop"  # or "length": a limit of tokens cut it
    text: str = ""  # that no token had
    unread: int = 0  # further tokens, without signals
    estimated: bool = False  # whether the path's token count is a guess
    stop_text: str | None = None  # what ended it, to the end of its token; empty: the model did; None: not known
    prompt_tokens: int | None = None  # if the server reports them
    cached_tokens: int | None = None  # those of the prompt that the server did not have to read again
    beyond: int = 0  # tokens past the path's limit, where the engine closed the stream: not part of the path
    summary: Summary | None = None  # from engines that watch their own paths
    reasoning_tokens: int = 0  # those that the server counts as reasoning


Part = Piece | Report | End
TokenStream = AsyncGenerator[Part | Sequence[Token], None]
"""A path or a continuation."""


def as_part(sent: Part | Sequence[Token]) -> Part:
    """What an engine sent, with plain lists of tokens as pieces."""
    return sent if isinstance(sent, Part) else Piece(sent)


# -- what an engine is

StartRequest = Callable[["Engine"], TokenStream]
"""Starts a path or a continuation on an engine."""


class Engine:
    """Base class of engines, with a default for every ability that an engine may lack."""

    stops_at_once: bool = False  # whether closing a path ends its generation without further, uncounted tokens
    window: int | None = None  # tokens per window that suit the model
    longest_window: int = DEFAULT_WINDOW  # tokens per window that it can watch
    max_path_tokens: int | None = None  # the most tokens of a path, and of each continuation that a search samples
    k: int = 20  # candidates per token, over which its confidence is a mean
    chat: bool = True  # False: it completes plain text
    template: str | None = None  # wording of questions that suits the model, with a place for {question}
    servers: int = 1  # on which paths run; a path that one of several loses can be sampled again at once

    def stream(self, prompt: Prompt, *, seed: int) -> TokenStream:
        """Generate one path: pieces or lists of tokens, and its end. Closing the generator cancels the path.

        Raises:
            EngineError: the path is lost.
        """
        raise NotImplementedError

    def extend(self, prompt: Prompt, beginning: str, options: ExtendOptions, *, seed: int) -> TokenStream:
        """Continue the beginning of a reply; what is streamed does not repeat it. Closing the generator cancels it.

        Raises:
            CannotExtend: this engine cannot.
        """
        raise CannotExtend(f"{self.model_name()} cannot be extended: {type(self).__name__} engines only start paths")

    def open(self, *, parallel: int) -> AbstractAsyncContextManager[Engine]:
        """The engine to use for one run, with up to this many paths in parallel; holds connections and the like."""
        return nullcontext(self)

    def prepare(self) -> object:
        """Download or check what a run needs. Called before the event loop starts, so that Ctrl-C works."""
        return None

    def model_name(self) -> str:
        """The model, as far as the engine knows it; what is learned of its confidence is kept under this name."""
        return type(self).__name__

    def sampling(self) -> dict[str, Any]:
        """The parameters with which tokens are sampled, as they are sent."""
        return {}

    def terms(self) -> dict[str, Any]:
        """What decides its paths beside the prompt and the seed; recordings with other terms are not continued."""
        return {"model": self.model_name(), "k": self.k, "chat": self.chat, **self.sampling()}

    def server_address(self) -> str | None:
        """The address of its server without secrets, if it has one."""
        return None

    async def generated_tokens(self) -> int | None:
        """Tokens generated since the engine was opened, by the server's own count, cancelled paths included."""
        return None

    async def responds(self) -> bool | None:
        """Whether an engine that is open responds to a small request; None if that cannot be checked."""
        return None

    def impatient(self) -> Engine:
        """The same engine, open already, that soon gives up on a server that is busy: others can be tried."""
        return self


class ForwardingEngine(Engine):
    """An engine whose paths and continuations are those of other engines."""

    def stream(self, prompt: Prompt, *, seed: int) -> TokenStream:
        return self.forward(prompt, lambda engine: engine.stream(prompt, seed=seed))

    def extend(self, prompt: Prompt, beginning: str, options: ExtendOptions, *, seed: int) -> TokenStream:
        return self.forward(prompt, lambda engine: engine.extend(prompt, beginning, options, seed=seed))

    def forward(self, prompt: Prompt, start: StartRequest) -> TokenStream:
        """Start a path or a continuation of this prompt on one of them."""
        raise NotImplementedError


class ClosedEngine(ForwardingEngine):
    """An engine that generates only while it is open. A run opens it once; a single request, for itself."""

    async def forward(self, prompt: Prompt, start: StartRequest) -> TokenStream:
        async with self.open(parallel=1) as ready, aclosing(start(ready)) as chunks:
            async for chunk in chunks:
                yield chunk


class SharedEngine(ForwardingEngine):
    """An engine that is open already and serves several runs at once; the server's counters would mix these."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.window, self.longest_window, self.template = engine.window, engine.longest_window, engine.template
        self.stops_at_once, self.max_path_tokens = engine.stops_at_once, engine.max_path_tokens

    def forward(self, prompt: Prompt, start: StartRequest) -> TokenStream:
        return start(self._engine)

    def model_name(self) -> str:
        return self._engine.model_name()


def as_engine(engine: object) -> Engine:
    """The same object, or an error that says what an engine is."""
    if not isinstance(engine, Engine):
        given = repr(engine) if isinstance(engine, str) else getattr(engine, "__name__", type(engine).__name__)
        raise UsageError(
            f"the engine is {given}; it must be an object derived from sureenough.engines.Engine, such as "
            "OpenAI(url, model=…), or None for the built-in model. A strategy comes after it, or as strategy='sure'"
        )
    return engine


# -- engines of other packages, by entry point or as `module:attribute`


def _accepted(thing: Any) -> Engine:
    """An engine, or what makes one when it is called: a class, or a function without arguments."""
    if not isinstance(thing, Engine):
        if not callable(thing):
            raise UsageError(f"it is {type(thing).__name__}, which is not derived from sureenough.engines.Engine")
        try:
            thing = thing()
        except Exception as error:  # whatever the code of another package raises
            raise UsageError(f"making the engine failed: {type(error).__name__}: {error}"[:300]) from None
    return as_engine(thing)


REGISTRY: Final[Registry[Engine]] = Registry("engine", "engines", {}, _accepted)


def named_engine(text: str) -> Engine:
    """The engine of an installed package by its name, or `module:attribute`."""
    named = REGISTRY.find(text)
    if named.options is not None:
        raise UsageError(f"{text!r}: an engine takes no options here; set them where {named.name} is defined")
    return named.thing
