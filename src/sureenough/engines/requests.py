"""What engines receive and send: prompts, how a beginning is continued, and the tokens that come back."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

from sureenough.core.events import Summary, Token
from sureenough.core.pruning import Gate
from sureenough.errors import UsageError

Message = Mapping[str, Any]
"""A chat message of the OpenAI protocol: a role, content, and possibly more."""
TokenStream = AsyncGenerator[Sequence[Token], None]
"""A path or a continuation, as lists of tokens or as `Chunk`s."""
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
    """How a beginning is continued."""

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
        own = {name: getattr(self, name) for name in ("temperature", "top_p") if getattr(self, name) is not None}
        own["max_tokens"] = self.max_tokens
        if not self.stop:
            return own
        stop = engine.get("stop")
        if stop:
            raise UsageError(
                f"stop={stop!r} cannot be combined with a search that samples line by line, such as mur and phi, since "
                "not all servers say which text ended a line: leave it out, or use predictive"
            )
        return own | {"stop": list(self.stop)}


class Chunk(list[Token]):
    """Tokens that arrived together, and what arrived with them."""

    __slots__ = (
        "beyond", "cached_tokens", "closed", "estimated", "finish", "logprobs", "prompt_tokens", "stop_text", "summary",
        "tail", "text", "unread",
    )  # fmt: skip

    def __init__(
        self,
        tokens: Iterable[Token] = (),
        *,
        text: str | None = None,
        unread: int = 0,
        finish: str | None = None,
        stop_text: str | None = None,
        prompt_tokens: int | None = None,
        cached_tokens: int | None = None,
        estimated: bool = False,
        summary: Summary | None = None,
        beyond: int = 0,
        closed: bool = False,
        logprobs: Sequence[float] = (),
        tail: float | None = None,
    ) -> None:
        super().__init__(tokens)
        self.text = "".join([token.text for token in self]) if text is None else text
        self.unread = unread  # further tokens, without signals
        self.finish = finish  # "stop" or "length", in the last chunk
        self.stop_text = stop_text  # what ended it, to the end of its token; empty: the model did; None: not known
        self.prompt_tokens = prompt_tokens  # in the last chunk, if the server reports them
        self.cached_tokens = cached_tokens  # those of the prompt that the server did not have to read again
        self.estimated = estimated  # whether the path's token count so far is a guess
        self.summary = summary  # from engines that watch their own paths
        self.tail = tail  # the confidence of the last window so far, from the same engines
        self.beyond = beyond  # tokens past the path's limit: generated, but not part of the path
        self.closed = closed  # the engine closed the stream at the path's limit; the server may have generated more
        self.logprobs = logprobs  # of the sampled tokens; only continuations have them


def as_chunk(tokens: Sequence[Token]) -> Chunk:
    """What an engine sent; plain lists of tokens get the defaults of a chunk."""
    return tokens if isinstance(tokens, Chunk) else Chunk(tokens)


def is_thinking(text: str) -> bool:
    """Whether a text ends inside of its thinking: the last tag decides."""
    return text.rfind(THINK_TAG) > text.rfind(THINK_END_TAG)
