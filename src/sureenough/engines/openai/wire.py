"""The OpenAI protocol on the wire: the request, and the fields of a streamed reply that are read.

The decoder skips all other fields, which are most of what a server sends.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, Final

import msgspec

from sureenough.engines.base import Prompt
from sureenough.engines.openai.logprobs import FLOOR, floored
from sureenough.engines.watch.protocol import possible_count
from sureenough.errors import EngineError, UsageError
from sureenough.json_text import HOLDS_HALF
from sureenough.redact import HIDDEN


class InvalidReply(EngineError):
    """A reply that cannot be read, and the text of the server that the message quotes once that is free of secrets."""

    def __init__(self, reason: str, quoted: str) -> None:
        super().__init__(f"{reason} {HIDDEN}")
        self.reason, self.quoted = reason, quoted


class Candidate(msgspec.Struct, gc=False):
    logprob: float = FLOOR


class Entry(msgspec.Struct, gc=False):
    """A sampled token and its candidates."""

    token: str = ""
    logprob: float | None = None
    top_logprobs: list[Candidate] = []


class Logprobs(msgspec.Struct, gc=False):
    """Chat servers fill `content`; completion servers fill `top_logprobs`, a map of log-probabilities by token."""

    content: list[Entry] | None = None
    top_logprobs: list[dict[str, float] | None] | None = None
    tokens: list[str] | None = None
    token_logprobs: list[float | None] | None = None


TOOL_CALL: Final = "\n\x1etool_call "
"""What marks a tool call in a path's text; the name of the tool, a line feed and the arguments follow."""


class FunctionDelta(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | None = None


class ToolCallDelta(msgspec.Struct, gc=False):
    index: int | None = None
    function: FunctionDelta | None = None


class Delta(msgspec.Struct, gc=False):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None  # the same, as some servers call it
    tool_calls: list[ToolCallDelta] | None = None


class Choice(msgspec.Struct, gc=False):
    """One of the replies to a request; requests ask for a single one."""

    delta: Delta | None = None
    text: str | None = None
    logprobs: Logprobs | None = None
    finish_reason: str | None = None
    stop_reason: Any = None  # from vLLM: the stop text or the number of the token at which the reply ended
    matched_stop: Any = None  # the same from SGLang
    index: int = 0

    @property
    def stop_text(self) -> str | None:
        """The stop text that ended the reply; empty if a token did, None if the server does not say."""
        reason = self.matched_stop if self.stop_reason is None else self.stop_reason
        if isinstance(reason, str):
            return reason or None
        return "" if isinstance(reason, int) and not isinstance(reason, bool) else None


class PromptDetails(msgspec.Struct, gc=False):
    cached_tokens: int | None = None


class CompletionDetails(msgspec.Struct, gc=False):
    reasoning_tokens: int | None = None


class Usage(msgspec.Struct, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: PromptDetails | None = None
    completion_tokens_details: CompletionDetails | None = None


class Message(msgspec.Struct, gc=False):
    choices: list[Choice] = []
    usage: Usage | None = None
    error: Any = None
    sureenough: Any = None  # what a server that watches the path itself reports


_decode: Final = msgspec.json.Decoder(Message).decode
DONE: Final = b"[DONE]"
FINISH_REASONS: Final = {
    "stop": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_calls": "stop",
    "function_call": "stop",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
}
"""Every `finish_reason` that ends a path normally ("stop") or at a limit ("length").

Any other, such as "abort", "content_filter" or "error", means that the text is not the model's whole reply: the path
has failed and does not vote.
"""


def decode(data: bytes) -> Message:
    """Decode one event. NaN and Infinity, which are not JSON but are sent, are accepted."""
    with suppress(RecursionError):
        try:
            return _decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass
        with suppress(ValueError, msgspec.ValidationError):
            return msgspec.convert(_without_nulls(json.loads(data.decode("utf-8", "replace"))), Message)
    # Raised out here, so that a thousand frames of a RecursionError are not kept with it.
    raise InvalidReply("the server sent an event that is not part of a reply:", data.decode("utf-8", "replace"))


def _without_nulls(value: Any) -> Any:
    """Null means the same as a missing field; a log-probability of null is one that the server does not know."""
    if isinstance(value, dict):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def candidates(logprobs: Logprobs) -> tuple[list[str], list[list[float]]]:
    """The tokens' own strings, and the log-probabilities of each token's candidates."""
    entries = logprobs.content
    if entries is not None:
        columns = [[candidate.logprob for candidate in entry.top_logprobs] for entry in entries]
        return [entry.token for entry in entries], columns
    maps = logprobs.top_logprobs or []
    strings = logprobs.tokens or []
    return [*strings, *[""] * len(maps)][: len(maps)], [list((values or {}).values()) for values in maps]


def sampled_logprobs(logprobs: Logprobs) -> list[float]:
    """The log-probability of each sampled token; fewer than there are tokens if the server does not send them."""
    entries = logprobs.content
    values = [entry.logprob for entry in entries] if entries is not None else logprobs.token_logprobs or []
    return [floored(value) for value in values if value is not None]


def token_counts(usage: Usage) -> tuple[int | None, int | None, int | None]:
    """Tokens of the prompt, of the reply and of the prompt's cached part; None if missing or impossible."""
    details = usage.prompt_tokens_details
    counts = usage.prompt_tokens, usage.completion_tokens, None if details is None else details.cached_tokens
    prompt, completion, cached = map(possible_count, counts)
    return prompt, completion, None if prompt is None or cached is None else min(cached, prompt)


def reasoning_count(usage: Usage) -> int:
    """Tokens of the reply that are reasoning, by the server's own count; 0 if it has none."""
    details, completion = usage.completion_tokens_details, token_counts(usage)[1]
    return 0 if details is None or completion is None else min(max(0, details.reasoning_tokens or 0), completion)


def token_count(choice: Choice) -> int:
    """Tokens of an event past the limit; one if it comes without log-probabilities."""
    if choice.logprobs is not None:
        return len(choice.logprobs.content or choice.logprobs.top_logprobs or ())
    return bool(choice.text or (choice.delta and choice.delta.content))


def request(
    prompt: Prompt, seed: int, *, model: str, chat: bool, k: int, sampling: dict[str, Any], beginning: str = ""
) -> bytes:
    body: dict[str, Any] = {"model": model, "stream": True, "stream_options": {"include_usage": True}, "seed": seed}
    if chat:
        body["messages"] = list(prompt.messages)
        if beginning:  # llama.cpp continues a last assistant message without being asked
            body["messages"].append({"role": "assistant", "content": beginning})
            body |= {"continue_final_message": True, "add_generation_prompt": False}
        if prompt.signals:
            body |= {"logprobs": True, "top_logprobs": k}
    else:
        body["prompt"] = prompt.text + beginning
        if prompt.signals:
            # Candidates are keyed by their text, which different tokens can share; vLLM can key them by id.
            body |= {"logprobs": k, "return_tokens_as_token_ids": True}
    try:
        return msgspec.json.encode(body | sampling)
    except UnicodeEncodeError:
        raise UsageError(
            f"the model's name, a message or a parameter is not UTF-8 text, since it {HOLDS_HALF}"
        ) from None
