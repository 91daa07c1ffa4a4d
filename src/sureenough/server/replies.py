"""Replies in OpenAI's shapes: the winning path's message, what all paths cost, and how the vote went."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec

from sureenough.core.outcome import BUCKETS, Outcome
from sureenough.drivers.transcripts import Transcript
from sureenough.server.schema import ConsensusRequest

OPENING: Final = "<think>"
CLOSING: Final = "</think>"
PIECE: Final = 96
"""Characters of a chunk of the winning text."""
encode: Final = msgspec.json.encode


class RunResult(NamedTuple):
    """What a run came to, and the path that speaks for it."""

    outcome: Outcome
    words: Transcript | None


class ReplyWriter:
    """One request's reply, whole or in chunks, under one id."""

    def __init__(self, asked: ConsensusRequest) -> None:
        self.asked = asked
        self.id = f"{'chatcmpl' if asked.chat else 'cmpl'}-{secrets.token_urlsafe(18)}"
        self.created = int(time.time())

    def whole(self, result: RunResult) -> dict[str, Any]:
        """The reply in one piece."""
        choice: dict[str, Any] = {"index": 0, "finish_reason": finish(result, self.asked.longest), "logprobs": None}
        thought, said = parted(result.words)
        if self.asked.chat:
            message: dict[str, Any] = {"role": "assistant", "content": said, "refusal": None}
            choice["message"] = message | ({"reasoning_content": thought} if thought is not None else {})
        else:
            choice["text"] = "" if result.words is None else result.words.text
        kind = "chat.completion" if self.asked.chat else "text_completion"
        return self._framed(kind, [choice]) | {"usage": usage(result.outcome), "sureenough": consensus_details(result)}

    def opening(self) -> bytes:
        """The chunk that says who speaks."""
        return self._chunk({"role": "assistant", "content": ""}) if self.asked.chat else b""

    def progress(self, line: str) -> bytes:
        """A sentence on how things stand: thinking aloud where that was asked for, else a comment."""
        if self.asked.progress == "none":
            return b": \n\n"
        if self.asked.progress == "reasoning" and self.asked.chat:
            return self._chunk({"reasoning_content": line + "\n"})
        # A model's answer is in it, and a carriage return ends a line of events, too.
        return b": sureenough " + " ".join(line.split()).encode() + b"\n\n"

    def closing(self, result: RunResult) -> Iterator[bytes]:
        """The winning text, why it ends, what it cost."""
        thought, said = parted(result.words)
        if self.asked.chat:
            yield from (self._chunk({"reasoning_content": piece}) for piece in _pieces(thought or ""))
            yield from (self._chunk({"content": piece}) for piece in _pieces(said))
        else:
            yield from (self._chunk(piece) for piece in _pieces("" if result.words is None else result.words.text))
        yield self._chunk(
            {} if self.asked.chat else "", finish(result, self.asked.longest), sureenough=consensus_details(result)
        )
        if self.asked.usage:
            yield self._event(self._framed(self._kind, []) | {"usage": usage(result.outcome)})
        yield b"data: [DONE]\n\n"

    @property
    def _kind(self) -> str:
        return "chat.completion.chunk" if self.asked.chat else "text_completion"

    def _chunk(self, said: dict[str, str] | str, ended: str | None = None, **more: Any) -> bytes:
        part = {"delta": said} if self.asked.chat else {"text": said}
        choice = {"index": 0, **part, "logprobs": None, "finish_reason": ended}
        return self._event(self._framed(self._kind, [choice]) | more)

    def _event(self, data: dict[str, Any]) -> bytes:
        return b"data: " + encode(data) + b"\n\n"

    def _framed(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.asked.name, "choices": choices}


def parted(words: Transcript | None) -> tuple[str | None, str]:
    """A path's thinking, where it is marked, and what it said after it."""
    if words is None:
        return None, ""
    text = words.text
    if not text.startswith(OPENING) or CLOSING not in text:
        return None, text
    thought, _, said = text.removeprefix(OPENING).partition(CLOSING)
    return thought.strip("\n"), said.lstrip("\n")


def finish(result: RunResult, longest: int | None) -> str:
    """OpenAI's word for why it ended."""
    out, words = result.outcome, result.words
    if words is not None and (words.truncated or (longest is not None and words.tokens >= longest)):
        return "length"
    return "length" if out.answer is None and out.reason in ("max_tokens", "deadline", "interrupted") else "stop"


def usage(out: Outcome) -> dict[str, int]:
    """Every token of every path, and the prompt as often as it was sent."""
    made, prompt = out.tokens.total, out.tokens.prompt
    return {"prompt_tokens": prompt, "completion_tokens": made, "total_tokens": prompt + made}


def consensus_details(result: RunResult) -> dict[str, Any]:
    """The `sureenough` object of a reply."""
    out = result.outcome.to_json()
    kept = ("answer", "votes", "reason", "why", "strategy", "started", "pruned", "failed", "abstained", "counted",
            "steps", "paths", "window", "parallel", "seed", "gate", "tiers", "notes")  # fmt: skip
    tokens = {name: out["tokens"][name] for name in (*BUCKETS, "total", "prompt", "overrun_known")}
    path = None if result.words is None else result.words.path
    return {name: out[name] for name in kept} | {"posterior": out["measure"], "tokens": tokens, "path": path}


def _pieces(text: str) -> Iterator[str]:
    for start in range(0, len(text), PIECE):
        yield text[start : start + PIECE]
