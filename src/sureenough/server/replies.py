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
from sureenough.server.structured import ToolJudge, refusal_without_json, tool_call_objects

CHUNK: Final = 96
"""Characters per chunk of the winning text."""
DONE: Final = b"data: [DONE]\n\n"


class RunResult(NamedTuple):
    """The outcome of a run, and the path whose text is the response."""

    outcome: Outcome
    transcript: Transcript | None


class ReplyWriter:
    """The response to one request, whole or in chunks, under one id."""

    def __init__(self, request: ConsensusRequest) -> None:
        self.request = request
        self.id = f"{'chatcmpl' if request.chat else 'cmpl'}-{secrets.token_urlsafe(18)}"
        self.created = int(time.time())

    def whole(self, result: RunResult) -> dict[str, Any]:
        """The response without streaming."""
        reason = self._finish_reason(result)
        choice: dict[str, Any] = {"index": 0, "finish_reason": reason, "logprobs": None}
        reasoning, content = self._parts(result)
        calls = self._tool_calls(result)
        if self.request.chat:
            message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": self._refusal(result)}
            message |= {"tool_calls": calls, "content": content or None} if calls else {}
            choice["message"] = message | ({"reasoning_content": reasoning} if reasoning is not None else {})
        else:
            choice["text"] = self._completion(result)
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
        if self.request.chat:
            reasoning, content = self._parts(result)
            yield from (self._chunk({"reasoning_content": piece}) for piece in _pieces(reasoning or ""))
            yield from (self._chunk({"content": piece}) for piece in _pieces(content))
            if (text := self._refusal(result)) is not None:
                yield self._chunk({"refusal": text})
            calls = self._tool_calls(result)
            if calls:
                yield self._chunk({"tool_calls": [{"index": i, **call} for i, call in enumerate(calls)]})
        else:
            yield from (self._chunk(piece) for piece in _pieces(self._completion(result)))
        reason = self._finish_reason(result)
        yield self._chunk({} if self.request.chat else "", reason, sureenough=consensus_details(result))
        if self.request.usage:
            yield sse_event(self._envelope(self._kind, []) | {"usage": usage(result.outcome)})
        yield DONE

    def _parts(self, result: RunResult) -> tuple[str | None, str]:
        """Reasoning and content; the content is only the JSON if the request has a response format."""
        reasoning, content = split_reasoning(result.transcript)
        if isinstance(self.request.structured, Json):
            content = result.outcome.answer or ""
        return reasoning, content.partition(TOOL_CALL)[0]

    def _refusal(self, result: RunResult) -> str | None:
        structured, out = self.request.structured, result.outcome
        if isinstance(structured, ToolJudge) and out.answer is None:
            return "; ".join(out.notes) or out.verdict.why
        return refusal_without_json(out) if isinstance(structured, Json) else refusal(out)

    def _completion(self, result: RunResult) -> str:
        if isinstance(self.request.structured, Json):
            return result.outcome.answer or ""
        return "" if result.transcript is None else result.transcript.text

    def _tool_calls(self, result: RunResult) -> list[dict[str, Any]]:
        transcript, answer = result.transcript, result.outcome.answer
        if transcript is None or answer is None or not isinstance(self.request.structured, ToolJudge):
            return []
        return tool_call_objects(transcript.text)

    def _finish_reason(self, result: RunResult) -> str:
        reason = finish_reason(result, self.request.path_tokens)
        return "tool_calls" if reason == "stop" and self._tool_calls(result) else reason

    @property
    def _kind(self) -> str:
        return "chat.completion.chunk" if self.request.chat else "text_completion"

    def _chunk(self, delta: dict[str, Any] | str, finish_reason: str | None = None, **more: Any) -> bytes:
        part = {"delta": delta} if self.request.chat else {"text": delta}
        choice = {"index": 0, **part, "logprobs": None, "finish_reason": finish_reason}
        return sse_event(self._envelope(self._kind, [choice]) | more)

    def _envelope(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.request.name, "choices": choices}


def split_reasoning(transcript: Transcript | None) -> tuple[str | None, str]:
    """A path's reasoning, if it is marked, and its text without it."""
    if transcript is None:
        return None, ""
    reasoning, content = split_thinking(transcript.text)
    return reasoning, content or ""


def finish_reason(result: RunResult, path_tokens: int | None) -> str:
    """OpenAI's word for the reason why a text ends."""
    out, transcript = result.outcome, result.transcript
    if transcript is not None and (
        transcript.truncated or (path_tokens is not None and transcript.tokens >= path_tokens)
    ):
        return "length"
    return "length" if out.answer is None and out.reason in ("max_tokens", "deadline", "interrupted") else "stop"


def refusal(out: Outcome) -> str | None:
    """Why no path gave an answer, for clients that read OpenAI's fields only; None if one did."""
    return None if out.reason != "no_answer" else "; ".join(out.notes) or out.verdict.why


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
