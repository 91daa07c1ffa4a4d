"""What an engine is: anything that can grow a path, a few tokens at a time.

The least engine is an async generator of lists of tokens. One that knows more (text that came without a token, why the
path ended, the server's own count) says so by sending `Chunk`s; one that holds connections offers `open`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

from sureenough.core.events import Summary, Token
from sureenough.core.pruning import Gate

Message = Mapping[str, Any]
"""A chat message as the OpenAI protocol has it: a role, content, and whatever else."""


class WatchOptions(NamedTuple):
    """How a path is watched: engines that can do so themselves send a summary in place of signals."""

    window: int
    gate: Gate | None  # None: a warm-up path, whose windows will be asked for


@dataclass(frozen=True, slots=True)
class Prompt:
    """What is asked, and whether the confidence of the reply will be read."""

    messages: tuple[Message, ...]
    signals: bool = True  # False: engines that pay for log-probabilities may leave them out
    guard: WatchOptions | None = None  # for engines that watch their own paths; others need not look

    @classmethod
    def user(cls, text: str, *, system: str | None = None, signals: bool = True) -> Self:
        """A single turn, after a system message where there is one."""
        head = [] if system is None else [{"role": "system", "content": system}]
        return cls((*head, {"role": "user", "content": text}), signals)

    @property
    def text(self) -> str:
        """For servers that take plain text: all contents, a blank line between them."""
        return "\n\n".join(str(message["content"]) for message in self.messages)


class Chunk(list[Token]):
    """Tokens that came together, and what came with them."""

    __slots__ = ("beyond", "closed", "estimated", "finish", "prompt_tokens", "summary", "text", "unread")

    def __init__(
        self,
        tokens: Iterable[Token] = (),
        *,
        text: str | None = None,
        unread: int = 0,
        finish: str | None = None,
        prompt_tokens: int | None = None,
        estimated: bool = False,
        summary: Summary | None = None,
        beyond: int = 0,
        closed: bool = False,
    ) -> None:
        super().__init__(tokens)
        self.text = "".join([token.text for token in self]) if text is None else text
        self.unread = unread  # further tokens that can be counted but not read
        self.finish = finish  # "stop" or "length", in the last chunk
        self.prompt_tokens = prompt_tokens  # in the last chunk, where the server says
        self.estimated = estimated  # whether the path's count so far is a guess
        self.summary = summary  # from engines that watch their own paths
        self.beyond = beyond  # tokens that came beyond the path's limit: no part of it, but made
        self.closed = closed  # the engine closed the stream at the path's limit; the server may have made more


class Engine(Protocol):
    """Anything that can grow a path. Closing the generator cancels it."""

    def stream(self, prompt: Prompt, *, seed: int) -> AsyncGenerator[Sequence[Token], None]:
        """Grow one path; raise an EngineError where it is lost."""


@runtime_checkable
class Opens(Protocol):
    """An engine that holds something for as long as a run lasts, such as connections."""

    def open(self, *, parallel: int) -> AbstractAsyncContextManager[Engine]:
        """What grows the paths of one run, so many at once."""


@runtime_checkable
class Counts(Protocol):
    """An engine whose server has counters of its own."""

    async def made(self) -> int | None:
        """Tokens made since it was opened, cancelled paths' last ones too; None where nobody knows."""


@asynccontextmanager
async def opened(engine: Engine, parallel: int) -> AsyncIterator[Engine]:
    """An engine ready for a run, whether or not it needs opening."""
    if not isinstance(engine, Opens):
        yield engine
        return
    async with engine.open(parallel=parallel) as ready:
        yield ready


def prepare(engine: Engine | None) -> None:
    """Let an engine fetch or check what it needs, where it has to, before a run and where Ctrl-C reaches it."""
    work = getattr(engine, "prepare", None)
    if callable(work):
        work()


def stops_at_once(engine: Engine) -> bool:
    """Whether nothing is made after a path is closed; servers make a few tokens more, uncounted."""
    return bool(getattr(engine, "stops_at_once", False))


def suggested_window(engine: Engine) -> int | None:
    """The window that an engine's model suggests, where it does."""
    window = getattr(engine, "window", None)
    return window if isinstance(window, int) else None


def suggested_template(engine: Engine) -> str | None:
    """How an engine's model wants questions put, where it says."""
    template = getattr(engine, "template", None)
    return template if isinstance(template, str) else None
