"""Responses in OpenAI's shapes: the winning path's message, the cost of all paths, and the details of the vote."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from sureenough.answers import split_thinking
from sureenough.answers.json_kind import Json
from sureenough.core.outcome import BUCKETS, Outcome
from sureenough.core.stop_rules import QUANTITIES
from sureenough.drivers.observers import Transcript
from sureenough.engines.openai.wire import TOOL_CALL
from sureenough.server.requests import ConsensusRequest
from sureenough.server.responses import sse_comment, sse_event
from sureenough.server.structured import ToolJudge, tool_call_objects

CHUNK: Final = 96
"""Characters per chunk of the winning text."""
DONE: Final = b"data: [DONE]\n\n"


class RunResult(NamedTuple):
    """The outcome of a run, and the path whose text is the response."""

    outcome: Outcome
    transcript: Transcript | None


class ReplyText(NamedTuple):
    """What a client reads of a result: the winning path, or why there is none."""

    text: str  # of a completion, which has nothing but this
    content: str
    reasoning: str | None
    refusal: str | None
    calls: list[dict[str, Any]]
    finish_reason: str

    @classmethod
    def of(cls, result: RunResult, request: ConsensusRequest) -> ReplyText:
        """The content is only the JSON if the request has a response format."""
        out, judge = result.outcome, request.structured
        text = "" if result.transcript is None else result.transcript.text
        reasoning, content = split_thinking(text)
        calls = tool_call_objects(text) if isinstance(judge, ToolJudge) and out.answer is not None else []
        if isinstance(judge, Json):
            text = content = out.answer or ""
        reason = _finish_reason(result, request.path_tokens)
        return cls(text, (content or "").partition(TOOL_CALL)[0], reasoning, _refusal(out, judge), calls,
                   "tool_calls" if calls and reason == "stop" else reason)  # fmt: skip


class ReplyWriter:
    """The response to one request, whole or in chunks, under one id."""

    def __init__(self, request: ConsensusRequest) -> None:
        self.request = request
        self.id = f"{'chatcmpl' if request.chat else 'cmpl'}-{secrets.token_urlsafe(18)}"
        self.created = int(time.time())

    def whole(self, result: RunResult) -> dict[str, Any]:
        """The response without streaming."""
        reply = ReplyText.of(result, self.request)
        choice: dict[str, Any] = {"index": 0, "finish_reason": reply.finish_reason, "logprobs": None}
        if self.request.chat:
            content = reply.content or None if reply.calls else reply.content
            message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": reply.refusal}
            optional = {"tool_calls": reply.calls or None, "reasoning_content": reply.reasoning}
            choice["message"] = message | {name: value for name, value in optional.items() if value is not None}
        else:
            choice["text"] = reply.text
        kind = "chat.completion" if self.request.chat else "text_completion"
        return self._envelope(kind, [choice]) | {
            "usage": usage(result.outcome),
            "sureenough": consensus_details(result),
        }

    def opening(self) -> bytes:
        """The first chunk of a chat."""
        return self._chunk({"role": "assistant", "content": ""}) if self.request.chat else b""

    def progress(self, line: str) -> bytes:
        """A line on the run's progress: as reasoning if the request asks for that, else as a comment."""
        if self.request.progress == "none":
            return sse_comment()
        if self.request.progress == "reasoning" and self.request.chat:
            return self._chunk({"reasoning_content": line + "\n"})
        return sse_comment(f"sureenough {line}")

    def closing(self, result: RunResult) -> Iterator[bytes]:
        """The winning text, the reason why it ends, and the cost."""
        reply = ReplyText.of(result, self.request)
        if self.request.chat:
            yield from (self._chunk({"reasoning_content": piece}) for piece in _pieces(reply.reasoning or ""))
            yield from (self._chunk({"content": piece}) for piece in _pieces(reply.content))
            if reply.refusal is not None:
                yield self._chunk({"refusal": reply.refusal})
            if reply.calls:
                yield self._chunk({"tool_calls": [{"index": i, **call} for i, call in enumerate(reply.calls)]})
        else:
            yield from (self._chunk(piece) for piece in _pieces(reply.text))
        yield self._chunk({} if self.request.chat else "", reply.finish_reason, sureenough=consensus_details(result))
        if self.request.usage:
            yield sse_event(self._envelope(self._kind, []) | {"usage": usage(result.outcome)})
        yield DONE

    @property
    def _kind(self) -> str:
        return "chat.completion.chunk" if self.request.chat else "text_completion"

    def _chunk(self, delta: dict[str, Any] | str, finish_reason: str | None = None, **more: Any) -> bytes:
        part = {"delta": delta} if self.request.chat else {"text": delta}
        choice = {"index": 0, **part, "logprobs": None, "finish_reason": finish_reason}
        return sse_event(self._envelope(self._kind, [choice]) | more)

    def _envelope(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.request.name, "choices": choices}


def _finish_reason(result: RunResult, path_tokens: int | None) -> str:
    """OpenAI's word for the reason why a text ends."""
    out, path = result
    if path is not None and (path.truncated or (path_tokens is not None and path.tokens >= path_tokens)):
        return "length"
    return "length" if out.answer is None and out.reason in ("max_tokens", "deadline", "interrupted") else "stop"


def _refusal(out: Outcome, judge: Json | ToolJudge | None) -> str | None:
    """Why no path gave an answer, for clients that read OpenAI's fields only."""
    if out.answer is not None or (judge is None and out.reason != "no_answer"):
        return None
    if isinstance(judge, Json):
        return "; ".join([f"none of {out.counted} paths gave JSON in the format of response_format", *out.notes])
    return "; ".join(out.notes) or out.verdict.why


def usage(out: Outcome) -> dict[str, int]:
    """Every token of every path, and their prompts as often as they were sent."""
    completion, prompt = out.tokens.total, max(0, out.tokens.prompt) + max(0, out.tokens.reread)
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def consensus_details(result: RunResult) -> dict[str, Any]:
    """The `sureenough` object of a response."""
    out = result.outcome.to_json()
    names = ("answer", "votes", "reason", "why", "strategy", "started", "pruned", "failed", "abstained", "counted",
             "steps", "paths", "window", "window_paths", "parallel", "hurry",
             "seed", "gate", "tiers", "notes")  # fmt: skip
    more = ("total", "prompt", "reread", "cached", "reread_cached", "overrun_known", "prompt_known")
    tokens = {name: out["tokens"][name] for name in (*BUCKETS, *more)}
    tokens |= {name: max(0, tokens[name]) for name in ("prompt", "reread")}
    measures = {name: out["measure"] if name == result.outcome.verdict.quantity else None for name in QUANTITIES}
    measures["posterior"] = out["posterior"]
    path = None if result.transcript is None else result.transcript.path
    return {name: out[name] for name in names} | measures | {"tokens": tokens, "path": path}


def _pieces(text: str) -> Iterator[str]:
    for begin in range(0, len(text), CHUNK):
        yield text[begin : begin + CHUNK]
