"""Replies in OpenAI's shapes, whole or as a stream: the winning path's message, the cost of all paths, and the vote.

A client that disconnects cancels every path. The head of a streamed reply is held back until a path or a branch of a
search has begun, or the run has ended, so that an error at the start gets its own status.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import ExitStack, suppress
from typing import Any, Final

from starlette.types import Receive, Scope, Send

from sureenough.answers import split_thinking
from sureenough.answers.kinds import Json
from sureenough.core.events import Action, Extended, Fate, Sampled, Tokens
from sureenough.core.outcome import BUCKETS, Outcome, Snapshot
from sureenough.core.stop_rules import QUANTITIES
from sureenough.drivers.observers import ObservedEvent, PathReport
from sureenough.engines.openai.wire import TOOL_CALL
from sureenough.server.consensus import KEEP_ALIVE, RunResult, ServerState
from sureenough.server.requests import Api, ConsensusRequest
from sureenough.server.responses import (
    ApiError,
    cancel,
    json_response,
    send_events,
    sse_comment,
    sse_event,
    until_disconnected,
)
from sureenough.server.structured import ToolJudge, tool_call_objects

HELD_HEAD: Final = 10.0
"""The most seconds for which the head of a streamed response is held back."""
PROGRESS: Final = 0.5
"""Seconds between progress lines."""
CHUNK: Final = 96
"""Characters per chunk of the winning text."""
DONE: Final = b"data: [DONE]\n\n"


async def respond(state: ServerState, api: Api, body: dict[str, Any], slot: ExitStack) -> ConsensusResponse:
    """The reply by consensus to a parsed body, whole or streamed as it asks: an ASGI application.

    This is all that a server of another kind needs, such as a route that an endpoint plug-in adds to vLLM's own server:

        state = ServerState(settings, backend)  # a `Backend` that gives engines
        async with state.opened():  # for as long as the server runs
            ...

        async def chat(request: Request) -> ASGIApp:  # of a Starlette route; what it returns is called as ASGI
            try:
                body = parse_body(await request.body())
                if not asks_for_consensus(body):
                    return await their_handler(request)
                with state.slot() as slot:  # at most `limits.requests` at once
                    return await respond(state, "chat/completions", body, slot)
            except ApiError as error:
                return error.response()

    Errors of the run become responses. If the client leaves, the run is cancelled, and the application raises
    ClientDisconnect.
    """
    return ConsensusResponse(state, await state.read(body, api), slot.pop_all())


class ConsensusResponse:
    def __init__(self, state: ServerState, request: ConsensusRequest, slot: ExitStack) -> None:
        self.state, self.request, self.slot = state, request, slot
        self.reply = ResponseWriter(request) if request.api == "responses" else ReplyWriter(request)
        self.progress = ProgressLine()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        run = self.state.start(self.request, self.slot, self.progress).task
        try:
            if self.request.stream:
                await send_events(self._events(run), receive, send)
            else:
                await until_disconnected(receive, self._whole(run, scope, receive, send))
        except ApiError as error:  # before the head
            await error.response()(scope, receive, send)
        finally:
            await cancel(run)

    async def _whole(self, run: asyncio.Task[RunResult], scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.wait({run})
        await json_response(self.reply.whole(self._result(run)))(scope, receive, send)

    async def _events(self, run: asyncio.Task[RunResult]) -> AsyncGenerator[bytes]:
        run.add_done_callback(lambda _: self.progress.begun.set())
        with suppress(TimeoutError):
            await asyncio.wait_for(self.progress.begun.wait(), HELD_HEAD)
        if run.done():
            self._result(run)  # an error now gets its own status
        yield self.reply.opening()
        last, sent = "", time.monotonic()
        while not run.done():
            line = self.progress.line()
            if line != last or time.monotonic() - sent > KEEP_ALIVE:
                yield self.reply.progress(line)
                last, sent = line, time.monotonic()
            await asyncio.wait({run}, timeout=PROGRESS)
        try:
            parts = list(self.reply.closing(self._result(run)))
        except Exception as error:
            parts = [self.reply.failure(self.state.error_response(error, self.request.model))]
        for part in parts:
            yield part

    def _result(self, run: asyncio.Task[RunResult]) -> RunResult:
        try:
            return run.result()
        except (Exception, asyncio.CancelledError) as error:
            raise self.state.error_response(error, self.request.model) from error


class ProgressLine:
    """A run's progress as one line: an observer that computes it only on request."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self._snapshot: Snapshot | None = None

    def __call__(self, event: ObservedEvent, actions: Sequence[Action], snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        if isinstance(event, Tokens | PathReport | Sampled | Extended):
            self.begun.set()

    def line(self) -> str:
        """Paths, tokens, the leader and the stop rule's measure."""
        snapshot = self._snapshot
        if snapshot is None:
            return "nothing yet"
        ended = sum(path.fate is not None for path in snapshot.paths)
        pruned = sum(path.fate is Fate.PRUNED for path in snapshot.paths)
        line = f"{len(snapshot.paths)} of {snapshot.budget} paths, {ended} ended, {pruned} pruned"
        line += f", {snapshot.generated:,} tokens"
        votes = snapshot.votes.weights
        if votes:
            leader, weight = next(iter(votes.items()))
            line += f"; leading: {leader[:60]} ({weight / (sum(votes.values()) or 1.0):.0%})"
        measured = snapshot.votes.verdict.measured()
        return line if measured is None else f"{line}; {measured}"


class ReplyWriter:
    def __init__(self, request: ConsensusRequest) -> None:
        self.request = request
        self.id = f"{'chatcmpl' if request.chat else 'cmpl'}-{secrets.token_urlsafe(18)}"
        self.created = int(time.time())

    def whole(self, result: RunResult) -> dict[str, Any]:
        fields, finish_reason = read_result(self.request, result)
        choice: dict[str, Any] = {"index": 0, "finish_reason": finish_reason, "logprobs": None}
        choice |= {"message": {"role": "assistant", **fields}} if self.request.chat else fields
        kind = "chat.completion" if self.request.chat else "text_completion"
        costs = {"usage": usage(result.outcome), "sureenough": consensus_details(result)}
        return self._envelope(kind, [choice]) | costs

    def opening(self) -> bytes:
        return self._chunk({"role": "assistant", "content": ""}) if self.request.chat else b""

    def progress(self, line: str) -> bytes:
        """A line on the run's progress: as reasoning if the request asks for that, else as a comment."""
        if self.request.progress == "reasoning" and self.request.chat:
            return self._chunk({"reasoning_content": line + "\n"})
        return progress_comment(self.request, line)

    def closing(self, result: RunResult) -> Iterator[bytes]:
        fields, finish_reason = read_result(self.request, result)
        for name in ("reasoning_content", "content", "text"):
            yield from (self._chunk({name: piece}) for piece in pieces(fields.get(name) or ""))
        if fields.get("refusal") is not None:
            yield self._chunk({"refusal": fields["refusal"]})
        if "tool_calls" in fields:
            yield self._chunk({"tool_calls": [{"index": i, **call} for i, call in enumerate(fields["tool_calls"])]})
        nothing = {} if self.request.chat else {"text": ""}
        yield self._chunk(nothing, finish_reason, sureenough=consensus_details(result))
        if self.request.usage:
            yield sse_event(self._envelope(self._kind, []) | {"usage": usage(result.outcome)})
        yield DONE

    def failure(self, error: ApiError) -> bytes:
        return sse_event(error.body())

    @property
    def _kind(self) -> str:
        return "chat.completion.chunk" if self.request.chat else "text_completion"

    def _chunk(self, delta: dict[str, Any], finish_reason: str | None = None, **more: Any) -> bytes:
        part = {"delta": delta} if self.request.chat else delta
        choice = {"index": 0, **part, "logprobs": None, "finish_reason": finish_reason}
        return sse_event(self._envelope(self._kind, [choice]) | more)

    def _envelope(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.request.name, "choices": choices}


class ResponseWriter:
    def __init__(self, request: ConsensusRequest) -> None:
        self.request = request
        self.id = f"resp_{secrets.token_urlsafe(18)}"
        self.created = int(time.time())
        self._events = 0

    def whole(self, result: RunResult) -> dict[str, Any]:
        fields, finish_reason = read_result(self.request, result)
        status, cost = "incomplete" if finish_reason == "length" else "completed", usage(result.outcome)
        tokens = {
            "input_tokens": cost["prompt_tokens"],
            "input_tokens_details": {**cost["prompt_tokens_details"], "cache_write_tokens": 0},
            "output_tokens": cost["completion_tokens"],
            "output_tokens_details": cost["completion_tokens_details"],
            "total_tokens": cost["total_tokens"],
        }
        cut = {"incomplete_details": {"reason": "max_output_tokens"}} if status == "incomplete" else {}
        changed = {"output": output_items(fields, status), "usage": tokens, **cut}
        return self._envelope(status) | changed | {"sureenough": consensus_details(result)}

    def opening(self) -> bytes:
        response = self._envelope("in_progress")
        return b"".join(self._event(f"response.{name}", response=response) for name in ("created", "in_progress"))

    def progress(self, line: str) -> bytes:
        return progress_comment(self.request, line)

    def closing(self, result: RunResult) -> Iterator[bytes]:
        """Every item of the output as it grows, and the whole response."""
        response = self.whole(result)
        for index, item in enumerate(response["output"]):
            grows: dict[str, Any] = {"content": []} if "content" in item else {"arguments": ""}
            begun = item | {"status": "in_progress"} | grows
            yield self._event("response.output_item.added", output_index=index, item=begun)
            place = {"item_id": item["id"], "output_index": index}
            for number, part in enumerate(item.get("content", ())):
                yield from self._part(part, place | {"content_index": number})
            if "arguments" in item:
                yield from self._text("function_call_arguments", "arguments", item["arguments"], place)
            yield self._event("response.output_item.done", output_index=index, item=item)
        yield self._event(f"response.{response['status']}", response=response)

    def failure(self, error: ApiError) -> bytes:
        detail = error.body().error
        failed = {"code": detail.code or detail.type, "message": detail.message}
        return self._event("response.failed", response=self._envelope("failed") | {"error": failed})

    def _part(self, part: dict[str, Any], place: dict[str, Any]) -> Iterator[bytes]:
        name = "refusal" if part["type"] == "refusal" else "text"
        more: dict[str, Any] = {"logprobs": []} if part["type"] == "output_text" else {}
        yield self._event("response.content_part.added", **place, part=part | {name: ""})
        yield from self._text(part["type"], name, part[name], place | more)
        yield self._event("response.content_part.done", **place, part=part)

    def _text(self, kind: str, name: str, text: str, place: dict[str, Any]) -> Iterator[bytes]:
        yield from (self._event(f"response.{kind}.delta", **place, delta=piece) for piece in pieces(text))
        yield self._event(f"response.{kind}.done", **place, **{name: text})

    def _event(self, kind: str, **fields: Any) -> bytes:
        data = {"type": kind, "sequence_number": self._events, **fields}
        self._events += 1
        return f"event: {kind}\n".encode() + sse_event(data)

    def _envelope(self, status: str) -> dict[str, Any]:
        fixed = {"id": self.id, "object": "response", "created_at": self.created, "status": status}
        fixed |= {"model": self.request.name, "output": [], "error": None, "incomplete_details": None, "usage": None}
        return fixed | {"background": False, "previous_response_id": None, "store": False, **self.request.repeated}


def output_items(fields: dict[str, Any], status: str) -> list[dict[str, Any]]:
    """What a client reads of a result, as items of the Responses API."""

    def item(kind: str, prefix: str, **more: Any) -> dict[str, Any]:
        return {"id": f"{prefix}_{secrets.token_urlsafe(18)}", "type": kind, "status": status, **more}

    items: list[dict[str, Any]] = []
    parts: list[dict[str, Any]] = []
    calls = fields.get("tool_calls", ())
    if fields.get("reasoning_content"):
        thoughts = {"type": "reasoning_text", "text": fields["reasoning_content"]}
        items.append(item("reasoning", "rs", summary=[], content=[thoughts]))
    if fields["content"] or (fields["refusal"] is None and not calls):
        parts.append({"type": "output_text", "text": fields["content"] or "", "annotations": [], "logprobs": []})
    if fields["refusal"] is not None:
        parts.append({"type": "refusal", "refusal": fields["refusal"]})
    if parts:
        items.append(item("message", "msg", role="assistant", content=parts))
    return [*items, *(item("function_call", "fc", call_id=call["id"], **call["function"]) for call in calls)]


def read_result(request: ConsensusRequest, result: RunResult) -> tuple[dict[str, Any], str]:
    """What a client reads of a result, and why that ends: the winning path, or why there is none.

    The content is only the JSON if the request has a response format.
    """
    out, judge = result.outcome, request.structured
    text = "" if result.transcript is None else result.transcript.text
    reasoning, content = split_thinking(text)
    if isinstance(judge, Json):
        text = content = out.answer or ""
    finish_reason = _finish_reason(result, request.sampling.get("max_path_tokens"))
    if not request.chat:
        return {"text": text}, finish_reason
    fields: dict[str, Any] = {"content": (content or "").partition(TOOL_CALL)[0], "refusal": _refusal(out, judge)}
    if isinstance(judge, ToolJudge) and out.answer is not None and (calls := tool_call_objects(text)):
        fields |= {"content": fields["content"] or None, "tool_calls": calls}
        finish_reason = "tool_calls" if finish_reason == "stop" else finish_reason
    return fields | ({} if reasoning is None else {"reasoning_content": reasoning}), finish_reason


def pieces(text: str) -> Iterator[str]:
    return (text[at : at + CHUNK] for at in range(0, len(text), CHUNK))


def progress_comment(request: ConsensusRequest, line: str) -> bytes:
    """A line on the run's progress as a comment, which clients skip."""
    return sse_comment("" if request.progress == "none" else f"sureenough {line}")


def _finish_reason(result: RunResult, path_tokens: int | None) -> str:
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


def usage(out: Outcome) -> dict[str, Any]:
    """Every token of every path, and their prompts as often as they were sent."""
    completion, prompt = out.tokens.total, max(0, out.tokens.prompt) + max(0, out.tokens.reread)
    return {
        "prompt_tokens": prompt,
        "prompt_tokens_details": {"cached_tokens": out.tokens.cached},
        "completion_tokens": completion,
        "completion_tokens_details": {"reasoning_tokens": out.tokens.reasoning},
        "total_tokens": prompt + completion,
    }


def consensus_details(result: RunResult) -> dict[str, Any]:
    out = result.outcome.to_json()
    names = ("answer", "votes", "reason", "why", "strategy", "started", "pruned", "failed", "abstained", "counted",
             "steps", "paths", "window", "window_paths", "parallel", "hurry",
             "seed", "gate", "tiers", "notes")  # fmt: skip
    more = ("total", "prompt", "reread", "cached", "reread_cached", "overrun_known", "prompt_known")
    tokens = {name: out["tokens"][name] for name in (*BUCKETS, *more)}
    tokens |= {name: max(0, tokens[name]) for name in ("prompt", "reread")}
    measures = {name: out["measure"] if name == result.outcome.verdict.quantity else None for name in QUANTITIES}
    measures["posterior"] = out["posterior"]
    measures |= {name: out[name] for name in ("certificate", "votes_to_certify")}
    path = None if result.transcript is None else result.transcript.path
    return {name: out[name] for name in names} | measures | {"tokens": tokens, "path": path}
