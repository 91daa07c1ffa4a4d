"""The OpenAI protocol on the wire: what is sent, and the parts of a streamed reply that count.

Fields that are not named here are skipped by the decoder, which is most of what a server sends.
"""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from sureenough.engines.base import Prompt
from sureenough.engines.openai.logprobs import FLOOR
from sureenough.errors import EngineError


class Candidate(msgspec.Struct, gc=False):
    """One of the k likeliest tokens."""

    logprob: float = FLOOR


class Entry(msgspec.Struct, gc=False):
    """A token that was sampled, and its candidates."""

    token: str = ""
    top_logprobs: list[Candidate] = []


class Logprobs(msgspec.Struct, gc=False):
    """Chat servers fill `content`; completion servers fill `top_logprobs`, a map of log-probabilities by token."""

    content: list[Entry] | None = None
    top_logprobs: list[dict[str, float] | None] | None = None
    tokens: list[str] | None = None


class Delta(msgspec.Struct, gc=False):
    """What a chunk adds to a chat message."""

    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None  # the same, as some servers call it


class Choice(msgspec.Struct, gc=False):
    """One reply; requests ask for one."""

    delta: Delta | None = None
    text: str | None = None
    logprobs: Logprobs | None = None
    finish_reason: str | None = None
    index: int = 0


class Usage(msgspec.Struct, gc=False):
    """The server's own count."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class Message(msgspec.Struct, gc=False):
    """One event of the stream."""

    choices: list[Choice] = []
    usage: Usage | None = None
    error: Any = None


_decode: Final = msgspec.json.Decoder(Message).decode
DONE: Final = b"[DONE]"


def decode(data: bytes) -> Message:
    """One event; NaN and Infinity, which JSON does not have but servers send, are taken as they are meant."""
    try:
        return _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _lenient(data)


def _lenient(data: bytes) -> Message:
    try:
        said = json.loads(data.decode("utf-8", "replace"))
        return msgspec.convert(_without_nulls(said), Message)
    except (ValueError, msgspec.ValidationError, RecursionError):
        shown = data[:80].decode("utf-8", "replace")
        raise EngineError(f"the server sent something that is no part of a reply: {shown!r}") from None


def _without_nulls(said: Any) -> Any:
    """Absent and null mean the same to us; a log-probability of null is one that could not be told."""
    if isinstance(said, dict):
        return {name: _without_nulls(value) for name, value in said.items() if value is not None}
    if isinstance(said, list):
        return [_without_nulls(value) for value in said]
    return said


def request(prompt: Prompt, seed: int, *, model: str, chat: bool, k: int, sampling: dict[str, Any]) -> bytes:
    """The body of a completion request for one path."""
    body: dict[str, Any] = {"model": model, "stream": True, "stream_options": {"include_usage": True}, "seed": seed}
    if chat:
        body["messages"] = list(prompt.messages)
        if prompt.signals:
            body |= {"logprobs": True, "top_logprobs": k}
    else:
        body["prompt"] = prompt.text
        if prompt.signals:
            # Candidates are keyed by their text, where different tokens can look the same; vLLM can key them by id.
            body |= {"logprobs": k, "return_tokens_as_token_ids": True}
    return msgspec.json.encode(body | sampling)
